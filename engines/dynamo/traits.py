"""What the advisor knows of NVIDIA Dynamo."""

from engines.api.traits import AMPERE, LINUX, EngineAbility, EngineTarget, GuidePlaces, MachineKind, Traits
from engines.vllm.traits import TRAITS as VLLM

STRENGTH = "coordinates vLLM, SGLang or TensorRT-LLM across many computers"
LIMITS = "One computer needs no orchestrator."

TRAITS = Traits(
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=AMPERE),),
    strength=STRENGTH,
    needs="Linux and NVIDIA GPUs, Ampere or newer (compute capability 8.0), in several computers",
    limits=LIMITS,
    abilities=VLLM.abilities - {EngineAbility.WSL} | {EngineAbility.ORCHESTRATES},
    most_slots=256,
    memory=VLLM.memory,
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(fleet=10),
        MachineKind.NVIDIA_SERVER: GuidePlaces(fleet=10),
        MachineKind.RTX_MANY: GuidePlaces(fleet=10),
        MachineKind.RTX_FEW: GuidePlaces(fleet=10),
        MachineKind.RTX_ONE: GuidePlaces(fleet=10),
        MachineKind.RTX_SMALL: GuidePlaces(fleet=10),
    },
    order=140,
    unlisted=f"NVIDIA Dynamo {STRENGTH}. {LIMITS}",
)
