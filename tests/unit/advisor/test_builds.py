"""Engines as they can be had: what Roundhouse has no build of never stands before what it has one of."""

import pytest

from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core.advice import Advice, Intent, Plan
from app.engine_store.host import InstallHost, described_host
from app.engine_store.recipe import read_recipes
from app.gateway.advising.engine_table import engines_for
from tests.unit.advisor.boxes import engine
from tests.unit.advisor.engines import engines_on
from tests.unit.advisor.made_models import EIGHT, GIANT, SEVENTY, Made
from tests.unit.advisor.test_recipes import MATRIX, MI300X, RTX, TWO_3090, Json, linux, mac, make_machine, windows

_MACHINES = {
    "RTX on Windows": windows(RTX),
    "RTX": linux(RTX),
    "RTX 2080 Ti": linux("RTX 2080 Ti"),
    "GTX 1080 Ti": linux("GTX 1080 Ti"),
    "2 x P40": linux({"name": "Tesla P40", "count": 2}),
    "V100": linux("Tesla V100"),
    "RX 7900 XTX": linux("RX 7900 XTX"),
    "RX 9070 XT": windows("RX 9070 XT"),
    "RX 580": windows("RX 580"),
    "8 x MI300X": MI300X,
    "2 x RTX 3090": TWO_3090,
    "Mac": mac("Apple M3 Max", 64),
    "small Mac": mac("Apple M2", 8),
}


def _traits(name: str, machine: Json) -> EngineTraits:
    return engines_on(make_machine(machine))[name]


def _plans(machine: Json, model: Made | None = None, intent: Intent = Intent.CHAT) -> list[Plan]:
    return _advice(machine, model, intent).plans


def _advice(machine: Json, model: Made | None, intent: Intent) -> Advice:
    known_machine = make_machine(machine)
    candidates, name = (model.every(), model.name) if model else ([], "")
    return build_advice(
        PlanInputs(
            traits=engines_on(known_machine), machine=known_machine, candidates=candidates, model=name, intent=intent
        )
    )


@pytest.mark.slow(cases=10)
@pytest.mark.parametrize("intent", [Intent.CHAT, Intent.AGENT, Intent.TEAM])
@pytest.mark.parametrize("model", [None, EIGHT, SEVENTY, GIANT], ids=["none", "8B", "70B", "giant"])
@pytest.mark.parametrize("machine", _MACHINES.values(), ids=_MACHINES)
def test_what_cannot_be_had_never_stands_before_what_can(machine: Json, model: Made | None, intent: Intent) -> None:
    plans = _plans(machine, model, intent)
    order = [plan.obtainable for plan in plans]
    assert order == sorted(order, reverse=True)
    assert all(plan.obtainable != bool(plan.missing) for plan in plans)
    assert all(sentence.endswith(".") for plan in plans for sentence in plan.missing)


@pytest.mark.slow(cases=66)
@pytest.mark.parametrize("name", [name for name, row in MATRIX.items() if row.model is None])
def test_every_machine_of_the_guide_is_given_something_that_can_be_had(name: str) -> None:
    assert MATRIX[name].advice().plans[0].obtainable


def test_exllama_on_windows_is_reached_by_way_of_wsl() -> None:
    first, second, *_ = _plans(windows(RTX), EIGHT)
    assert (first.engine, first.is_preferred) == ("llama.cpp", False)
    assert (second.engine, second.is_preferred) == ("exllamav2", True)
    assert "Windows" in second.missing[0]
    assert "wsl --install" in second.steps[0]
    assert "roundhouse engines install exllamav2" in second.steps[1]


def test_what_only_a_mac_runs_is_not_reached_by_way_of_wsl() -> None:
    refused_plans = {plan.engine: plan for plan in _plans(windows(RTX), EIGHT) if plan.refused}
    assert refused_plans["vllm"].steps
    assert not refused_plans["mlx-lm"].steps


def test_an_engine_without_a_recipe_is_attached() -> None:
    vllm = next(plan for plan in _plans(MI300X) if plan.engine == "vllm")
    assert vllm.missing == ["Roundhouse has no build of vLLM for AMD cards (ROCm) on Linux (x86_64)."]
    assert any("roundhouse attach" in step for step in vllm.steps)


def test_an_accelerator_of_amd_is_not_run_by_vulkan() -> None:
    first = _plans(MI300X)[0]
    assert (first.engine, first.backend) == ("llama.cpp", "rocm")


def test_one_old_server_card_is_a_person_s_card() -> None:
    assert _plans(linux("Tesla T4"), EIGHT)[0].engine == "llama.cpp"
    assert _plans(linux("Tesla T4"), EIGHT, Intent.TEAM)[0].engine == "vllm"


def test_what_is_installed_can_be_had_whoever_made_it() -> None:
    machine = make_machine(MI300X)
    engines = [engine("vllm", "rocm")]
    host = described_host(machine)
    assert engines_for(machine, read_recipes(), engines, host)["vllm"].missing == ()
    assert engines_for(machine, read_recipes(), [], host)["vllm"].missing


def test_a_build_that_this_very_system_cannot_start_is_named() -> None:
    machine = make_machine(linux(RTX))
    old = InstallHost(platform="linux", architecture="x86_64", glibc="2.35", drivers={"nvidia": "580.10"})
    llama = engines_for(machine, read_recipes(), [], old)["llama.cpp"]
    assert not llama.missing, "it runs by Vulkan"
    assert "cuda" not in {target.backend for target in llama.targets}
    assert _traits("llama.cpp", linux(RTX)).missing == ()


def test_a_driver_that_is_too_old_is_the_reason() -> None:
    machine = make_machine(linux(RTX))
    old = InstallHost(platform="linux", architecture="x86_64", glibc="2.39", drivers={"nvidia": "470.0"})
    (sentence,) = engines_for(machine, read_recipes(), [], old)["vllm"].missing
    assert sentence.startswith("vLLM: ")
    assert "470.0" in sentence


def test_memory_that_is_short_is_counted() -> None:
    plans = _plans(TWO_3090, SEVENTY)
    short = next(plan for plan in plans if not plan.obtainable and not plan.refused)
    assert any("does not fit" in sentence and "GiB" in sentence for sentence in short.missing)


def test_a_processor_nothing_is_built_for_is_named() -> None:
    first = _plans(linux(cpu="SpacemiT K1", architecture="riscv64"))[0]
    assert not first.obtainable
    assert first.missing == ["Roundhouse has no build of llama.cpp for processors on Linux (riscv64)."]


def test_an_accelerator_no_engine_computes_on_is_named() -> None:
    warnings = _plans(linux("Gaudi 3"))[0].warnings
    assert any("No engine that Roundhouse runs computes on" in warning and "Gaudi 3" in warning for warning in warnings)
