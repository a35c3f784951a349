"""The decision guide's recipes and its acceptance matrix, each as a row: machine, use, who must be first, who never."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.advisor.choosing.intents import build_workload
from app.advisor.choosing.rules import choose_engine, rank_engines
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core.advice import Advice, Intent, Plan
from app.core.machine import Machine
from app.hardware.description import machine_from
from tests.unit.advisor.boxes import engine
from tests.unit.advisor.engines import ENGINES, engines_on
from tests.unit.advisor.made_models import EIGHT, GIANT, MIXTURE, SEVENTY, THIRTY_TWO, Made

Json = dict[str, Any]


def linux(*gpus: str | Json, cpu: str = "AMD Ryzen 9 7950X", ram_gb: float = 64, architecture: str = "x86_64") -> Json:
    cards = [{"name": gpu} if isinstance(gpu, str) else gpu for gpu in gpus]
    return {"os": "linux", "architecture": architecture, "cpu": cpu, "ram_gb": ram_gb, "gpus": cards}


def windows(
    *gpus: str | Json, cpu: str = "Intel Core i7-13700K", ram_gb: float = 64, architecture: str = "x86_64"
) -> Json:
    return linux(*gpus, cpu=cpu, ram_gb=ram_gb, architecture=architecture) | {"os": "windows"}


def several(name: str, count: int) -> Json:
    return {"name": name, "count": count}


def mac(chip: str, ram_gb: float) -> Json:
    return {"os": "macos", "cpu": chip, "ram_gb": ram_gb}


@dataclass(frozen=True)
class Row:
    """`first` may be any of several; `then` follow it in this order; `never` are refused or absent."""

    machine: Json
    first: str
    then: tuple[str, ...] = ()
    intent: Intent = Intent.CHAT
    never: tuple[str, ...] = ()
    model: Made | None = None
    formats: tuple[str, ...] = ()
    options: Json = field(default_factory=dict)

    def advice(self) -> Advice:
        candidates = self.model.every(*self.formats) if self.model else []
        machine = make_machine(self.machine)
        name = self.model.name if self.model else ""
        return build_advice(
            PlanInputs(
                traits=engines_on(machine),
                machine=machine,
                candidates=candidates,
                model=name,
                intent=self.intent,
                **self.options,
            )
        )


def make_machine(machine: Json) -> Machine:
    return machine_from(msgspec.json.encode(machine))


RTX = "RTX 4090"
EPYC = linux(cpu="AMD EPYC 9654", ram_gb=384)
LAPTOP = linux(cpu="AMD Ryzen 7 7730U", ram_gb=16)
H100 = linux(several("H100", 8), ram_gb=1024)
H200 = linux(several("H200", 8), ram_gb=2048)
B200 = linux(several("B200", 8), ram_gb=2048)
MI300X = linux(several("MI300X", 8), ram_gb=2048)
TWO_3090 = linux(several("RTX 3090", 2))
MAC = mac("Apple M3 Max", 64)
SNAPDRAGON = windows(cpu="Snapdragon X Elite", ram_gb=32, architecture="arm64")
CODING, AGENT, RAG = Intent.CODING, Intent.AGENT, Intent.RAG
STRUCTURED, BATCH, TEAM, API = Intent.STRUCTURED, Intent.BATCH, Intent.TEAM, Intent.API
FLEET, APP, BROWSER = Intent.FLEET, Intent.APP, Intent.BROWSER
SERVERS = "vllm sglang"

RECIPES = Path(__file__).parents[2] / "data" / "recipes.jsonl"
"""Machine and use alone, one recipe a line; `make bench` counts the same ones."""


def recipes() -> dict[str, Row]:
    return {name: msgspec.convert(row, Row) for name, row in _read_recipes()}


def _read_recipes() -> Iterator[tuple[str, Json]]:
    for line in RECIPES.read_text("utf-8").splitlines():
        row = msgspec.json.decode(line)
        yield row.pop("name"), {**row, "first": " ".join(row["first"])}


WITH_MODELS: dict[str, Row] = {
    "Mac with a GGUF file": Row(MAC, "llama.cpp", model=EIGHT, formats=("gguf",), options={"is_fixed": True}),
    "one RTX, GGUF only": Row(linux(RTX), "llama.cpp", model=EIGHT, formats=("gguf",), never=("exllamav2",)),
    "one RTX, no EXL2": Row(
        linux(RTX), "exllamav3", ("llama.cpp",), model=EIGHT, formats=("gguf", "exl3"), never=("exllamav2",)
    ),
    "one RTX, a model that spills": Row(linux("RTX 5070"), "llama.cpp", model=THIRTY_TWO),
    "one RTX, a MoE that fits": Row(linux(RTX), "exllamav3", ("llama.cpp",), model=MIXTURE),
    "one RTX, a MoE that does not fit": Row(linux("RTX 4070"), "llama.cpp", model=MIXTURE),
    "two RTX, a MoE for one": Row(TWO_3090, "llama.cpp", ("exllamav3",), model=MIXTURE),  # clearly faster on Ampere
    "two RTX, a model over both": Row(TWO_3090, "exllamav3", ("vllm",), model=SEVENTY),
    "internal team, MoE": Row(H100, "sglang", ("vllm",), TEAM, model=MIXTURE),
    "app with a named model": Row(
        LAPTOP, "llama.cpp", ("onnxruntime-genai",), intent=APP, model=EIGHT, formats=("gguf", "safetensors")
    ),
    "RTX and Radeon, a model for one": Row(linux(RTX, "RX 7900 XTX"), "exllamav2", ("llama.cpp",), model=EIGHT),
    "RTX and Radeon, a model for both": Row(
        linux(RTX, "RX 7900 XTX"), "llama.cpp", model=SEVENTY, formats=("gguf", "exl2")
    ),
    "a model too large for all": Row(linux(RTX, ram_gb=32), "exllamav3", model=GIANT),
}
MATRIX = {**recipes(), **WITH_MODELS}


def usable(advice: Advice) -> list[Plan]:
    return [plan for plan in advice.plans if not plan.refused]


@pytest.mark.parametrize("name", MATRIX)
def test_the_guide_s_answer(name: str) -> None:
    row = MATRIX[name]
    plans = usable(row.advice())
    order = [plan.engine for plan in plans]
    assert order[0] in row.first.split()
    places = [order.index(engine_id) for engine_id in (order[0], *row.then)]
    assert places == sorted(places), order
    assert not set(order) & set(row.never)


@pytest.mark.slow(cases=32)
@pytest.mark.parametrize("name", MATRIX)
def test_what_never_runs_is_refused_in_words(name: str) -> None:
    row = MATRIX[name]
    refused_plans = {plan.engine: plan for plan in row.advice().plans if plan.refused}
    assert set(row.never) <= set(refused_plans)
    for plan in refused_plans.values():
        assert plan.refused.endswith(".")
        assert plan.reasons[0].text == plan.refused


@pytest.mark.slow(cases=64)
@pytest.mark.parametrize("name", [name for name, row in MATRIX.items() if not row.model])
def test_the_choice_for_one_person_agrees_with_the_plans(name: str) -> None:
    machine = make_machine(MATRIX[name].machine)
    first = usable(build_advice(PlanInputs(traits=ENGINES, machine=machine)))[0]
    every_engine = [engine(engine_id, "any") for engine_id in ENGINES]
    assert choose_engine(ENGINES, machine, every_engine).engine == first.engine


MULTI_RTX = [
    linux(several(card, count))
    for card in ("RTX 2080 Ti", "RTX 3090", "RTX 5090", "RTX A6000")
    for count in (2, 3, 4, 8)
]


@pytest.mark.slow(cases=87)
@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize("machine", MULTI_RTX, ids=lambda machine: f"{machine['gpus'][0]['count']}x")
def test_llama_cpp_is_never_first_on_several_rtx_cards(machine: Json, intent: Intent) -> None:
    order = [
        row.traits.id for row in rank_engines(ENGINES, make_machine(machine), build_workload(intent)) if not row.refused
    ]
    assert order[0] != "llama.cpp"


def test_a_gguf_file_on_several_cards_is_run_by_what_loads_it() -> None:
    row = Row(TWO_3090, "llama.cpp", model=SEVENTY, formats=("gguf",), options={"is_fixed": True})
    first = usable(row.advice())[0]
    assert (first.engine, first.parallelism.mode) == ("llama.cpp", "pipeline")
    assert any("ExLlamaV3" in reason.text and "EXL3" in reason.text for reason in first.reasons)


def test_vllm_on_windows_is_explained_by_wsl() -> None:
    advice = Row(windows(RTX), "lmdeploy", intent=TEAM).advice()
    assert "WSL 2" in next(plan.refused for plan in advice.plans if plan.engine == "vllm")
    assert any("WSL 2" in reason.text for reason in advice.plans[0].reasons)


def test_rpc_is_refused_for_production() -> None:
    advice = Row(TWO_3090, "dynamo", intent=FLEET).advice()
    assert "RPC" in next(plan.refused for plan in advice.plans if plan.engine == "llama.cpp")


def test_where_a_fleet_has_nothing_else_llama_cpp_is_warned_of_rpc() -> None:
    first = Row(EPYC, "llama.cpp", intent=FLEET).advice().plans[0]
    assert first.engine == "llama.cpp"
    assert any("RPC" in warning for warning in first.warnings)


def test_an_npu_is_used_by_the_engine_that_can() -> None:
    machine = make_machine(SNAPDRAGON | {"npu": "Qualcomm Hexagon"})
    plans = {plan.engine: plan for plan in build_advice(PlanInputs(traits=ENGINES, machine=machine)).plans}
    assert plans["onnxruntime-genai"].backend == "npu"
    assert plans["llama.cpp"].backend == "cpu"


def test_tgi_is_for_attaching_only() -> None:
    plan = next(plan for plan in Row(H100, SERVERS).advice().plans if plan.engine == "tgi")
    assert "archived" in plan.refused
    assert not plan.can_install


def test_a_missing_exl2_is_said() -> None:
    row = Row(linux(RTX), "llama.cpp", model=EIGHT, formats=("gguf",))
    first = row.advice().plans[0]
    assert any("no version of Made 8B is known that ExLlamaV2 loads (EXL2)" in reason.text for reason in first.reasons)


def test_an_old_card_is_told_what_exllama_needs() -> None:
    advice = Row(linux("RTX 2080 Ti"), "llama.cpp").advice()
    refusal = next(plan.refused for plan in advice.plans if plan.engine == "exllamav2")
    assert "8.0" in refusal
    assert "7.5" in refusal


def test_installed_engines_are_marked_where_they_compute_as_planned() -> None:
    engines = [engine("llama.cpp", "cpu"), engine("exllamav2", "cuda")]
    plans = usable(build_advice(PlanInputs(traits=ENGINES, machine=make_machine(linux(RTX)), engines=engines)))
    assert {plan.engine for plan in plans if plan.is_installed} == {"exllamav2"}
