"""Who is first on thirty-five machines for every use, plain, with 50 adapters, with 200k of context, for 1000 people.

One letter per use, in the order of `Intent`: chat coding agent rag structured batch team api fleet app browser.
"""

import pytest

from app.advisor.choosing.intents import Workload, build_workload
from app.advisor.choosing.rules import rank_engines
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core.advice import Intent
from app.core.machine import Machine
from tests.unit.advisor.engines import ENGINES
from tests.unit.advisor.test_recipes import (
    B200,
    EPYC,
    H100,
    LAPTOP,
    MI300X,
    RTX,
    SNAPDRAGON,
    Json,
    linux,
    mac,
    make_machine,
    several,
    windows,
)

XEON = linux(cpu="Intel Xeon Platinum 8480+", ram_gb=256)
CORE_ULTRA = windows("Intel Arc Graphics", cpu="Intel Core Ultra 7 155H", ram_gb=32)
FOUR_4090 = linux(several("RTX 4090", 4), ram_gb=128)
RADEON = linux("RX 7900 XTX")
STRIX = linux(cpu="AMD Ryzen AI Max+ 395", ram_gb=128)
SPARK = linux("NVIDIA GB10", cpu="NVIDIA Grace", ram_gb=128, architecture="aarch64") | {"unified": True}
PI = linux(cpu="Raspberry Pi 5 Cortex-A76", ram_gb=8, architecture="aarch64")
INTEL_MAC = mac("Intel Core i7-9750H", 32)

