"""What the advisor knows of MLC LLM."""

from engines.api import ModelFormat
from engines.api.traits import (
    ARM,
    DESKTOP,
    MAC,
    MIB,
    TURING,
    X86,
    Ability,
    GrowingMemory,
    MachineKind,
    Places,
    Target,
    Traits,
)

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.MLC}),
    targets=(
        Target(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        Target(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),
        Target(backend="vulkan", vendors=("amd", "intel", "nvidia"), systems=DESKTOP, architectures=(X86,)),
        Target(backend="cpu", systems=DESKTOP, architectures=(X86,)),
    ),
    strength="compiles one model for browsers, phones and native apps",
    needs="a Mac with Apple silicon, or Linux or Windows on x86-64",
    limits="It has nightly builds only, and compiles each model first.",
    abilities=frozenset({Ability.JSON_SCHEMA, Ability.TENSOR}),
    most_slots=4,
    memory=GrowingMemory(process=400 * MIB),
    places={
        MachineKind.APPLE: Places(local=40, structured=0, loras=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.MIXED: Places(local=60, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.JETSON: Places(local=20),
        MachineKind.NVIDIA_OLDER: Places(local=40, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: Places(local=40),
        MachineKind.RADEON: Places(local=20, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.AMD_APU: Places(local=20),
        MachineKind.CPU: Places(local=20),
    },
    app=20,
    app_on={MachineKind.APPLE: 10},
    browser=10,
    order=100,
)
