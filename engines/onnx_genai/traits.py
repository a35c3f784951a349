"""What the advisor knows of ONNX Runtime GenAI."""

from engines.api import ModelFormat
from engines.api.traits import (
    ARM,
    DESKTOP,
    LINUX,
    MAC,
    MIB,
    TURING,
    WINDOWS,
    X86,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.ONNX_GENAI}),
    targets=(
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),
        EngineTarget(backend="directml", vendors=("amd", "intel"), systems=(WINDOWS,), architectures=(X86,)),
        EngineTarget(backend="npu", vendors=("qualcomm",), systems=(WINDOWS,), architectures=(ARM,)),
        EngineTarget(backend="cpu", systems=(LINUX,), architectures=(X86,)),
        EngineTarget(backend="cpu", systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cpu", systems=(WINDOWS,)),
    ),
    strength="is built to be embedded in programs, on processors, GPUs and NPUs",
    needs="Windows, Linux on x86-64, or a Mac with Apple silicon",
    abilities=frozenset({EngineAbility.JSON_SCHEMA}),
    most_slots=4,
    memory=GrowingMemory(plain_kv={"cpu": "f32"}, cache_step=1, chunk=512, process=200 * MIB),
    places={
        MachineKind.JETSON: GuidePlaces(local=30),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=50, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: GuidePlaces(local=20),
        MachineKind.RADEON: GuidePlaces(local=30, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.AMD_APU: GuidePlaces(local=30),
        MachineKind.SNAPDRAGON: GuidePlaces(local=20),
        MachineKind.INTEL_CPU: GuidePlaces(local=30),
        MachineKind.CPU_SERVER: GuidePlaces(local=30),
        MachineKind.CPU: GuidePlaces(local=30),
    },
    app=10,
    app_on={MachineKind.APPLE: 20},
    browser=20,
    order=110,
)
