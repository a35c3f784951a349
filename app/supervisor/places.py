"""Who is in, who waits, and whether memory that was given back has arrived: what the room remembers, without its clock.

An engine keeps its place from being let in until nothing of it is left. What it held may take a moment longer to come
back; until it has, nobody is sent away or stopped for lack of it, but that is not waited for longer than `BACK_S`.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from app.core.memory import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.supervisor.measured import is_back
from app.supervisor.policy import Policy
from app.supervisor.scheduling import (
    SYSTEM,
    Effect,
    Grant,
    Limits,
    Refuse,
    Seat,
    Waiting,
    in_the_way,
    next_overdue,
    schedule,
)

BACK_S = 2.0
"""A driver gives an ended process's memory back within this time, if it does."""
LOOK_S = 0.02
"""How often is looked whether it has."""


class Places:
    """The places and the queue. `seat` describes a model's engine. Times are monotonic seconds."""

    def __init__(self, policy: Callable[[], Policy], seat: Callable[[str], Seat]) -> None:
        self._policy = policy
        self._seat = seat
        self._seated: set[str] = set()
        self._queue: dict[str, tuple[Waiting, int]] = {}
        self._held_up: set[str] = set()
        """Those for whom there was no room when it was looked for."""
        self._before: Mapping[str, int] = {}
        """The limits when all memory had last come back."""
        self.left_at = -BACK_S
        self.limits = Limits()

    @property
    def seats(self) -> list[Seat]:
        """Who is in."""
        return [self._seat(model) for model in sorted(self._seated)]

    @property
    def waiting(self) -> list[Waiting]:
        """The loads that wait, in the order they came."""
        return [load for load, _ in self._queue.values()]

    @property
    def needs_deciding(self) -> bool:
        """Whether anybody waits, or more are in than may be."""
        most = self._policy().max_loaded
        return bool(self._queue) or (most > 0 and len(self._seated) > most)

    def enter(self, load: Waiting, run: int) -> None:
        """Queue for a place."""
        self._held_up.discard(load.model)
        self._queue[load.model] = (load, run)

    def leave(self, model: str, now: float) -> None:
        """Give up the place, or the place in the queue."""
        self._queue.pop(model, None)
        if model in self._seated:
            self._seated.discard(model)
            self.left_at = now

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for others to make room."""
        return model in self._queue and model in self._held_up

    def decide(self, limits: Limits, now: float) -> list[tuple[Effect, int]]:
        """Return what is to be done, each with the run that waited (else 0), and note it as done."""
        self.limits = self._judged(limits, now)
        effects = schedule(self.waiting, self.seats, now=now, policy=self._policy(), limits=self.limits)
        return [(effect, self._noted(effect)) for effect in effects]

    def newly_held_up(self) -> list[tuple[str, int]]:
        """Return the models, each with its run, that turned out to have to wait in the last decision."""
        held_up = set(self._queue)
        new = held_up - self._held_up
        self._held_up = held_up
        return [(model, self._queue[model][1]) for model in self._queue if model in new]

    def due(self, now: float) -> float | None:
        """Return when to decide again although nothing happened."""
        if self._queue and not self.limits.is_settled and now - self.left_at < BACK_S:
            return now + LOOK_S
        overdue = next_overdue(self.waiting, self._policy())
        return overdue if overdue is not None and overdue > now else None

    def _judged(self, limits: Limits, now: float) -> Limits:
        """Return the limits, saying whether all memory there should be is back."""
        is_all_back = now - self.left_at >= BACK_S or is_back(self._before, limits.pools)
        if is_all_back and not self._fills_graphics():
            self._before = limits.pools
            return limits
        return msgspec.structs.replace(limits, is_settled=False)

    def _fills_graphics(self) -> bool:
        """Tell whether a load is taking graphics memory, nobody knows how much of its share yet: it counts twice."""
        loading = (seat for seat in self.seats if not (seat.is_idle or seat.is_busy or seat.is_leaving))
        return any(pool != SYSTEM and size for seat in loading for pool, size in (seat.holds or {}).items())

    def _noted(self, effect: Effect) -> int:
        if not isinstance(effect, Grant | Refuse):
            return 0
        _, run = self._queue.pop(effect.model)
        if isinstance(effect, Grant):
            self._seated.add(effect.model)
        return run


def memory_state(places: Places, limits: Limits, policy: Policy, now: float) -> MemoryState:
    """Return what people are shown of it."""
    pools = [_pool(pool, limit, limits.head_room, places.seats) for pool, limit in limits.pools.items()]
    waiting = [
        WaitingLoad(
            model=load.model,
            seconds=max(0.0, now - load.since),
            needs=None if load.needs is None else dict(load.needs),
            waits_for=in_the_way(load, places.seats, policy, limits),
        )
        for load in places.waiting
    ]
    return MemoryState(pools=pools, waiting=waiting, max_loaded=policy.max_loaded)


def _pool(pool: str, limit: int, head_room: int, seats: Iterable[Seat]) -> MemoryPool:
    holders = [
        MemoryHolder(
            model=seat.model,
            bytes=None if seat.holds is None else seat.holds.get(pool, 0),
            is_pinned=seat.is_pinned,
            is_busy=seat.is_busy,
            is_idle=seat.is_idle,
        )
        for seat in seats
        if seat.holds is None or seat.holds.get(pool)
    ]
    return MemoryPool(id=pool, name=pool, limit=limit, head_room=head_room, holders=holders)
