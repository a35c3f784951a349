"""What of a recipe is offered to which machine, and how to get what has none."""

from pathlib import Path

import msgspec
import pytest

from app.core.engine_store import EngineListing
from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.host import InstallHost
from app.engine_store.recipe import read_recipes
from app.engine_store.version_store import VersionManifest, VersionState, VersionStore
from app.gateway.engines.engine_listing import list_engines, offers_of
from engines.registry import ADAPTERS
from tests.unit.advisor.boxes import Box, gpu

LLAMA_CPP = read_recipes()["llama.cpp"]


def names(host: InstallHost) -> tuple[list[str], list[str]]:
    """The variants that could be installed, and those that lack something here."""
    offers = offers_of(LLAMA_CPP, host, [], VersionState())
    return [offer.variant for offer in offers if not offer.unfit], [offer.variant for offer in offers if offer.unfit]


def test_a_linux_box_without_a_gpu_is_offered_what_its_processor_runs() -> None:
    fit, lacking_builds = names(InstallHost(platform="linux", architecture="x86_64", glibc="2.39"))
    assert fit[0] == "cpu"
    assert {"server", "vulkan"} <= set(fit)
    assert {"cuda-13", "cuda-12", "rocm", "sycl"} <= set(lacking_builds)
    assert not [name for name in (*fit, *lacking_builds) if name.endswith(("-win", "-mac", "arm64"))]


def test_the_newest_cuda_its_driver_runs_comes_first() -> None:
    new = InstallHost(platform="linux", architecture="x86_64", glibc="2.39", drivers={"nvidia": "580.65"})
    old = InstallHost(platform="linux", architecture="x86_64", glibc="2.39", drivers={"nvidia": "550.90"})
    assert names(new)[0][0] == "cuda-13"
    assert names(old)[0][0] == "cuda-12"
    assert "cuda-13" in names(old)[1]


def test_an_old_system_is_told_which_builds_it_is_too_old_for() -> None:
    fit, lacking_builds = names(
        InstallHost(platform="linux", architecture="x86_64", glibc="2.31", drivers={"nvidia": "580"})
    )
    assert fit[0] == "cpu"
    assert {"cuda-13", "server", "vulkan"} <= set(lacking_builds)


DEBIAN_12 = InstallHost(platform="linux", architecture="x86_64", glibc="2.36", drivers={"nvidia": "580.65"})


def test_a_card_on_a_system_too_old_for_its_build_gets_vulkan_first_and_why() -> None:
    offers = offers_of(LLAMA_CPP, DEBIAN_12, [], VersionState())
    assert offers[0].variant == "vulkan"
    assert offers[0].note == (
        "The ready-made build for CUDA needs glibc 2.39 and this system has 2.36, so the build for Vulkan is offered "
        "first. With NVIDIA's CUDA toolkit (nvcc and cuBLAS) on this computer, one for CUDA is compiled instead."
    )
    assert not any(offer.note for offer in offers[1:])
    unfit = {offer.variant: offer.unfit for offer in offers if offer.unfit}
    assert unfit["cuda-13"] == "It needs glibc 2.39 or newer; this system has 2.36."
    assert unfit["native-cuda"].startswith("It is compiled here, which needs NVIDIA's CUDA toolkit")


@pytest.mark.parametrize(
    ("drivers", "toolkit", "first"),
    [
        ({"nvidia": "580.65"}, "cuda", "native-cuda"),
        ({"amd": ""}, "rocm", "native-rocm"),
        ({"intel": ""}, "", "vulkan"),
    ],
)
def test_with_its_makers_toolkit_a_build_for_the_card_is_compiled(
    drivers: dict[str, str], toolkit: str, first: str
) -> None:
    host = msgspec.structs.replace(DEBIAN_12, drivers=drivers, toolkits=frozenset(filter(None, [toolkit])))
    offer = offers_of(LLAMA_CPP, host, [], VersionState())[0]
    assert offer.variant == first
    assert ("compiled here is offered first" in offer.note) is bool(toolkit)


def test_rhel_9_compiles_for_vulkan_or_uses_the_processor() -> None:
    rhel = msgspec.structs.replace(DEBIAN_12, glibc="2.34")
    assert offers_of(LLAMA_CPP, rhel, [], VersionState())[0].variant == "cpu"
    compiling_host = msgspec.structs.replace(rhel, toolkits=frozenset({"vulkan"}))
    assert offers_of(LLAMA_CPP, compiling_host, [], VersionState())[0].variant == "native-vulkan"


