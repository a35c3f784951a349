"""What the advisor knows of llama.cpp."""

from engines.api import ModelFormat
from engines.api.traits import (
    ANY_CUDA,
    ARM,
    DESKTOP,
    INSTINCT,
    LINUX,
    MAC,
    X86,
    EngineAbility,
    EngineTarget,
    GgmlMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.GGUF}),
    targets=(
        EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, compute=ANY_CUDA),
        # AMD's accelerators have no driver for Vulkan.
        EngineTarget(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=INSTINCT),
        EngineTarget(backend="vulkan", vendors=("amd", "intel", "nvidia", "apple"), systems=DESKTOP),
        EngineTarget(backend="rocm", vendors=("amd",), systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=(), architectures=()),
    ),
    strength="runs on any processor and nearly any GPU, and can keep a part of a model in system memory",
    needs="a computer",
    limits="It is not made for speed on several GPUs, and its RPC between computers is fragile and open to anyone.",
    abilities=frozenset(
        {
            EngineAbility.JSON_SCHEMA,
            EngineAbility.LORAS,
            EngineAbility.KV_QUANT,
            EngineAbility.HOST_OFFLOAD,
            EngineAbility.PIPELINE,
            EngineAbility.VISION,
            EngineAbility.EVERYWHERE,
            EngineAbility.OWN_HEAD,
        }
    ),
    most_slots=16,
    memory=GgmlMemory(),
    places={
        MachineKind.APPLE: GuidePlaces(local=20, structured=10, loras=10, serving=10, serving_shaped=10, fleet=10),
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=50, structured=40, loras=40, long=40, moe=40, serving_shaped=40, fleet=0
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(local=50, fleet=0),
        MachineKind.INSTINCT: GuidePlaces(local=30, fleet=0),
        MachineKind.MIXED: GuidePlaces(local=10, batch=40, serving=40, serving_shaped=40, fleet=40),
        MachineKind.RTX_MANY: GuidePlaces(
            local=60, agent=50, structured=40, loras=50, long=40, moe=40, batch=50, fleet=0
        ),
        MachineKind.RTX_FEW: GuidePlaces(
            local=60, agent=50, structured=40, loras=50, long=40, moe=40, batch=50, fleet=0
        ),
        MachineKind.RTX_ONE: GuidePlaces(
            local=20, agent=10, loras=30, batch=50, serving=50, serving_shaped=50, fleet=0
        ),
        MachineKind.RTX_SMALL: GuidePlaces(local=10, loras=30, batch=50, serving=50, serving_shaped=50, fleet=0),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=10, batch=40, serving=40, serving_shaped=40, fleet=30),
        MachineKind.JETSON: GuidePlaces(local=10),
        MachineKind.TURING_FEW: GuidePlaces(local=30, fleet=0),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=10, batch=30, serving=30, serving_shaped=30, fleet=30),
        MachineKind.ARC: GuidePlaces(local=30),
        MachineKind.RADEON: GuidePlaces(local=10, batch=20, serving=20, serving_shaped=20, fleet=20),
        MachineKind.AMD_APU: GuidePlaces(local=10),
        MachineKind.SNAPDRAGON: GuidePlaces(local=10),
        MachineKind.INTEL_CPU: GuidePlaces(local=20),
        MachineKind.INTEL_MAC: GuidePlaces(local=10),
        MachineKind.BOARD: GuidePlaces(local=10),
        MachineKind.CPU_SERVER: GuidePlaces(local=10),
        MachineKind.CPU: GuidePlaces(local=10),
    },
    app=30,
    app_on={MachineKind.APPLE: 40},
    browser=30,
    order=10,
    unlisted="llama.cpp reaches other computers only by its RPC, which is fragile and open to "
    "anyone: not for production.",
    fleet_warning=(
        "For several computers start one server on each, behind a load balancer; llama.cpp's RPC is open to anyone."
    ),
)
