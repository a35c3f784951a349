"""What is known about one run of an engine, as its log and its life tell it."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.supervisor.states import SlotStateLaunch
from engines.api import (
    BufferAllocated,
    ContextSet,
    EngineInstallation,
    Exit,
    LaunchOptions,
    LaunchPlan,
    LoadProgress,
    LogEvent,
    MetricsOpened,
    PortOpened,
    Suspicion,
)

TAIL_LINES = 400
"""Of an engine in several processes the first error lies some 130 lines before its end (vLLM 0.32.0)."""
SUSPICIONS = 50
"""The first one counts; an engine that repeats one for hours must not fill memory with it."""
LAST_LINES = 300
"""How much an engine that served may write as it ends: a traceback of every process. What is older it got past."""


@dataclass(slots=True)
class RunFacts:
    """One run. Changed by the run only; times in Unix seconds unless they end in `_s`."""

    version: str = ""
    backend: str = ""
    base_url: str = ""
    key: str = ""
    served_name: str = ""
    pid: int | None = None
    progress: float | None = None
    stage: str = ""
    context: int | None = None
    slots: int | None = None
    buffers: dict[str, int] = field(default_factory=dict)
    """By purpose."""
    resident: int = 0
    """Bytes its processes had in memory when it became ready, where it named no buffers."""
    loaded_at: float | None = None
    load_s: float | None = None
    ready_at_s: float | None = None
    """Monotonic."""
    exit_code: int | None = None
    states: SlotStateLaunch | None = None
    stateless_reason: str = ""
    left_out: tuple[str, ...] = ()
    """What it runs without, each in a sentence."""
    suspicions: deque[tuple[int, Suspicion]] = field(default_factory=lambda: deque(maxlen=SUSPICIONS))
    """Each with how many lines there were by then."""
    metrics_url: str = ""
    """Where a router shows its own metrics, below the path `/metrics`."""
    lines: int = 0
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))

    def take_plan(self, plan: LaunchPlan, installation: EngineInstallation) -> None:
        """Note what is known before anything runs."""
        self.version, self.backend = installation.version, installation.backend
        self.base_url, self.served_name = plan.base_url, plan.served_name
        self.context, self.slots = plan.context, plan.slots
        self.stateless_reason = plan.stateless_reason
        self.left_out = tuple(omission.sentence for omission in plan.left_out)

    def mark_ready(self, begun_s: float, now_s: float) -> None:
        """Note that loading is over: what went wrong until here ended nothing."""
        self.suspicions.clear()
        self.loaded_at, self.ready_at_s, self.load_s = time.time(), now_s, now_s - begun_s
        self.progress, self.stage = None, ""

    def add_lines(self, lines: Sequence[str]) -> None:
        """Take in what it wrote."""
        self.tail.extend(lines)
        self.lines += len(lines)

    def apply_event(self, event: LogEvent) -> None:
        """Take in what a log line meant."""
        match event:
            case LoadProgress(stage=stage, fraction=fraction):
                self.stage, self.progress = stage, fraction
            case PortOpened(port=port):
                self.base_url = _with_port(self.base_url, port)
            case MetricsOpened(port=port):
                self.metrics_url = urlsplit(_with_port(self.base_url, port))._replace(path="").geturl()
            case BufferAllocated(purpose=purpose, size_bytes=size):
                self.buffers[purpose] = self.buffers.get(purpose, 0) + size
            case ContextSet(tokens=tokens, slots=slots):
                self.context, self.slots = tokens, slots or self.slots
            case Suspicion():
                self._add_suspicion(event)
            case _:
                pass

    def _add_suspicion(self, suspicion: Suspicion) -> None:
        """Keep the first while it loads, for what follows are consequences; the latest once it serves."""
        if suspicion.survived and suspicion.survived not in self.left_out:
            self.left_out += (suspicion.survived,)
        if self.ready_at_s is not None or len(self.suspicions) < SUSPICIONS:
            self.suspicions.append((self.lines, suspicion))

    def build_exit(self, options: LaunchOptions) -> Exit:
        """Return how it ended, for the adapter to name the cause. `options` are those it ran with."""
        since = 0 if self.ready_at_s is None else self.lines - LAST_LINES
        return Exit(
            code=self.exit_code,
            suspicions=tuple(suspicion for line, suspicion in self.suspicions if line >= since),
            tail=tuple(self.tail),
            was_ready=self.ready_at_s is not None,
            options=options,
        )


def _with_port(url: str, port: int) -> str:
    where = urlsplit(url)
    host = f"[{where.hostname}]" if ":" in (where.hostname or "") else where.hostname
    return where._replace(netloc=f"{host}:{port}").geturl()
