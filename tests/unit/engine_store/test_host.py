from pathlib import Path

import msgspec
import pytest

from app.engine_store import toolkits
from app.engine_store.host import InstallHost, best_variant, is_built_for, this_host, unfit_reason, version_numbers
from app.engine_store.recipe import EngineVariant, InstallRecipe, SmokeModel, VariantKind
from app.engine_store.toolkits import Toolkit, find_compiler

HERE = InstallHost(platform="linux", architecture="x86_64", glibc="2.36")


def variant(**fields: object) -> EngineVariant:
    base: dict[str, object] = {
        "name": "cpu",
        "kind": VariantKind.VENV,
        "version": "1",
        "backend": "cpu",
        "platforms": ("linux",),
        "package": "x",
        "requires": ("x==1",),
    }
    return EngineVariant(**{**base, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"platforms": ("darwin", "win32")}, "It is made for macOS and Windows."),
        ({"architectures": ("arm64",)}, "It is made for arm64 processors; this one is x86_64."),
        ({"glibc": "2.39"}, "It needs glibc 2.39 or newer; this system has 2.36."),
        ({"driver": {"nvidia": "580"}}, "It needs a GPU by NVIDIA with driver 580 or newer; none was found."),
        ({"driver": {"amd": ""}}, "It needs a GPU by AMD; none was found."),
        ({}, ""),
        ({"glibc": "2.4"}, ""),
        ({"platforms": ("linux",), "glibc": "2.36"}, ""),
    ],
)
def test_a_variant_is_refused_in_a_sentence(fields: dict[str, object], sentence: str) -> None:
    assert unfit_reason(variant(**fields), HERE) == sentence


@pytest.mark.parametrize(
    ("driver", "sentence"),
    [("570.86", "It needs NVIDIA's driver 580 or newer; this machine has 570.86."), ("580.1", ""), ("", "")],
)
def test_a_driver_that_is_known_to_be_too_old_is_named(driver: str, sentence: str) -> None:
    host = InstallHost(platform="linux", architecture="x86_64", drivers={"nvidia": driver})
    assert unfit_reason(variant(driver={"nvidia": "580"}), host) == sentence


def test_a_variant_is_built_for_systems_and_processors() -> None:
    assert is_built_for(variant(glibc="2.39"), HERE), "what this system lacks is another question"
    assert not is_built_for(variant(platforms=("darwin",)), HERE)
    assert not is_built_for(variant(architectures=("arm64",)), HERE)


def test_what_nobody_measured_is_no_size() -> None:
    assert (variant().download_bytes, variant().disk_bytes) == (0, 0)


def test_other_c_libraries_and_a_missing_uv_are_named() -> None:
    musl = InstallHost(platform="linux", architecture="x86_64")
    assert "which this system does not have" in unfit_reason(variant(glibc="2.17"), musl)
    assert "needs uv" in unfit_reason(variant(), InstallHost(platform="linux", architecture="x86_64", has_uv=False))


def test_the_first_variant_that_fits_is_the_best_and_a_named_one_is_taken_as_it_is() -> None:
    cuda, cpu = variant(name="cuda", driver={"nvidia": "580"}), variant()
    recipe = InstallRecipe(engine="x", folder=__import__("pathlib").Path(), smoke=SmokeModel(), variants=(cuda, cpu))
    assert best_variant(recipe, HERE) is cpu
    assert best_variant(recipe, HERE, "cuda") is cuda
    assert best_variant(recipe, HERE, "rocm") is None


def test_versions_are_compared_as_numbers() -> None:
    assert version_numbers("2026.10.11549") > version_numbers("2026.9.99999")
    assert version_numbers("b11549") > version_numbers("b9999")


def test_this_host_is_known() -> None:
    host = this_host({})
    assert host.platform
    assert host.architecture


def test_a_build_that_is_compiled_here_needs_its_toolkit() -> None:
    built_variant = variant(builds=True, toolkit="cuda", driver={"nvidia": "525"})
    card = InstallHost(platform="linux", architecture="x86_64", glibc="2.36", drivers={"nvidia": "580"})
    assert "needs a GPU by NVIDIA" in unfit_reason(built_variant, HERE), "without a card the toolkit is no matter"
    assert "needs NVIDIA's CUDA toolkit (nvcc and cuBLAS)" in unfit_reason(built_variant, card)
    assert unfit_reason(built_variant, msgspec.structs.replace(card, toolkits=frozenset({"cuda"}))) == ""


def test_a_toolkit_is_its_compiler_with_a_header_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    compiler = tmp_path / "bin" / "nvcc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    toolkit = Toolkit(title="T", compiler="nvcc", folders=(str(compiler.parent),), header="cublas_v2.h")
    assert find_compiler(toolkit, includes=[]) is None, "a compiler alone builds nothing"
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cublas_v2.h").write_text("")
    assert find_compiler(toolkit, includes=[]) == compiler
    assert find_compiler(msgspec.structs.replace(toolkit, folders=()), includes=[]) is None


def test_the_toolkits_that_are_here_are_those_with_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    here = toolkits.TOOLKITS["cuda"]
    monkeypatch.setattr(toolkits, "find_compiler", lambda toolkit: Path("/nvcc") if toolkit is here else None)
    assert toolkits.find_toolkits() == {"cuda": str(Path("/nvcc"))}
