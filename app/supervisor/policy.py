"""What the supervisor is asked for and keeps to, and whether it starts an engine again. Room is for `scheduling`.

Time is always passed in and always monotonic seconds: setting the wall clock changes nothing here.

What the supervisor does about a failed load by itself, as far as a person has said "do it for me". Pure.

A remedy changes options so that the load needs less, and each one only ever makes it need less: it ends.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from app.core.engines import AppliedRemedy
from engines.api import NEVER_RETRY_UNCHANGED, Failure, FailureKind, LaunchOptions, ModelSource, RemedyKind

MAX_RESTARTS = 3
RESTART_WINDOW_S = 600.0
"""At most so many restarts within so many seconds; llama-swap and systemd's defaults are of the same order."""

BACK_OFF_CEILING_S = 60.0

RETRIED_AT_ONCE = frozenset({FailureKind.UNREACHABLE})
"""Ends that cost nothing to find out again: the next request does, however often it was so."""

NOT_BY_ITSELF = (
    NEVER_RETRY_UNCHANGED | RETRIED_AT_ONCE | {FailureKind.STALLED, FailureKind.TOO_SLOW, FailureKind.LOST_PARENT}
)
"""Ends nobody restarts unasked. A stall or a slow load costs minutes each time: the next request decides."""


class MemoryNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is expected to take, in bytes by pool; `buffers` of them are what it will itself report."""

    pools: Mapping[str, int]
    buffers: int = 0
    private_limit: int = 0
    """On the processor: bytes of its own that a process may have at most, without what the engine takes for itself; 0:
    nobody knows."""


class EngineSeat(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one of several engines that serve a model alike, behind a router that knows their addresses.

    Such an engine stays loaded: it is asked by the router, so that nobody here can tell whether it is in use.
    """

    name: str
    """What its engine is called here, since several have the model's name."""
    port: int
    key_file: Path
    """Holds the key that all of them are asked with (0600)."""


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which engine is to run which model, and how; `needs` is None where nobody can say what that takes."""

    engine: str
    source: ModelSource
    options: LaunchOptions = LaunchOptions()
    needs: MemoryNeeds | None = None
    least_context: int | None = None
    """Tokens that whoever asks needs at least, as in `LeaseOptions.context`."""
    seat: EngineSeat | None = None
    """Of one of a fleet's replicas."""
    placement: str = ""
    """Where its layers lie, in a sentence, if not on this machine alone."""

    @property
    def runs_as(self) -> str:
        """What its engine is called here."""
        return self.source.name if self.seat is None else self.seat.name

    def is_for(self, other: "LoadRequest | None") -> bool:
        """Tell whether both would start the same engine in the same way; what it is expected to take may differ."""
        if other is None or (self.engine, self.source, self.seat) != (other.engine, other.source, other.seat):
            return False
        return self.options == other.options

    def is_served_by(self, running_request: "LoadRequest") -> bool:
        """Tell whether an engine that was started as `running` serves this. A router is told of other replicas."""
        if (self.engine, self.seat) != (running_request.engine, running_request.seat):
            return False
        return self.source == running_request.source or _without_replicas(self.source) == _without_replicas(
            running_request.source
        )

    @property
    def takes_memory(self) -> bool:
        """Whether it takes any here: an endpoint that somebody else runs does not."""
        return self.source.remote is None


def _without_replicas(source: ModelSource) -> ModelSource:
    """Return a router's source without its replicas; every other as it is."""
    remote = source.remote
    if remote is None or not remote.replicas:
        return source
    return msgspec.structs.replace(source, remote=msgspec.structs.replace(remote, url="", replicas=()))


class LeaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one lease asks of the engine beside its work. Later leases that say nothing leave it as it is."""

    keep_s: float | None = None
    """Stop it when it was unused for this long, whatever the policy: 0 at once, `inf` never."""
    takes_slot: bool = True
    """False for what an engine answers beside its slots, such as counting tokens."""
    context: int | None = None
    """Tokens needed. An engine with fewer is loaded again once nobody uses it, if the request's own are more."""


class SupervisorFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Where the supervisor writes: process records, engine logs, and private files of a launch. Made when needed."""

    records: Path
    logs: Path
    scratch: Path


class ModelPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a person set for one model."""

    is_pinned: bool = False
    """It stays: neither time nor another model unloads it, only a person does."""
    idle_s: float | None = None
    """An unused engine is stopped after this long, 0 keeps it; None: as for the others."""
    is_kept: bool = False
    """It stays however long it is unused, and makes room only where no other idle model would do."""


_AS_ALL = ModelPolicy()


class SupervisorPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a person can set. Times in seconds; None for `stall_s` or `hard_s` leaves it to the engine's adapter."""

    stall_s: float | None = None
    """Without a log line, progress or CPU use for this long while loading, an engine is stopped."""
    hard_s: float | None = None
    """A load may take this long, whatever signs of life there are."""
    drain_s: float = 30.0
    max_loaded: int = 0
    """At most so many models at once; 0 leaves it to memory."""
    refuses_too_large: bool = True
    """A load that cannot fit is refused. Otherwise it is tried, alone in its memory."""
    head_room: int = 0
    """Bytes of each memory that stay free beside what engines take."""
    keep_free: int = 0
    """Bytes of each memory below which idle engines make way for other programs; 0: they do not."""
    is_paused: bool = False
    """A person wants the memory for something else: nothing that takes any is loaded or served."""
    queue_limit: int = 128
    """Requests that may wait for one model."""
    models: Mapping[str, ModelPolicy] = {}
    idle_s: float = 1800.0
    """An unused engine is stopped after this long; 0 keeps it."""
    patience_s: float = 30.0
    """How long a load waits for an idle engine before a busy one takes no new requests, to make room in its turn."""

    def for_model(self, model: str) -> ModelPolicy:
        """Return what was set for one model."""
        return self.models.get(model, _AS_ALL)

    def keeps_s(self, model: str) -> float:
        """Return how long a model's engine is kept unused where no request says otherwise; `inf` for ever."""
        own = self.for_model(model).idle_s
        return (self.idle_s if own is None else own) or math.inf

    mends: frozenset[RemedyKind] = frozenset()
    """Remedies to apply to a failed load without asking."""


def recent_restarts(restarts: Sequence[float], now: float) -> list[float]:
    """Return the restarts that still count."""
    return [at for at in restarts if now - at < RESTART_WINDOW_S]


def back_off_delay(restarts: Sequence[float], now: float) -> float | None:
    """Return how long to wait before the next restart (1, 2, 4, ... s), or None when there were too many."""
    count = len(recent_restarts(restarts, now))
    if count >= MAX_RESTARTS:
        return None
    return min(float(2**count), BACK_OFF_CEILING_S)


TRIES = 4
"""So many changes within one load: a context is halved four times at most, and then a person had better look."""

APPLICABLE = (
    RemedyKind.LESS_CONTEXT,
    RemedyKind.FEWER_SLOTS,
    RemedyKind.SMALLER_CACHE,
    RemedyKind.FEWER_LAYERS,
    RemedyKind.LESS_GPU_MEMORY,
)
"""Those that are options of a load; the others are for people."""


class AutoRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """The load to try instead, and what was changed and why."""

    request: LoadRequest
    applied: AppliedRemedy


def apply_auto_remedy(
    request: LoadRequest, failure: Failure, allowed_kinds: frozenset[RemedyKind]
) -> AutoRemedy | None:
    """Return the load with the first remedy that is allowed; None when none is, or none changes anything."""
    for remedy in failure.remedies:
        if remedy.kind not in allowed_kinds or not remedy.options:
            continue
        options = msgspec.structs.replace(request.options, **remedy.options)
        if options != request.options:
            sentence = f"{failure.sentence} Roundhouse did this: {remedy.label[0].lower()}{remedy.label[1:]}."
            applied_remedy = AppliedRemedy(kind=remedy.kind.value, sentence=sentence)
            return AutoRemedy(request=msgspec.structs.replace(request, options=options), applied=applied_remedy)
    return None
