"""What the advisor knows of TGI."""

from engines.api.traits import EngineAbility, ReservedMemory, Traits

TRAITS = Traits(
    strength="serves models of the Hugging Face hub",
    needs="a running server, or its container image",
    limits="Its repository was archived in March 2026: attach a running server, or use a container image "
    "already on this computer.",
    abilities=frozenset({EngineAbility.SCALES}),
    memory=ReservedMemory(fraction=0.95, is_of_rest=True),  # --cuda-memory-fraction
    order=90,
)
