"""What the advisor knows of the made-up engine: any processor will do, and there it is the first."""

from engines.api import ModelFormat
from engines.api.traits import EngineAbility, EngineTarget, GuidePlaces, MachineKind, Traits

TRAITS = Traits(
    targets=(EngineTarget(backend="cpu"),),
    strength="answers before it is asked",
    needs="a processor",
    limits="It makes everything up.",
    abilities=frozenset({EngineAbility.JSON_SCHEMA}),
    places={MachineKind.CPU: GuidePlaces(local=5, fleet=0)},
)
FORMATS = (ModelFormat.GGUF,)
