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
    Ability,
    GrowingMemory,
    MachineKind,
    Places,
    Target,
    Traits,
)

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.ONNX_GENAI}),
    targets=(
        Target(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),
        Target(backend="directml", vendors=("amd", "intel"), systems=(WINDOWS,), architectures=(X86,)),
        Target(backend="npu", vendors=("qualcomm",), systems=(WINDOWS,), architectures=(ARM,)),
        Target(backend="cpu", systems=(LINUX,), architectures=(X86,)),
        Target(backend="cpu", systems=(MAC,), architectures=(ARM,)),
        Target(backend="cpu", systems=(WINDOWS,)),
    ),
    strength="is built to live inside programs, on processors, GPUs and NPUs",
    needs="Windows, Linux on x86-64, or a Mac with Apple silicon",
    abilities=frozenset({Ability.JSON_SCHEMA}),
    most_slots=4,
    memory=GrowingMemory(chunk=512, process=200 * MIB),
    places={
        MachineKind.JETSON: Places(local=30),
        MachineKind.NVIDIA_OLDER: Places(local=50, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: Places(local=20),
        MachineKind.RADEON: Places(local=30, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.AMD_APU: Places(local=30),
        MachineKind.SNAPDRAGON: Places(local=20),
        MachineKind.INTEL_CPU: Places(local=30),
        MachineKind.CPU_SERVER: Places(local=30),
        MachineKind.CPU: Places(local=30),
    },
    app=10,
    app_on={MachineKind.APPLE: 20},
    browser=20,
    order=110,
)
