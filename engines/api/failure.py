"""Why an engine ended and what may help, by codes that settings, API, CLI and window share.

What an engine's log lines mean, and how it ended.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from engines.api.options import LaunchOptions


class FailureKind(StrEnum):
    """Why an engine ended or refused. The values are stable: API, CLI and window show the same code."""

    PORT_IN_USE = "port_in_use"
    OUT_OF_GPU_MEMORY = "out_of_gpu_memory"
    OUT_OF_MEMORY = "out_of_memory"
    CONTEXT_TOO_LARGE = "context_too_large"
    MODEL_CORRUPT = "model_corrupt"
    MODEL_UNSUPPORTED = "model_unsupported"
    MODEL_NOT_FOUND = "model_not_found"
    BAD_TEMPLATE = "bad_template"
    AUTH = "auth"
    REMOTE_CODE = "remote_code"
    OFFLINE = "offline"
    DISK_FULL = "disk_full"
    SHARED_MEMORY = "shared_memory"
    """Processes of one engine have too little memory to share: /dev/shm."""
    DRIVER = "driver"
    MISSING_LIBRARY = "missing_library"
    BAD_FLAG = "bad_flag"
    OUTDATED = "outdated"
    """A version with published holes: it is not started unless a person says so."""
    ILLEGAL_INSTRUCTION = "illegal_instruction"
    BACKEND_CRASH = "backend_crash"
    NOT_INSTALLED = "not_installed"
    STALLED = "stalled"
    UNRESPONSIVE = "unresponsive"
    """It was ready, and answered nothing any more."""
    TOO_SLOW = "too_slow"
    KILLED = "killed"
    CRASHED = "crashed"
    LOST_PARENT = "lost_parent"
    UNREACHABLE = "unreachable"
    """An attached endpoint does not answer, or no longer has the model."""
    UNKNOWN = "unknown"


NEVER_RETRY_UNCHANGED = frozenset(FailureKind) - {
    FailureKind.PORT_IN_USE,
    FailureKind.BACKEND_CRASH,
    FailureKind.STALLED,
    FailureKind.UNRESPONSIVE,
    FailureKind.TOO_SLOW,
    FailureKind.KILLED,
    FailureKind.CRASHED,
    FailureKind.LOST_PARENT,
    FailureKind.UNREACHABLE,
    FailureKind.UNKNOWN,
}
"""Ends that the same arguments would only repeat: never restarted without a change."""


class RemedyKind(StrEnum):
    """What may help. The values are stable: settings, API, CLI and window show the same code."""

    LESS_CONTEXT = "less_context"
    FEWER_SLOTS = "fewer_slots"
    SMALLER_CACHE = "smaller_cache"
    """A quantised KV cache."""
    FEWER_LAYERS = "fewer_layers"
    """Fewer layers on the GPU."""
    LESS_GPU_MEMORY = "less_gpu_memory"
    """A smaller share of GPU memory."""
    OTHER_RUNTIME = "other_runtime"
    """Another build of the same engine, or another engine."""
    RESET_OPTIONS = "reset_options"
    LOAD_AGAIN = "load_again"
    SMALLER_MODEL = "smaller_model"
    OTHER_MODEL = "other_model"
    DOWNLOAD_AGAIN = "download_again"
    UPDATE_ENGINE = "update_engine"
    INSTALL_AGAIN = "install_again"
    UPDATE_DRIVER = "update_driver"
    SIGN_IN = "sign_in"
    ALLOW_CODE = "allow_code"
    FREE_MEMORY = "free_memory"
    FREE_DISK = "free_disk"


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What may help: `label` is what a button says; loading with `options` (of `LaunchOptions`) changed applies it."""

    kind: RemedyKind
    label: str
    options: Mapping[str, int | float | str] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One end, said for a person: the cause, the log line that shows it, and what may help, most promising first."""

    kind: FailureKind
    sentence: str
    hint: str = ""
    evidence: str = ""
    remedies: tuple[Remedy, ...] = ()


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Loading went on. `fraction` is 0..1, or None when the engine does not say."""

    stage: str
    fraction: float | None = None


class PortOpened(msgspec.Struct, frozen=True, kw_only=True, tag="listening"):
    """The engine chose its own port."""

    port: int


class MetricsOpened(msgspec.Struct, frozen=True, kw_only=True, tag="metrics"):
    """A router shows its metrics at /metrics of a port of their own, without a key."""

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


LogEvent = LoadProgress | PortOpened | MetricsOpened | BufferAllocated | ContextSet | Suspicion


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: its code (negative: signal, as `subprocess` has it), suspicions in order, last log lines."""

    code: int | None
    suspicions: Sequence[Suspicion]
    tail: Sequence[str]
    was_ready: bool
    options: LaunchOptions = LaunchOptions()
    """What it ran with, so that a remedy can name what would fit instead."""
