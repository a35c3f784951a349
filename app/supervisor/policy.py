"""What the supervisor decides, as pure functions: who gets room, who makes room, and whether to start again.

Time is always passed in and always monotonic seconds: setting the wall clock changes nothing here.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from engines.api import NEVER_RETRY_UNCHANGED, FailureKind, LaunchOptions, ModelSource

MAX_RESTARTS = 3
RESTART_WINDOW_S = 600.0
"""At most so many restarts within so many seconds; llama-swap and systemd's defaults are of the same order."""

BACK_OFF_CEILING_S = 60.0

NOT_BY_ITSELF = NEVER_RETRY_UNCHANGED | {FailureKind.STALLED, FailureKind.TOO_SLOW, FailureKind.LOST_PARENT}
"""Ends nobody restarts unasked. A stall or a slow load costs minutes each time: the next request decides."""


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which engine is to run which model, and how."""

    engine: str
    source: ModelSource
    options: LaunchOptions = LaunchOptions()


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What one lease asks of the engine beside its work. Later leases that say nothing leave it as it is."""

    keep_s: float | None = None
    """Stop it when it was unused for this long, whatever the policy: 0 at once, `inf` never."""
    context: int | None = None
    """Tokens needed. An engine with fewer is loaded again once nobody uses it, if the request's own are more."""


class Folders(msgspec.Struct, frozen=True, kw_only=True):
    """Where the supervisor writes: process records, engine logs, and private files of a launch. Made when needed."""

    records: Path
    logs: Path
    scratch: Path


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a person can set. Times in seconds; None for `stall_s` or `hard_s` leaves it to the engine's adapter."""

    stall_s: float | None = None
    """Without a log line, progress or CPU use for this long while loading, an engine is stopped."""
    hard_s: float | None = None
    """A load may take this long, whatever signs of life there are."""
    drain_s: float = 30.0
    max_loaded: int = 2
    idle_s: float = 1800.0
    """An unused engine is stopped after this long; 0 keeps it."""
    patience_s: float = 30.0
    """How long a load waits for an idle engine before a busy one takes no new requests, to make room in its turn."""


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One engine that takes up room. While it loads it is neither idle nor busy. `last_used` is monotonic."""

    model: str
    last_used: float
    is_idle: bool = False
    is_busy: bool = False
    is_leaving: bool = False


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One load that waits for room, since a monotonic time."""

    model: str
    since: float


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """This model may start now."""

    model: str


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """This model should stop. `drain`: it is busy, and should finish what it does and take nothing new."""

    model: str
    drain: bool = False


def evict(needed: int, running: Sequence[Seat], limit: int) -> list[str]:
    """Name the engines that make room for `needed` more: idle ones, least recently used first. Never a busy one."""
    leaving = sum(seat.is_leaving for seat in running)
    missing = len(running) - leaving + needed - limit
    idle = sorted((seat for seat in running if seat.is_idle and not seat.is_leaving), key=lambda seat: seat.last_used)
    return [seat.model for seat in idle[: max(0, missing)]]


def schedule(waiting: Sequence[Waiting], running: Sequence[Seat], *, now: float, policy: Policy) -> list[Grant | Evict]:
    """Give free room in the order of asking; for the rest, say who makes room. First come, first served."""
    free = max(0, policy.max_loaded - len(running))
    granted, queued = waiting[:free], waiting[free:]
    effects: list[Grant | Evict] = [Grant(model=load.model) for load in granted]
    room_taken = [*running, *(_just_granted(load, now) for load in granted)]
    victims = evict(len(queued), room_taken, policy.max_loaded)
    effects += [Evict(model=victim) for victim in victims]
    leaving = sum(seat.is_leaving for seat in running) + len(victims)
    overdue = [load for load in queued[leaving:] if now - load.since >= policy.patience_s]
    busy = sorted((seat for seat in running if seat.is_busy), key=lambda seat: seat.last_used)
    effects += [Evict(model=seat.model, drain=True) for seat in busy[: len(overdue)]]
    return effects


def _just_granted(load: Waiting, now: float) -> Seat:
    return Seat(model=load.model, last_used=now)


def next_overdue(waiting: Sequence[Waiting], policy: Policy) -> float | None:
    """Return when `schedule` has to be asked again although nothing happened."""
    return min((load.since + policy.patience_s for load in waiting), default=None)


def recent(restarts: Sequence[float], now: float) -> list[float]:
    """Return the restarts that still count."""
    return [at for at in restarts if now - at < RESTART_WINDOW_S]


def back_off(restarts: Sequence[float], now: float) -> float | None:
    """Return how long to wait before the next restart (1, 2, 4, ... s), or None when there were too many."""
    count = len(recent(restarts, now))
    if count >= MAX_RESTARTS:
        return None
    return min(float(2**count), BACK_OFF_CEILING_S)
