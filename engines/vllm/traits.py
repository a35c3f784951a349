"""What the advisor knows of vLLM."""

from engines.api import ModelFormat
from engines.api.traits import (
    INSTINCT,
    LINUX,
    TURING,
    X86,
    EngineAbility,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)

FORMATS = (
    ModelFormat.NVFP4,
    ModelFormat.FP8,
    ModelFormat.MXFP4,
    ModelFormat.COMPRESSED_TENSORS,
    ModelFormat.AWQ,
    ModelFormat.GPTQ,
    ModelFormat.SAFETENSORS,
)
ROCM = INSTINCT | {"gfx1100", "gfx1101", "gfx1200", "gfx1201"}
"""What its ROCm build knows."""

PROCESSOR_SHARE = 0.4
"""Of the computer's memory: by default it takes 0.92 of that, and ends where less is free."""
TRAITS = Traits(
    default_formats=frozenset(FORMATS),
    targets=(
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=TURING),
        EngineTarget(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=ROCM),
    ),
    strength="keeps GPUs busy with many requests at once",
    needs="Linux and an NVIDIA GPU, Turing or newer (compute capability 7.5), or an AMD GPU its ROCm build supports",
    limits="It takes most of the GPU's memory at start.",
    abilities=frozenset(
        {
            EngineAbility.SERVES,
            EngineAbility.BALANCES,
            EngineAbility.JSON_SCHEMA,
            EngineAbility.LORAS,
            EngineAbility.KV_QUANT,
            EngineAbility.TENSOR,
            EngineAbility.PIPELINE,
            EngineAbility.EXPERT,
            EngineAbility.VISION,
            EngineAbility.RESERVES,
            EngineAbility.WSL,
            EngineAbility.SCALES,
            EngineAbility.OWN_HEAD,
        }
    ),
    most_slots=256,
    memory=ReservedMemory(fraction=0.92, processor_fraction=PROCESSOR_SHARE),  # --gpu-memory-utilization
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(local=30, loras=20, team=10, fleet=40),
        MachineKind.NVIDIA_SERVER: GuidePlaces(
            local=10, structured=20, loras=20, long=20, moe=20, serving_shaped=20, fleet=30
        ),
        MachineKind.INSTINCT: GuidePlaces(local=10, structured=20, loras=20, long=20, serving_shaped=20),
        MachineKind.MIXED: GuidePlaces(local=40, batch=10, serving=10, serving_shaped=20, fleet=10),
        MachineKind.RTX_MANY: GuidePlaces(
            local=10, structured=20, loras=20, long=20, moe=20, serving_shaped=20, fleet=20
        ),
        MachineKind.RTX_FEW: GuidePlaces(local=20, long=30, batch=10, serving=10),
        MachineKind.RTX_ONE: GuidePlaces(
            local=40, agent=30, structured=30, loras=20, long=50, batch=10, serving=10, serving_shaped=20, fleet=20
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            local=40, agent=30, structured=0, loras=20, long=0, moe=0, batch=10, serving=10, serving_shaped=20, fleet=20
        ),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=20, batch=10, serving=10, fleet=10),
        MachineKind.TURING_FEW: GuidePlaces(local=10),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=20, batch=10, serving=10, serving_shaped=10, fleet=10),
        MachineKind.RADEON: GuidePlaces(local=40, batch=10, serving=10, serving_shaped=10, fleet=10),
    },
    order=60,
)
