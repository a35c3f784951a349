"""What the advisor knows of the made-up engine: any processor will do, and there it is the first."""

from engines.api import ModelFormat
from engines.api.traits import Ability, MachineKind, Places, Target, Traits

TRAITS = Traits(
    targets=(Target(backend="cpu"),),
    strength="answers before it is asked",
    needs="a processor",
    limits="It makes everything up.",
    abilities=frozenset({Ability.JSON_SCHEMA}),
    places={MachineKind.CPU: Places(local=5, fleet=0)},
)
FORMATS = (ModelFormat.GGUF,)
