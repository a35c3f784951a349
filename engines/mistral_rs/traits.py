"""What the advisor knows of mistral.rs."""

from engines.api.traits import (
    ARM,
    DESKTOP,
    LINUX,
    MAC,
    MIB,
    X86,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    Traits,
)

TRAITS = Traits(
    targets=(
        EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cpu", systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=(LINUX,), architectures=(ARM,)),
    ),
    strength="reads Hugging Face folders without PyTorch, in a package of 26 MB",
    needs="Linux, Windows on x86-64, or a Mac with Apple silicon",
    limits="Its build from PyPI computes on processors and on Apple's GPUs alone.",
    abilities=frozenset({EngineAbility.JSON_SCHEMA}),
    most_slots=16,
    memory=GrowingMemory(process=200 * MIB),
    order=125,
)
