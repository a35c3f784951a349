"""What the made-up engine is and can do."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.api.traits import EngineAbility, EngineTarget, GuidePlaces, MachineKind, Traits

TRAITS = Traits(
    targets=(EngineTarget(backend="cpu"),),
    strength="answers before it is asked",
    needs="a processor",
    limits="It makes everything up.",
    abilities=frozenset({EngineAbility.JSON_SCHEMA}),
    places={MachineKind.CPU: GuidePlaces(local=5, fleet=0)},
)
"""What the advisor judges it by."""
FORMATS = (ModelFormat.GGUF,)

DESCRIPTOR = Descriptor(
    id="made-up",
    name="Made-up",
    licence="MIT",
    homepage="https://example.org/made-up",
    family=EngineFamily.VENV_CLI,
    formats=FORMATS,
    modalities=frozenset({"text"}),
    routes={Route.CHAT: "/v1/chat/completions"},
    features=frozenset({Feature.API_KEY}),
    platforms=frozenset({"linux", "darwin", "win32"}),
    accelerators=("cpu",),
    metrics_path="/metrics",
    metrics={Gauge.WAITING: "made_up_waiting"},
    obtained="It is here already.",
    verified="A test runs it.",
    unverified="Never run by anybody else.",
    traits=TRAITS,
)
