"""What the advisor knows of TGI."""

from engines.api.traits import EngineAbility, ReservedMemory, Traits

TRAITS = Traits(
    strength="serves models of the Hugging Face hub",
    needs="to run already, or its container image",
    limits="Its repository was archived in March 2026: attach one that runs, or use a container that is here.",
    abilities=frozenset({EngineAbility.SCALES}),
    memory=ReservedMemory(fraction=0.95, is_of_rest=True),  # --cuda-memory-fraction
    order=90,
)
