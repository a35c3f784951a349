"""The fake engine behind the contract every engine keeps, so that supervisor and gateway tests run the real thing.

How a model behaves is chosen by its name: `FakeAdapter({"broken": Behaviour(exit_code=1)})`; any other name gets the
default. `ADAPTERS` holds one that always behaves.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from engines.api import (
    BufferAllocated,
    ContextSet,
    Descriptor,
    EngineFamily,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    Feature,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LoadProgress,
    LogEvent,
    ModelFormat,
    ModelSource,
    ProcessSpec,
    Readiness,
    ReadyWhen,
    Route,
    SoftStop,
    StopPlan,
    Suspicion,
)
from tests.fake_engine.behaviour import KEY_VARIABLE, VARIABLE, Behaviour

ROOT = Path(__file__).resolve().parents[2]

DESCRIPTOR = Descriptor(
    id="fake",
    name="Fake engine",
    licence="Apache-2.0",
    homepage="https://example.org",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.GGUF,),
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
    },
    features=frozenset(
        {
            Feature.API_KEY,
            Feature.PROGRESS,
            Feature.CONTINUOUS_BATCHING,
            Feature.TOOLS,
            Feature.REASONING,
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.LOGIT_BIAS,
            Feature.CHOICES,
        }
    ),
    platforms=frozenset({"linux", "darwin", "win32"}),
    accelerators=("cpu",),
    program="fake-engine",
    verified="It is what the tests run.",
    unverified="",
)
RAW = msgspec.structs.replace(
    DESCRIPTOR, features=frozenset({Feature.API_KEY, Feature.PROGRESS, Feature.CONTINUOUS_BATCHING})
)
"""An engine that hands on what a model writes, and reads neither reasoning nor calls out of it."""

_SUSPICIOUS = (
    ("couldn't bind", FailureKind.PORT_IN_USE),
    ("out of memory", FailureKind.OUT_OF_MEMORY),
    ("corrupted or incomplete", FailureKind.MODEL_CORRUPT),
)
_SENTENCES = {
    FailureKind.PORT_IN_USE: "The port was taken.",
    FailureKind.OUT_OF_MEMORY: "There was not enough memory for this model.",
    FailureKind.MODEL_CORRUPT: "The model's file is damaged.",
}


class FakeAdapter:
    """`engines.api.EngineAdapter` for the fake engine."""

    def __init__(
        self,
        behaviours: Mapping[str, Behaviour] | None = None,
        *,
        readiness: Readiness | None = None,
        stop: StopPlan | None = None,
        has_lifeline: bool = False,
        is_raw: bool = False,
    ) -> None:
        self.descriptor = RAW if is_raw else DESCRIPTOR
        self.behaviours = dict(behaviours or {})
        self.readiness = readiness or Readiness(interval_s=0.02)
        self.stop = stop or StopPlan(grace_s=5.0)
        self.has_lifeline = has_lifeline or self.stop.how is SoftStop.STDIN_EOF
        self.installation: EngineInstallation | Failure = EngineInstallation(
            engine="fake", version="1.0", backend="cpu", python=Path(sys.executable)
        )

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:  # noqa: ARG002 -- it is the same everywhere
        return self.installation

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        if options.slots < 1:
            raise ValueError("A model needs at least one slot.")
        behaviour = self.behaviours.get(model.name, Behaviour())
        lifeline = {"FAKE_ENGINE_LIFELINE": "1"} if self.has_lifeline else {}
        server = ProcessSpec(
            role="server",
            argv=(str(installation.python), "-m", "tests.fake_engine.server", str(net.port), model.name),
            env={"PYTHONPATH": str(ROOT), VARIABLE: behaviour.to_json(), **lifeline, **options.extra_env},
            secrets={KEY_VARIABLE: net.key},
            stdin_lifeline=self.has_lifeline,
        )
        return LaunchPlan(
            processes=(server,),
            base_url=f"http://{net.host}:{net.port}",
            served_name=model.name,
            readiness=self.readiness,
            stop=self.stop,
            context=options.context,
            slots=options.slots,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        if line.startswith("{"):
            return _read_json(json.loads(line))
        return tuple(Suspicion(kind=kind, line=line) for words, kind in _SUSPICIOUS if words in line)

    def classify_exit(self, end: Exit) -> Failure:
        if end.suspicions:
            kind = end.suspicions[0].kind
            return Failure(kind=kind, sentence=_SENTENCES[kind], hint="Try another model.")
        kind = FailureKind.KILLED if end.code == -9 else FailureKind.CRASHED
        return Failure(kind=kind, sentence=f"The fake engine ended with {end.code}.")


def _read_json(record: dict[str, object]) -> Sequence[LogEvent]:
    match record:
        case {"progress": float(fraction) | int(fraction)}:
            return (LoadProgress(stage="Reading weights", fraction=fraction),)
        case {"context": int(tokens), "slots": int(slots)}:
            return (ContextSet(tokens=tokens, slots=slots),)
        case {"buffer": int(size), "device": str(device)}:
            return (BufferAllocated(device=device, purpose="model", size_bytes=size),)
        case _:
            return ()


def completion_readiness() -> Readiness:
    """Ask for a token instead of believing /health."""
    return Readiness(when=ReadyWhen.COMPLETION, path="/v1/chat/completions", interval_s=0.02)


ADAPTERS = {"fake": FakeAdapter()}