LETTERS = {
    "L": "llama.cpp",
    "M": "mlx-lm",
    "C": "mlc-llm",
    "O": "onnxruntime-genai",
    "I": "openvino",
    "2": "exllamav2",
    "3": "exllamav3",
    "V": "vllm",
    "S": "sglang",
    "W": "lmdeploy",
    "T": "tensorrt-llm",
    "D": "dynamo",
}
MACHINES: dict[str, Json] = {
    "Apple M2, 16 GB": mac("Apple M2", 16),
    "Apple M3 Ultra": mac("Apple M3 Ultra", 256),
    "Intel Mac": INTEL_MAC,
    "EPYC": EPYC,
    "Xeon": XEON,
    "laptop": LAPTOP,
    "8 GB laptop": windows(cpu="Intel Core i3-10110U", ram_gb=8),
    "Raspberry Pi": PI,
    "Snapdragon": SNAPDRAGON,
    "Core Ultra": CORE_ULTRA,
    "Arc B580": linux("Arc B580"),
    "RX 7900 XTX": RADEON,
    "RX 6600": linux("RX 6600"),
    "RX on Windows": windows("RX 9070 XT"),
    "Strix Halo": STRIX,
    "RTX 3050 laptop": linux("RTX 3050 Laptop GPU"),
    "RTX 4090": linux(RTX),
    "RTX 4090 on Windows": windows(RTX),
    "RTX 2080 Ti": linux("RTX 2080 Ti"),
    "GTX 1080 Ti": linux("GTX 1080 Ti"),
    "4 x RTX 4090": FOUR_4090,
    "4 x RTX 4090, Windows": windows(several(RTX, 4)),
    "2 x RTX 2080 Ti": linux(several("RTX 2080 Ti", 2)),
    "8 x RTX 4090": linux(several(RTX, 8)),
    "L4": linux("L4"),
    "2 x A100": linux(several("A100", 2)),
    "8 x H100": H100,
    "8 x B200": B200,
    "8 x MI300X": MI300X,
    "H100 on Windows": windows("H100"),
    "DGX Spark": SPARK,
    "Jetson": linux("Jetson AGX Orin 64 GB", cpu="", architecture="aarch64"),
    "RTX 4090 + RX 7900 XTX": linux(RTX, "RX 7900 XTX"),
    "unknown card": linux("Nobody's card"),
    "nothing told": {},
}
WISHES: tuple[Json, ...] = ({}, {"loras": 50}, {"context": 200_000}, {"users": 1000})
FIRST = {
    "Apple M2, 16 GB": "MMMMLMLLLCC  LLLLLLLLLCC  MMMMLLLLLCC  LLLLLMLLLCC",
    "Apple M3 Ultra": "MMMMLMLLLCC  LLLLLLLLLCC  MMMMLLLLLCC  LLLLLMLLLCC",
    "Intel Mac": "LLLLLLLLLLL  LLLLLLLLLLL  LLLLLLLLLLL  LLLLLLLLLLL",
    "EPYC": "LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC",
    "Xeon": "IIIIIIIIIOC  IIIIIIIIIOC  IIIIIIIIIOC  IIIIIIIIIOC",
    "laptop": "LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC",
    "8 GB laptop": "LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC",
    "Raspberry Pi": "LLLLLLLLLLL  LLLLLLLLLLL  LLLLLLLLLLL  LLLLLLLLLLL",
    "Snapdragon": "LLLLLLLLLOO  LLLLLLLLLOO  LLLLLLLLLOO  LLLLLLLLLOO",
    "Core Ultra": "IIIIIIIIIOC  IIIIIIIIIOC  IIIIIIIIIOC  IIIIIIIIIOC",
    "Arc B580": "IIIIIIIIICC  IIIIIIIIICC  IIIIIIIIICC  IIIIIIIIICC",
    "RX 7900 XTX": "LLLLLVVVVCC  LLLLLVVVVCC  LLLLLVVVVCC  VVVVVVVVVCC",
    "RX 6600": "LLLLLLLLLCC  LLLLLLLLLCC  LLLLLLLLLCC  LLLLLLLLLCC",
    "RX on Windows": "LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC",
    "Strix Halo": "LLLLLLLLLCC  LLLLLLLLLCC  LLLLLLLLLCC  LLLLLLLLLCC",
    "RTX 3050 laptop": "LLLLLVVVDOC  SSSSLSSSDOC  LLLLLSSSDOC  VVVVSVVVDOC",
    "RTX 4090": "22L2SVVVDOC  SSSSSSSSDOC  2222SSSSDOC  VVVVSVVVDOC",
    "RTX 4090 on Windows": "22L2LWWWWOC  LLLLLWWWWOC  2222LWWWWOC  WWWWWWWWWOC",
    "RTX 2080 Ti": "LLLLLVVVVOC  LLLLLVVVVOC  LLLLLVVVVOC  VVVVVVVVVOC",
    "GTX 1080 Ti": "LLLLLLLLLCC  LLLLLLLLLCC  LLLLLLLLLCC  LLLLLLLLLCC",
    "4 x RTX 4090": "3333SVVVDOC  SSSSSSSSDOC  SSSSSSSSDOC  VVVVSVVVDOC",
    "4 x RTX 4090, Windows": "33333WWWWOC  WWWW3WWWWOC  33333WWWWOC  WWWWWWWWWOC",
    "2 x RTX 2080 Ti": "VVVVVVVVVOC  VVVVVVVVVOC  VVVVVVVVVOC  VVVVVVVVVOC",
    "8 x RTX 4090": "VVVVSVVVDOC  SSSSSSSSDOC  SSSSSSSSDOC  VVVVSVVVDOC",
    "L4": "VVVVSVVVDOC  SSSSSSSSDOC  SSSSSSSSDOC  VVVVSVVVDOC",
    "2 x A100": "VVVVSVVVDOC  SSSSSSSSDOC  SSSSSSSSDOC  VVVVSVVVDOC",
    "8 x H100": "VVVVSVVVDOC  SSSSSSSSDOC  SSSSSSSSDOC  VVVVSVVVDOC",
    "8 x B200": "TTTTSTVTDOC  SSSSSSSSDOC  SSSSSSSSDOC  TTTTSTVTDOC",
    "8 x MI300X": "VVVVSVVVVCC  SSSSSSSSVCC  SSSSSSSSVCC  VVVVSVVVVCC",
    "H100 on Windows": "WWWWWWWWWOC  WWWWWWWWWOC  WWWWWWWWWOC  WWWWWWWWWOC",
    "DGX Spark": "LLLLLVVVVLL  LLLLLSSSVLL  LLLLLSSSVLL  VVVVSVVVVLL",
    "Jetson": "LLLLLLLLLLL  LLLLLLLLLLL  LLLLLLLLLLL  LLLLLLLLLLL",
    "RTX 4090 + RX 7900 XTX": "LLLLLVVVVOC  LLLLLSSSVOC  LLLLLSSSVOC  VVVVSVVVVOC",
    "unknown card": "LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC",
    "nothing told": "LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC  LLLLLLLLLOC",
}


@pytest.mark.slow(cases=46)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("wish", range(len(WISHES)), ids=["plain", "loras", "long", "users"])
def test_who_is_first(name: str, wish: int) -> None:
    machine = make_machine(MACHINES[name])
    answers = [first(machine, build_workload(intent, **WISHES[wish])) for intent in Intent]
    letters = FIRST[name].split()[wish]
    assert answers == [LETTERS[letter] for letter in letters]


def first(machine: Machine, work: Workload) -> str:
    return next(engine.traits.id for engine in rank_engines(ENGINES, machine, work) if not engine.refused)


@pytest.mark.slow(cases=80)
@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize("name", MACHINES)
def test_every_engine_is_ranked_refused_or_beside_the_point_and_no_other_named(name: str, intent: Intent) -> None:
    advice = build_advice(PlanInputs(traits=ENGINES, machine=make_machine(MACHINES[name]), intent=intent))
    assert {plan.engine for plan in advice.plans} <= set(ENGINES)
    assert {"tgi"} <= {plan.engine for plan in advice.plans if plan.refused}
    assert not advice.plans[0].refused
    assert all(plan.sentence and plan.reasons for plan in advice.plans)
