"""What the advisor knows of LMDeploy."""

from engines.api.traits import (
    DESKTOP,
    VOLTA,
    X86,
    EngineAbility,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.vllm.traits import TRAITS as VLLM

TRAITS = Traits(
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=VOLTA),),
    strength="serves many users at once with CUDA, also on Windows",
    needs="an NVIDIA GPU, Volta or newer (compute capability 7.0), and Linux or Windows on x86-64",
    abilities=VLLM.abilities
    - {EngineAbility.WSL, EngineAbility.PIPELINE, EngineAbility.OWN_HEAD},  # its heads are DeepSeek's (`deepseek_mtp`)
    most_slots=128,
    memory=ReservedMemory(fraction=0.8, is_of_rest=True),  # --cache-max-entry-count
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=40, structured=0, loras=0, long=0, moe=0, serving_shaped=0, fleet=50
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(local=40, fleet=50),
        MachineKind.MIXED: GuidePlaces(batch=30, serving=30, serving_shaped=30, fleet=30),
        MachineKind.RTX_MANY: GuidePlaces(local=30, structured=0, long=0, moe=0, fleet=40),
        MachineKind.RTX_FEW: GuidePlaces(loras=30, batch=30, serving=30, serving_shaped=30, fleet=40),
        MachineKind.RTX_ONE: GuidePlaces(batch=30, serving=30, serving_shaped=30, fleet=40),
        MachineKind.RTX_SMALL: GuidePlaces(batch=30, serving=30, serving_shaped=30, fleet=40),
        MachineKind.TURING_FEW: GuidePlaces(local=20),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=30, batch=20, serving=20, serving_shaped=20, fleet=20),
    },
    order=130,
)
