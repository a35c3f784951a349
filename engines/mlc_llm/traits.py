"""What the advisor knows of MLC LLM."""

from engines.api import ModelFormat
from engines.api.traits import (
    ARM,
    DESKTOP,
    MAC,
    MIB,
    TURING,
    X86,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.MLC}),
    targets=(
        EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),
        EngineTarget(backend="vulkan", vendors=("amd", "intel", "nvidia"), systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=DESKTOP, architectures=(X86,)),
    ),
    strength="compiles one model for browsers, phones and native apps",
    needs="a Mac with Apple silicon, or Linux or Windows on x86-64",
    limits="It has nightly builds only, and compiles each model first.",
    abilities=frozenset({EngineAbility.JSON_SCHEMA, EngineAbility.TENSOR}),
    most_slots=4,
    memory=GrowingMemory(process=400 * MIB),
    places={
        MachineKind.APPLE: GuidePlaces(local=40, structured=0, loras=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.MIXED: GuidePlaces(local=60, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.JETSON: GuidePlaces(local=20),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=40, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: GuidePlaces(local=40),
        MachineKind.RADEON: GuidePlaces(local=20, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.AMD_APU: GuidePlaces(local=20),
        MachineKind.CPU: GuidePlaces(local=20),
    },
    app=20,
    app_on={MachineKind.APPLE: 10},
    browser=10,
    order=100,
)
