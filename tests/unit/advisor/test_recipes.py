"""The decision guide's recipes and its acceptance matrix, each as a row: machine, use, who must be first, who never."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from app.advisor.engine_table import ENGINES
from app.advisor.intents import workload
from app.advisor.plans import PlanInputs, advise
from app.advisor.rules import choose, ranking
from app.core.advice import Advice, Intent, Plan
from app.core.machine import Machine
from app.hardware.description import machine_from
from tests.unit.advisor.boxes import engine
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
    warned: tuple[str, ...] = ()
    model: Made | None = None
    formats: tuple[str, ...] = ()
    asked: Json = field(default_factory=dict)

    def advice(self) -> Advice:
        candidates = self.model.every(*self.formats) if self.model else []
        name = self.model.name if self.model else ""
        return advise(
            PlanInputs(
                machine=described(self.machine), candidates=candidates, model=name, intent=self.intent, **self.asked
            )
        )


def described(machine: Json) -> Machine:
    return machine_from(msgspec.json.encode(machine))


RTX = "RTX 4090"
EPYC = linux(cpu="AMD EPYC 9654", ram_gb=384)
XEON = linux(cpu="Intel Xeon Platinum 8480+", ram_gb=256)
LAPTOP = linux(cpu="AMD Ryzen 7 7730U", ram_gb=16)
CORE_ULTRA = windows("Intel Arc Graphics", cpu="Intel Core Ultra 7 155H", ram_gb=32)
H100 = linux(several("H100", 8), ram_gb=1024)
H200 = linux(several("H200", 8), ram_gb=2048)
B200 = linux(several("B200", 8), ram_gb=2048)
MI300X = linux(several("MI300X", 8), ram_gb=2048)
TWO_3090 = linux(several("RTX 3090", 2))
FOUR_4090 = linux(several("RTX 4090", 4), ram_gb=128)
MAC = mac("Apple M3 Max", 64)
STUDIO = mac("Apple M2 Ultra", 192)
RADEON = linux("RX 7900 XTX")
STRIX = linux(cpu="AMD Ryzen AI Max+ 395", ram_gb=128)
SPARK = linux("NVIDIA GB10", cpu="NVIDIA Grace", ram_gb=128, architecture="aarch64") | {"unified": True}
PI = linux(cpu="Raspberry Pi 5 Cortex-A76", ram_gb=8, architecture="aarch64")
SNAPDRAGON = windows(cpu="Snapdragon X Elite", ram_gb=32, architecture="arm64")
INTEL_MAC = mac("Intel Core i7-9750H", 32)
CODING, AGENT, RAG = Intent.CODING, Intent.AGENT, Intent.RAG
STRUCTURED, BATCH, TEAM, API = Intent.STRUCTURED, Intent.BATCH, Intent.TEAM, Intent.API
FLEET, APP, BROWSER = Intent.FLEET, Intent.APP, Intent.BROWSER
EXL = ("exllamav2", "exllamav3")
MLX = ("mlx-lm", "mlx-vlm")
SERVERS = "vllm sglang"

MATRIX: dict[str, Row] = {
    "CPU-only server": Row(EPYC, "llama.cpp", ("openvino",), never=(*EXL, *MLX, "vllm")),
    "CPU-only server, a team": Row(EPYC, "llama.cpp", intent=TEAM),
    "CPU-only server, inside an app": Row(EPYC, "onnxruntime-genai", intent=APP),
    "Xeon server": Row(XEON, "openvino", ("llama.cpp",)),
    "Xeon server, a team": Row(XEON, "openvino", ("llama.cpp",), TEAM),
    "laptop": Row(LAPTOP, "llama.cpp", ("mlc-llm", "onnxruntime-genai"), never=("tensorrt-llm", *EXL)),
    "Windows laptop": Row(windows(cpu="Intel Core i5-1135G7", ram_gb=16), "llama.cpp", never=MLX),
    "Raspberry Pi": Row(PI, "llama.cpp", never=("openvino", "mlc-llm")),
    "Snapdragon laptop": Row(SNAPDRAGON, "llama.cpp", ("onnxruntime-genai",), never=EXL),
    "Intel Mac": Row(INTEL_MAC, "llama.cpp", never=MLX),
    "Radeon": Row(RADEON, "llama.cpp", ("mlc-llm",), never=EXL),
    "Radeon on Windows": Row(windows("RX 9070 XT"), "llama.cpp", ("mlc-llm", "onnxruntime-genai"), never=(*EXL, *MLX)),
    "Strix Halo": Row(STRIX, "llama.cpp", never=EXL),
    "MacBook": Row(mac("Apple M2", 16), "mlx-lm", ("llama.cpp",), never=EXL),
    "MacBook Pro": Row(MAC, "mlx-lm", ("llama.cpp",), never=(*EXL, "vllm", "sglang")),
    "Mac Studio, coding": Row(STUDIO, "mlx-lm", ("llama.cpp",), CODING),
    "Mac Studio, agent": Row(STUDIO, "mlx-lm", ("llama.cpp",), AGENT),
    "Mac with a GGUF file": Row(MAC, "llama.cpp", model=EIGHT, formats=("gguf",), asked={"is_fixed": True}),
    "one RTX 3090": Row(linux("RTX 3090"), "exllamav2", ("llama.cpp", "vllm"), never=MLX),
    "one RTX 4090": Row(linux(RTX), "exllamav2", ("llama.cpp", "vllm")),
    "one RTX 5090": Row(linux("RTX 5090"), "exllamav2", ("llama.cpp", "vllm")),
    "one RTX, coding": Row(linux(RTX), "exllamav2", ("llama.cpp",), CODING),
    "one RTX, 80k context": Row(linux(RTX), "exllamav2", intent=CODING, asked={"context": 80_000}),
    "one RTX, documents": Row(linux(RTX), "exllamav2", intent=RAG),
    "one RTX on Windows": Row(windows(RTX), "exllamav2", ("llama.cpp",), never=("vllm", "sglang", *MLX)),
    "one RTX, several users": Row(linux(RTX), "vllm", ("sglang",), asked={"users": 8}),
    "one RTX, GGUF only": Row(linux(RTX), "llama.cpp", model=EIGHT, formats=("gguf",), never=("exllamav2",)),
    "one RTX, no EXL2": Row(
        linux(RTX), "llama.cpp", ("exllamav3",), model=EIGHT, formats=("gguf", "exl3"), never=("exllamav2",)
    ),
    "one RTX, a model that spills": Row(linux("RTX 5070"), "llama.cpp", model=THIRTY_TWO),
    "one RTX, a MoE that fits": Row(linux(RTX), "exllamav3", ("llama.cpp",), model=MIXTURE),
    "one RTX, a MoE that does not fit": Row(linux("RTX 4070"), "llama.cpp", model=MIXTURE),
    "RTX 2080 Ti": Row(linux("RTX 2080 Ti"), "llama.cpp", never=EXL),
    "RTX 2080 Ti, a team": Row(linux("RTX 2080 Ti"), "vllm", intent=TEAM, never=("sglang",)),
    "GTX 1080 Ti": Row(linux("GTX 1080 Ti"), "llama.cpp", never=("vllm", "lmdeploy", *EXL)),
    "little video memory": Row(linux("RTX 3050 Laptop GPU"), "llama.cpp", ("exllamav2",)),
    "two RTX": Row(TWO_3090, "exllamav3", ("vllm", "sglang", "llama.cpp")),
    "three RTX on Windows": Row(windows(several("RTX 3090", 3)), "exllamav3", ("llama.cpp",), never=("vllm",)),
    "four RTX": Row(FOUR_4090, "exllamav3", ("vllm", "sglang", "llama.cpp")),
    "two RTX, a MoE": Row(TWO_3090, "exllamav3", model=MIXTURE),
    "two RTX, an agent": Row(TWO_3090, "exllamav3", ("vllm",), AGENT),
    "two RTX, serving": Row(TWO_3090, "vllm", ("sglang",), TEAM),
    "two RTX, long context": Row(TWO_3090, "sglang", ("exllamav3",), asked={"context": 131_072}),
    "two RTX, structured": Row(TWO_3090, "sglang", ("vllm",), STRUCTURED),
    "two RTX, a model over both": Row(TWO_3090, "exllamav3", ("vllm",), model=SEVENTY),
    "six RTX": Row(linux(several(RTX, 6), ram_gb=256), "vllm", ("sglang",)),
    "internal team": Row(linux("L40S"), "vllm", ("sglang",), TEAM, asked={"users": 12}),
    "internal team, structured": Row(linux("L40S"), "sglang", ("vllm",), STRUCTURED, asked={"users": 12}),
    "internal team, long context": Row(linux("L40S"), "sglang", ("vllm",), TEAM, asked={"context": 131_072}),
    "internal team, many LoRAs": Row(linux("L40S"), "sglang", ("vllm",), TEAM, asked={"loras": 20}),
    "internal team, MoE": Row(H100, "sglang", ("vllm",), TEAM, model=MIXTURE),
    "internal team on one RTX": Row(linux(RTX), "vllm", ("sglang",), TEAM, warned=("exllamav2",)),
    "internal team on Windows": Row(windows(RTX), "lmdeploy", ("llama.cpp",), TEAM, never=("vllm",)),
    "internal team in WSL": Row(linux(RTX) | {"os": "Ubuntu 24.04 in WSL 2"}, "vllm", intent=TEAM),
    "team on a Mac": Row(STUDIO, "llama.cpp", ("mlx-lm",), TEAM, warned=("mlx-lm",)),
    "public API on a Mac": Row(STUDIO, "llama.cpp", ("mlx-lm",), API, warned=("mlx-lm",)),
    "8 x H100": Row(H100, SERVERS, ("tensorrt-llm",), never=("dynamo", *MLX)),
    "8 x H200, API": Row(H200, SERVERS, ("tensorrt-llm",), API, never=("dynamo",)),
    "8 x H100, fleet": Row(H100, "dynamo", ("tensorrt-llm", "vllm", "sglang"), FLEET, never=("llama.cpp",)),
    "8 x H100, batch": Row(H100, "vllm", ("sglang", "tensorrt-llm"), BATCH),
    "8 x B200": Row(B200, "tensorrt-llm", ("sglang", "vllm")),
    "GB200": Row(linux(several("GB200", 4), architecture="aarch64"), "tensorrt-llm", ("sglang", "vllm"), API),
    "GB300, fleet": Row(
        linux(several("GB300", 72), architecture="aarch64"), "dynamo", ("tensorrt-llm", "sglang", "vllm"), FLEET
    ),
    "8 x MI300X": Row(MI300X, SERVERS, never=(*EXL, "tensorrt-llm", "dynamo"), warned=("vllm", "sglang")),
    "8 x MI300X, structured": Row(MI300X, "sglang", ("vllm",), STRUCTURED),
    "MI325X": Row(linux("MI325X"), SERVERS),
    "MI355X, API": Row(linux(several("MI355X", 8)), SERVERS, intent=API),
    "Core Ultra": Row(CORE_ULTRA, "openvino", ("onnxruntime-genai", "llama.cpp")),
    "Arc B580": Row(linux("Arc B580"), "openvino", ("llama.cpp", "onnxruntime-genai")),
    "Arc A770 on Windows": Row(windows("Arc A770"), "openvino", ("onnxruntime-genai", "llama.cpp"), never=EXL),
    "browser": Row(LAPTOP, "mlc-llm", ("onnxruntime-genai", "llama.cpp"), BROWSER),
    "phone app on a Mac": Row(MAC, "mlc-llm", intent=APP),
    "Windows app": Row(windows(RTX), "onnxruntime-genai", ("mlc-llm", "llama.cpp"), APP),
    "app with a named model": Row(
        LAPTOP, "onnxruntime-genai", intent=APP, model=EIGHT, formats=("gguf", "safetensors")
    ),
    "local agent": Row(LAPTOP, "llama.cpp", intent=AGENT),
    "local agent on one RTX": Row(linux(RTX), "llama.cpp", ("exllamav2", "vllm"), AGENT),
    "customers at scale": Row(H200, "vllm", ("sglang", "tensorrt-llm"), API, asked={"users": 1000}),
    "DGX Spark": Row(SPARK, "llama.cpp", ("vllm",), never=EXL),
    "DGX Spark, a team": Row(SPARK, "vllm", ("sglang",), TEAM),
    "Jetson Orin": Row(linux("Jetson AGX Orin 64 GB", cpu="", ram_gb=64, architecture="aarch64"), "llama.cpp"),
    "Radeon, a team": Row(RADEON, "vllm", ("llama.cpp",), TEAM),
    "Radeon on Windows, a team": Row(windows("RX 7900 XTX"), "llama.cpp", intent=TEAM, never=("vllm",)),
    "RTX and Radeon": Row(linux(RTX, "RX 7900 XTX"), "llama.cpp", ("exllamav2",)),
    "RTX and Radeon, a model for one": Row(linux(RTX, "RX 7900 XTX"), "exllamav2", ("llama.cpp",), model=EIGHT),
    "RTX and Radeon, a model for both": Row(
        linux(RTX, "RX 7900 XTX"), "llama.cpp", model=SEVENTY, formats=("gguf", "exl2")
    ),
    "a model too large for all": Row(linux(RTX, ram_gb=32), "exllamav3", model=GIANT),
    "TensorRT-LLM on a laptop": Row(linux("RTX 4080 Laptop GPU"), "exllamav2", warned=("tensorrt-llm",)),
}


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
    assert all(plan.warnings for plan in plans if plan.engine in row.warned)
    assert set(row.warned) <= set(order)


@pytest.mark.parametrize("name", MATRIX)
def test_what_never_runs_is_refused_in_words(name: str) -> None:
    row = MATRIX[name]
    refused = {plan.engine: plan for plan in row.advice().plans if plan.refused}
    assert set(row.never) <= set(refused)
    for plan in refused.values():
        assert plan.refused.endswith(".")
        assert plan.reasons[0].text == plan.refused


@pytest.mark.parametrize("name", [name for name, row in MATRIX.items() if not row.model])
def test_the_choice_for_one_person_agrees_with_the_plans(name: str) -> None:
    machine = described(MATRIX[name].machine)
    first = usable(advise(PlanInputs(machine=machine)))[0]
    everything = [engine(engine_id, "any") for engine_id in ENGINES]
    assert choose(machine, everything).engine == first.engine


MULTI_RTX = [
    linux(several(card, count))
    for card in ("RTX 2080 Ti", "RTX 3090", "RTX 5090", "RTX A6000")
    for count in (2, 3, 4, 8)
]


@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize("machine", MULTI_RTX, ids=lambda machine: f"{machine['gpus'][0]['count']}x")
def test_llama_cpp_is_never_first_on_several_rtx_cards(machine: Json, intent: Intent) -> None:
    order = [one.traits.id for one in ranking(described(machine), workload(intent)) if not one.refused]
    assert order[0] != "llama.cpp"


def test_a_gguf_file_on_several_cards_is_run_by_what_loads_it() -> None:
    row = Row(TWO_3090, "llama.cpp", model=SEVENTY, formats=("gguf",), asked={"is_fixed": True})
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
    machine = described(SNAPDRAGON | {"npu": "Qualcomm Hexagon"})
    plans = {plan.engine: plan for plan in advise(PlanInputs(machine=machine)).plans}
    assert plans["onnxruntime-genai"].backend == "npu"
    assert plans["llama.cpp"].backend == "cpu"


def test_tgi_is_for_attaching_only() -> None:
    plan = next(plan for plan in Row(H100, SERVERS).advice().plans if plan.engine == "tgi")
    assert "archived" in plan.refused
    assert not plan.can_install


def test_a_missing_exl2_is_said() -> None:
    row = Row(linux(RTX), "llama.cpp", model=EIGHT, formats=("gguf",))
    first = row.advice().plans[0]
    assert any("no version of Made 8B that ExLlamaV2 loads (EXL2)" in reason.text for reason in first.reasons)


def test_an_old_card_is_told_what_exllama_needs() -> None:
    advice = Row(linux("RTX 2080 Ti"), "llama.cpp").advice()
    refused = next(plan.refused for plan in advice.plans if plan.engine == "exllamav2")
    assert "8.0" in refused
    assert "7.5" in refused


def test_installed_engines_are_marked_where_they_compute_as_planned() -> None:
    engines = [engine("llama.cpp", "cpu"), engine("exllamav2", "cuda")]
    plans = usable(advise(PlanInputs(machine=described(linux(RTX)), engines=engines)))
    assert {plan.engine for plan in plans if plan.is_installed} == {"exllamav2"}