def test_a_system_of_today_and_one_without_a_card_have_nothing_to_explain() -> None:
    today = msgspec.structs.replace(DEBIAN_12, glibc="2.39", toolkits=frozenset({"cuda"}))
    offer = offers_of(LLAMA_CPP, today, [], VersionState())[0]
    assert (offer.variant, offer.note) == ("cuda-13", "")
    bare = msgspec.structs.replace(DEBIAN_12, drivers={})
    offer = offers_of(LLAMA_CPP, bare, [], VersionState())[0]
    assert (offer.variant, offer.note) == ("cpu", "")


def test_the_engines_page_and_list_say_why_vulkan_comes_first(tmp_path: Path) -> None:
    machine = Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 3090", "8.6", gib=24),)).machine()
    engine_list = list_engines(EngineCatalogue(ADAPTERS, VersionStore(tmp_path)), machine, DEBIAN_12, [])
    advice = next(entry.advice for entry in engine_list if entry.id == "llama.cpp")
    assert "so the build for Vulkan is offered first" in advice


def test_windows_and_macs_are_offered_their_own() -> None:
    windows = InstallHost(platform="win32", architecture="x86_64", drivers={"amd": ""})
    assert names(windows)[0][0] == "rocm-win"
    mac = InstallHost(platform="darwin", architecture="arm64")
    assert names(mac)[0][:1] == ["metal"]
    assert names(mac)[1] == []


def test_without_anything_for_a_system_everything_is_listed_with_the_reason() -> None:
    fit, lacking_builds = names(InstallHost(platform="freebsd", architecture="riscv64"))
    assert fit == []
    assert len(lacking_builds) == len(LLAMA_CPP.variants)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, EngineListing]:
    """Every engine on a computer for TensorRT-LLM, with nothing on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = Box(gpus=(gpu("nvidia", "NVIDIA H200", "9.0", gib=141),)).machine()
    host = InstallHost(platform="linux", architecture="x86_64", glibc="2.39", drivers={"nvidia": "580.65"})
    return {
        engine.id: engine
        for engine in list_engines(EngineCatalogue(ADAPTERS, VersionStore(tmp_path)), machine, host, [])
    }


def test_what_suits_and_is_not_installed_by_us_says_how_to_get_it(here: dict[str, EngineListing]) -> None:
    suits = here["tensorrt-llm"]
    assert suits.rank is not None
    assert suits.advice.endswith(ADAPTERS["tensorrt-llm"].descriptor.obtained)
    assert "docker pull" in here["tgi"].advice


def test_what_does_not_suit_or_comes_by_itself_does_not(here: dict[str, EngineListing]) -> None:
    assert here["mlc-llm"].rank is None
    assert "PATH" not in here["mlc-llm"].advice
    assert "PATH" not in here["vllm"].advice


def test_what_was_tried_over_several_computers_is_said_of_those_that_can(here: dict[str, EngineListing]) -> None:
    assert "never run over several computers" in here["sglang"].span
    assert "does not start it" in here["mlx-lm"].span
    assert not here["openvino"].span


@pytest.mark.parametrize(
    ("platform", "isa", "expected_count"),
    [("linux", ["avx2", "amx_int8"], 1), ("linux", ["avx2"], 0), ("win32", ["amx_int8"], 0)],
)
def test_a_build_that_makes_more_of_the_processor_is_named(
    tmp_path: Path, platform: str, isa: list[str], expected_count: int
) -> None:
    host = InstallHost(platform=platform, architecture="x86_64", glibc="2.36", isa=isa)
    assert advice_for(VersionStore(tmp_path), host).count("AMX") == expected_count


def test_such_a_build_is_not_named_where_it_is_or_failed(tmp_path: Path) -> None:
    host = InstallHost(platform="linux", architecture="x86_64", isa=["amx_int8"])
    native = LLAMA_CPP.find_variant("native")
    assert native is not None
    failed_store, here = VersionStore(tmp_path / "failed"), VersionStore(tmp_path / "here")
    failed_store.change_state("llama.cpp", lambda _state: VersionState(bad={f"{native.version}-native": "It crashed."}))
    assert "AMX" not in advice_for(failed_store, host)
    stage = tmp_path / "stage"
    stage.mkdir()
    here.publish_version(
        stage, VersionManifest(engine="llama.cpp", version=native.version, variant="native", backend="cpu", kind="venv")
    )
    assert "AMX" not in advice_for(here, host)


def advice_for(shelf: VersionStore, host: InstallHost) -> str:
    engine_list = list_engines(EngineCatalogue(ADAPTERS, shelf), Box().machine(), host, [])
    return next(entry.advice for entry in engine_list if entry.id == "llama.cpp")
