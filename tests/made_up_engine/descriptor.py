"""What the made-up engine is and can do."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, Route
from tests.made_up_engine.traits import FORMATS, TRAITS

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
