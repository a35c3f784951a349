"""What the advisor knows of TensorRT-LLM."""

from engines.api import ModelFormat
from engines.api.traits import (
    AMPERE,
    LINUX,
    EngineAbility,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.vllm.traits import TRAITS as VLLM

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.TENSORRT}),
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=AMPERE),),
    strength="has the highest throughput on NVIDIA's own server GPUs",
    needs="Linux, NVIDIA's container and an NVIDIA GPU, Ampere or newer (compute capability 8.0)",
    limits="It is made for server GPUs and large set-ups, and comes as a container.",
    abilities=VLLM.abilities - {EngineAbility.WSL, EngineAbility.OWN_HEAD},  # its MTP is for DeepSeek V3 and R1
    most_slots=256,
    memory=ReservedMemory(fraction=0.9, is_of_rest=True),  # --kv_cache_free_gpu_memory_fraction
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=10, structured=20, loras=30, long=20, moe=20, team=30, serving_shaped=20, fleet=20
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(local=30, fleet=20),
        MachineKind.RTX_MANY: GuidePlaces(local=50, agent=0, structured=0, loras=0, long=0, moe=0, batch=0),
        MachineKind.RTX_FEW: GuidePlaces(local=50, agent=0, structured=0, loras=0, long=0, moe=0, batch=0),
        MachineKind.RTX_ONE: GuidePlaces(
            local=50, structured=0, loras=0, long=0, moe=0, batch=0, serving=60, serving_shaped=60
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            local=50, structured=0, loras=0, long=0, moe=0, batch=0, serving=60, serving_shaped=60
        ),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=40, batch=30, serving=30, serving_shaped=30, fleet=0),
    },
    order=80,
    advised_on=frozenset({MachineKind.BLACKWELL_SERVER, MachineKind.NVIDIA_SERVER, MachineKind.INSTINCT}),
)
