"""What the advisor knows of SGLang."""

from engines.api.traits import (
    AMPERE,
    INSTINCT,
    LINUX,
    X86,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.vllm.traits import TRAITS as VLLM

TRAITS = Traits(
    targets=(
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=AMPERE),
        EngineTarget(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=INSTINCT),
    ),
    strength="reuses shared prompts and is fast at structured output, long contexts, adapters and experts",
    needs="Linux and an NVIDIA GPU, Ampere or newer (compute capability 8.0), or an AMD Instinct",
    limits="It is heavy for a desktop.",
    abilities=VLLM.abilities,
    most_slots=256,
    memory=ReservedMemory(fraction=0.85, holds_activations=False),  # --mem-fraction-static
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=20, structured=10, loras=10, long=10, moe=10, serving_shaped=10, fleet=30
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(
            local=20, structured=10, loras=10, long=10, moe=10, serving_shaped=10, fleet=40
        ),
        MachineKind.INSTINCT: GuidePlaces(local=20, structured=10, loras=10, long=10, serving_shaped=10),
        MachineKind.MIXED: GuidePlaces(batch=20, serving=20, serving_shaped=10, fleet=20),
        MachineKind.RTX_MANY: GuidePlaces(
            local=20, structured=10, loras=10, long=10, moe=10, serving_shaped=10, fleet=30
        ),
        MachineKind.RTX_FEW: GuidePlaces(
            local=30, structured=10, loras=10, long=10, batch=20, serving=20, serving_shaped=10
        ),
        MachineKind.RTX_ONE: GuidePlaces(
            structured=10, loras=10, long=30, moe=50, batch=20, serving=20, serving_shaped=10, fleet=30
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            structured=20, loras=10, long=40, batch=20, serving=20, serving_shaped=10, fleet=30
        ),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=30, batch=20, serving=20, serving_shaped=10, fleet=20),
    },
    order=70,
)
