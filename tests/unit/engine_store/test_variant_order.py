"""What is offered first where a computer's C library is older than the builds for its GPU, and what is said of that."""

from pathlib import Path

import msgspec
import pytest

from app.engine_store.host import (
    InstallHost,
    best_variant,
    described_host,
    host_of,
    installable_engines,
    order_reason,
    order_variants,
    unfit_reason,
    variant_gain,
)
from app.engine_store.recipe import EngineVariant, InstallRecipe, SmokeModel
from app.hardware.description import machine_from
from tests.unit.engine_store.test_host import HERE, variant

CUDA = variant(name="cuda", backend="cuda", driver={"nvidia": "580"}, glibc="2.38")
VULKAN = variant(name="vulkan", backend="vulkan", driver={"nvidia": ""}, glibc="2.17")
COMPILED = variant(name="native-cuda", backend="cuda", driver={"nvidia": "525"}, builds=True, toolkit="cuda")
CPU = variant()
CARD = msgspec.structs.replace(HERE, drivers={"nvidia": "580.1"})
WITH_TOOLKIT = msgspec.structs.replace(CARD, toolkits=frozenset({"cuda"}))
NEWER = msgspec.structs.replace(CARD, glibc="2.38")


def recipe_of(*variants: EngineVariant) -> InstallRecipe:
    return InstallRecipe(engine="x", folder=Path(), smoke=SmokeModel(), variants=variants)


def names(recipe: InstallRecipe, host: InstallHost) -> list[str]:
    return [each.name for each in order_variants(recipe, host)]


def test_another_way_to_the_gpu_comes_before_the_processor_where_the_builds_are_too_new() -> None:
    recipe = recipe_of(CUDA, CPU, VULKAN)
    assert names(recipe, CARD) == ["cuda", "vulkan", "cpu"]
    assert best_variant(recipe, CARD) is VULKAN
    for host in (NEWER, HERE, msgspec.structs.replace(CARD, glibc=None), msgspec.structs.replace(CARD, glibc="")):
        assert names(recipe, host) == ["cuda", "cpu", "vulkan"], host


def test_the_order_stays_where_another_ready_build_for_that_backend_runs() -> None:
    older = variant(name="cuda12", backend="cuda", driver={"nvidia": "525"}, glibc="2.17")
    assert names(recipe_of(CUDA, CPU, older), CARD) == ["cuda", "cpu", "cuda12"]
    assert names(recipe_of(CUDA, CPU, COMPILED), WITH_TOOLKIT) == ["cuda", "native-cuda", "cpu"], "it is no ready one"


def test_the_order_stays_where_the_driver_is_too_old_as_well() -> None:
    old = msgspec.structs.replace(CARD, drivers={"nvidia": "470"})
    assert names(recipe_of(CUDA, CPU, VULKAN), old) == ["cuda", "cpu", "vulkan"]
    assert order_reason(recipe_of(CUDA, CPU, VULKAN), old) == ""


@pytest.mark.parametrize(
    ("recipe", "host", "reason"),
    [
        (
            recipe_of(CUDA, VULKAN, CPU),
            CARD,
            (
                "The ready-made build for CUDA needs glibc 2.38 and this system has 2.36, so the build for Vulkan is "
                "offered first."
            ),
        ),
        (
            recipe_of(CUDA, COMPILED, VULKAN, CPU),
            CARD,
            (
                "The ready-made build for CUDA needs glibc 2.38 and this system has 2.36, so the build for Vulkan is "
                "offered first. With NVIDIA's CUDA toolkit (nvcc and cuBLAS) on this computer, one for CUDA is "
                "compiled instead."
            ),
        ),
        (
            recipe_of(CUDA, COMPILED, VULKAN, CPU),
            WITH_TOOLKIT,
            (
                "The ready-made build for CUDA needs glibc 2.38 and this system has 2.36, so a build for CUDA that is "
                "compiled here is offered first."
            ),
        ),
        (recipe_of(CUDA, COMPILED, VULKAN, CPU), NEWER, ""),
        (recipe_of(CUDA), CARD, ""),
    ],
)
def test_why_another_build_comes_first_is_said(recipe: InstallRecipe, host: InstallHost, reason: str) -> None:
    assert order_reason(recipe, host) == reason


def test_a_gain_is_said_of_a_processor_that_has_it_and_a_variant_that_runs() -> None:
    amx = variant(gains={"amx_int8": "It uses AMX.", "avx512f": "It uses AVX-512."})
    assert variant_gain(amx, msgspec.structs.replace(HERE, isa=("avx512f", "avx2"))) == "It uses AVX-512."
    assert variant_gain(amx, msgspec.structs.replace(HERE, isa=("avx2",))) == ""
    assert variant_gain(amx, msgspec.structs.replace(HERE, isa=("avx512f",), platform="win32")) == ""


def test_an_engine_can_be_installed_if_any_of_its_variants_runs() -> None:
    recipes = {"a": recipe_of(CUDA, CPU), "b": recipe_of(CUDA), "c": recipe_of()}
    assert installable_engines(recipes, HERE) == {"a"}
    assert installable_engines(recipes, NEWER) == {"a", "b"}


def test_a_driver_of_exactly_the_least_version_will_do() -> None:
    assert unfit_reason(CUDA, msgspec.structs.replace(NEWER, drivers={"nvidia": "580"})) == ""
    assert unfit_reason(CUDA, msgspec.structs.replace(NEWER, drivers={"nvidia": "579.9"})) != ""


DESCRIBED = b'{"os": "Windows", "architecture": "amd64", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}'


def test_a_described_machine_is_judged_by_its_own_system_and_cards() -> None:
    machine = machine_from(DESCRIBED)
    host = described_host(machine)
    assert (host.platform, host.architecture, host.glibc) == ("win32", "x86_64", None)
    assert list(host.drivers) == ["nvidia"]
    assert "made for Linux" in unfit_reason(CPU, host)
    assert unfit_reason(variant(platforms=("win32",), driver={"nvidia": "580"}, glibc="2.99"), host) == ""


def test_this_very_machine_has_its_own_processor_and_cards() -> None:
    machine = machine_from(DESCRIBED)
    isa = msgspec.structs.replace(machine.cpu.isa, value=["avx2", "fma"])
    machine = msgspec.structs.replace(machine, cpu=msgspec.structs.replace(machine.cpu, isa=isa))
    assert list(host_of(machine).isa) == ["avx2", "fma"]
    assert list(host_of(machine).drivers) == ["nvidia"]
