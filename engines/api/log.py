"""What an engine's log lines mean, and how it ended."""

from collections.abc import Sequence

import msgspec

from engines.api.failure import FailureKind
from engines.api.options import LaunchOptions


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Loading went on. `fraction` is 0..1, or None when the engine does not say."""

    stage: str
    fraction: float | None = None


class PortOpened(msgspec.Struct, frozen=True, kw_only=True, tag="listening"):
    """The engine chose its own port."""

    port: int


class BufferAllocated(msgspec.Struct, frozen=True, kw_only=True, tag="buffer"):
    """The engine's own accounting of memory: the truth that estimates are checked against."""

    device: str
    purpose: str
    """"model", "kv", "compute", "output", "recurrent"."""
    size_bytes: int


class ContextSet(msgspec.Struct, frozen=True, kw_only=True, tag="context"):
    """The context per slot the engine really uses."""

    tokens: int
    slots: int | None = None


class Suspicion(msgspec.Struct, frozen=True, kw_only=True, tag="suspicion"):
    """A line that names a cause, should the engine end. The first one counts."""

    kind: FailureKind
    line: str
    survived: str = ""
    """How the engine goes on without what failed, as a sentence. Such a line counts only where no other tells more."""


LogEvent = LoadProgress | PortOpened | BufferAllocated | ContextSet | Suspicion


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: its code (negative: signal, as `subprocess` has it), suspicions in order, last log lines."""

    code: int | None
    suspicions: Sequence[Suspicion]
    tail: Sequence[str]
    was_ready: bool
    options: LaunchOptions = LaunchOptions()
    """What it ran with, so that a remedy can name what would fit instead."""
