"""What an adapter is asked, and the plan it answers with: how an engine is started, known to be ready, and stopped."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from engines.api.about import Descriptor
from engines.api.failure import Exit, Failure, LogEvent
from engines.api.options import EngineInstallation, EngineLocation, LaunchOptions, ListenOptions, ModelSource


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `env` is added to a clean environment; `secrets` likewise, and is never logged.

    `stdin_lifeline` keeps a pipe open on its standard input: the process must end when it reads end-of-file, so that it
    dies with its parent on every platform.
    """

    role: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    cwd: Path | None = None
    stdin_lifeline: bool = False


class LaunchFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file the launch needs, relative to the launch's private folder; written with mode 0600."""

    name: str
    content: bytes


NETWORK_DEVICE = "roundhouse0"
"""What the one device of a network of an engine's own is called in it."""


class PrivateNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A network for this launch and its like on other computers: nothing else can be reached in it, or reaches it.

    Requests come from outside by one socket that listens at `host` and `port`, and is inherited.
    """

    address: str
    host: str
    port: int
    descriptor: int
    """As in `NodePlace`."""
    device: str = NETWORK_DEVICE


class ReadyWhen(StrEnum):
    """What proves readiness. Several engines answer /health before they can generate, so it is the engine's choice."""

    HTTP_OK = "http_ok"
    COMPLETION = "completion"
    MODEL_LISTED = "model_listed"
    CONNECTS = "connects"
    """It accepts a connection: for what does not speak HTTP."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask whether it can generate, and how long silence may last. All times in seconds."""

    when: ReadyWhen = ReadyWhen.HTTP_OK
    path: str = "/health"
    interval_s: float = 0.1
    grace_s: float = 0.0
    stall_s: float = 120.0
    """Without a log line, progress or CPU use for this long, it is stalled."""
    hard_s: float = 1800.0


class SoftStop(StrEnum):
    """How to ask an engine to end before killing it."""

    SIGTERM = "sigterm"
    SIGINT = "sigint"
    STDIN_EOF = "stdin_eof"
    HTTP = "http"


class StopPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is for HTTP: POSTed with the launch key. `grace_s` is how long to wait before killing the group."""

    how: SoftStop = SoftStop.SIGTERM
    path: str = ""
    grace_s: float = 10.0


class OmittedOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option the installed version has no flag for, and can do without: it runs, and says so."""

    option: str
    sentence: str


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the supervisor needs to start, watch and stop one engine. `served_name` goes in `model` fields.

    Without processes it is an endpoint that runs already, watched and neither started nor stopped, with a `key_file`.
    """

    processes: tuple[ProcessSpec, ...]
    base_url: str
    served_name: str
    readiness: Readiness
    stop: StopPlan = StopPlan()
    files: tuple[LaunchFile, ...] = ()
    context: int | None = None
    slots: int = 1
    left_out: tuple[OmittedOption, ...] = ()
    key_file: Path | None = None
    keeps_states: bool = False
    """It writes states of slots into `ListenOptions.state_folder`."""
    network: PrivateNetwork | None = None
    """The network that its processes are started in; None for this computer's."""
    stateless_reason: str = ""
    """Why it does not, in a sentence, of an engine that can."""


class EngineAdapter(Protocol):
    """The code an engine needs. Every method is pure but `probe`, which may look at the installed engine."""

    @property
    def descriptor(self) -> Descriptor:
        """What the engine is."""

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the engine in `place`: its version, devices and flags. Import nothing heavy: ask metadata or a child.

        Without a place, find what came with Roundhouse itself or lies on PATH.
        """

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Turn generic options into processes. Raises ValueError with a sentence for options it cannot honour."""

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a log line means; most mean nothing."""

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
