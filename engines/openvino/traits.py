"""What the advisor knows of OpenVINO GenAI."""

from engines.api import ModelFormat
from engines.api.traits import (
    DESKTOP,
    MIB,
    X86,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.OPENVINO}),
    targets=(
        EngineTarget(backend="gpu", vendors=("intel",), systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=DESKTOP, architectures=(X86,), isa="avx2"),
    ),
    strength="has Intel's own kernels for vector and matrix units",
    needs="an x86-64 processor with AVX2 or an Intel GPU, and Linux or Windows",
    abilities=frozenset(
        {
            EngineAbility.SERVES,
            EngineAbility.JSON_SCHEMA,
            EngineAbility.LORAS,
            EngineAbility.KV_QUANT,
            EngineAbility.VISION,
        }
    ),
    most_slots=64,
    memory=GrowingMemory(kv_types={"q8_0": "openvino-u8"}, cache_step=32, cache_spare=32, chunk=256, process=400 * MIB),
    kernels_of="intel",
    places={
        MachineKind.MIXED: GuidePlaces(local=50, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: GuidePlaces(local=10),
        MachineKind.INTEL_CPU: GuidePlaces(local=10),
        MachineKind.CPU_SERVER: GuidePlaces(local=20),
        MachineKind.CPU: GuidePlaces(local=40),
    },
    order=120,
)
