"""What the advisor knows of vLLM."""

from engines.api import ModelFormat
from engines.api.traits import (
    INSTINCT,
    LINUX,
    TURING,
    X86,
    Ability,
    MachineKind,
    Places,
    ReservedMemory,
    Target,
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

TRAITS = Traits(
    default_formats=frozenset(FORMATS),
    targets=(
        Target(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=TURING),
        Target(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=ROCM),
    ),
    strength="keeps GPUs busy with many requests at once",
    needs="Linux and an NVIDIA GPU, Turing or newer (compute capability 7.5), or an AMD GPU its ROCm build knows",
    limits="It takes most of the GPU's memory at start.",
    abilities=frozenset(
        {
            Ability.SERVES,
            Ability.JSON_SCHEMA,
            Ability.LORAS,
            Ability.KV_QUANT,
            Ability.TENSOR,
            Ability.PIPELINE,
            Ability.EXPERT,
            Ability.VISION,
            Ability.RESERVES,
            Ability.WSL,
            Ability.SCALES,
        }
    ),
    most_slots=256,
    memory=ReservedMemory(fraction=0.92),  # --gpu-memory-utilization
    places={
        MachineKind.BLACKWELL_SERVER: Places(local=30, loras=20, team=10, fleet=40),
        MachineKind.NVIDIA_SERVER: Places(
            local=10, structured=20, loras=20, long=20, moe=20, serving_shaped=20, fleet=30
        ),
        MachineKind.INSTINCT: Places(local=10, structured=20, loras=20, long=20, serving_shaped=20),
        MachineKind.MIXED: Places(local=40, batch=10, serving=10, serving_shaped=20, fleet=10),
        MachineKind.RTX_MANY: Places(local=10, structured=20, loras=20, long=20, moe=20, serving_shaped=20, fleet=20),
        MachineKind.RTX_FEW: Places(local=20, long=30, batch=10, serving=10),
        MachineKind.RTX_ONE: Places(
            local=40, agent=30, structured=30, loras=20, long=50, batch=10, serving=10, serving_shaped=20, fleet=20
        ),
        MachineKind.RTX_SMALL: Places(
            local=40, agent=30, structured=0, loras=20, long=0, moe=0, batch=10, serving=10, serving_shaped=20, fleet=20
        ),
        MachineKind.NVIDIA_UNIFIED: Places(local=20, batch=10, serving=10, fleet=10),
        MachineKind.TURING_FEW: Places(local=10),
        MachineKind.NVIDIA_OLDER: Places(local=20, batch=10, serving=10, serving_shaped=10, fleet=10),
        MachineKind.RADEON: Places(local=40, batch=10, serving=10, serving_shaped=10, fleet=10),
    },
    order=60,
)
