"""Who is in, who waits, and whether memory that was given back has arrived: what the room remembers, without its clock.

An engine keeps its place from being let in until nothing of it is left. What it held may take a moment longer to come
back; until it has, nobody is sent away or stopped for lack of it, but that is not waited for longer than `BACK_S`.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from app.core.memory import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.supervisor.memory_limits import is_memory_back
from app.supervisor.policy import SupervisorPolicy
from app.supervisor.scheduling import (
    SYSTEM,
    GrantRoom,
    MemoryLimits,
    PendingLoad,
    RefuseLoad,
    Resident,
    RoomEffect,
    engines_in_the_way,
    next_overdue,
    schedule_loads,
)

BACK_S = 2.0
"""A driver gives an ended process's memory back within this time, if it does."""
LOOK_S = 0.02
"""How often is looked whether it has."""


class MemoryLedger:
    """The places and the queue. `seat` describes a model's engine. Times are monotonic seconds."""

    def __init__(self, policy: Callable[[], SupervisorPolicy], describe_resident: Callable[[str], Resident]) -> None:
        self._policy = policy
        self._describe_resident = describe_resident
        self._resident_models: set[str] = set()
        self._queue: dict[str, tuple[PendingLoad, int]] = {}
        self._blocked: set[str] = set()
        """Those for whom there was no room when it was looked for."""
        self._before: Mapping[str, int] = {}
        """The limits when all memory had last come back."""
        self.left_at = -BACK_S
        self.limits = MemoryLimits()

    @property
    def residents(self) -> list[Resident]:
        """Who is in."""
        return [self._describe_resident(model) for model in sorted(self._resident_models)]

    @property
    def pending_loads(self) -> list[PendingLoad]:
        """The loads that wait, in the order they came."""
        return [load for load, _ in self._queue.values()]

    @property
    def needs_deciding(self) -> bool:
        """Whether anybody waits, or more are in than may be."""
        most = self._policy().max_loaded
        return bool(self._queue) or (most > 0 and len(self._resident_models) > most)

    def join_queue(self, load: PendingLoad, run: int) -> None:
        """Queue for a place."""
        self._blocked.discard(load.model)
        self._queue[load.model] = (load, run)

    def leave_queue(self, model: str, now: float) -> None:
        """Give up the place, or the place in the queue."""
        self._queue.pop(model, None)
        if model in self._resident_models:
            self._resident_models.discard(model)
            self.left_at = now

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for others to make room."""
        return model in self._queue and model in self._blocked

    def decide_effects(self, limits: MemoryLimits, now: float) -> list[tuple[RoomEffect, int]]:
        """Return what is to be done, each with the run that waited (else 0), and note it as done."""
        self.limits = self._judge_limits(limits, now)
        effects = schedule_loads(self.pending_loads, self.residents, now=now, policy=self._policy(), limits=self.limits)
        return [(effect, self._note_effect(effect)) for effect in effects]

    def take_newly_blocked(self) -> list[tuple[str, int]]:
        """Return the models, each with its run, that turned out to have to wait in the last decision."""
        blocked = set(self._queue)
        new = blocked - self._blocked
        self._blocked = blocked
        return [(model, self._queue[model][1]) for model in self._queue if model in new]

    def next_due(self, now: float) -> float | None:
        """Return when to decide again although nothing happened."""
        if self._queue and not self.limits.is_settled and now - self.left_at < BACK_S:
            return now + LOOK_S
        overdue = next_overdue(self.pending_loads, self._policy())
        return overdue if overdue is not None and overdue > now else None

    def _judge_limits(self, limits: MemoryLimits, now: float) -> MemoryLimits:
        """Return the limits, saying whether all memory there should be is back."""
        is_all_back = now - self.left_at >= BACK_S or is_memory_back(self._before, limits.pools)
        if is_all_back and not self._fills_graphics():
            self._before = limits.pools
            return limits
        return msgspec.structs.replace(limits, is_settled=False)

    def _fills_graphics(self) -> bool:
        """Tell whether a load is taking graphics memory, nobody knows how much of its share yet: it counts twice."""
        loading = (
            resident for resident in self.residents if not (resident.is_idle or resident.is_busy or resident.is_leaving)
        )
        return any(pool != SYSTEM and size for resident in loading for pool, size in (resident.holds or {}).items())

    def _note_effect(self, effect: RoomEffect) -> int:
        if not isinstance(effect, GrantRoom | RefuseLoad):
            return 0
        _, run = self._queue.pop(effect.model)
        if isinstance(effect, GrantRoom):
            self._resident_models.add(effect.model)
        return run


def memory_state(ledger: MemoryLedger, limits: MemoryLimits, policy: SupervisorPolicy, now: float) -> MemoryState:
    """Return what people are shown of it."""
    pools = [_describe_pool(pool, limit, limits.head_room, ledger.residents) for pool, limit in limits.pools.items()]
    waiting = [
        WaitingLoad(
            model=load.model,
            seconds=max(0.0, now - load.since),
            needs=None if load.needs is None else dict(load.needs),
            waits_for=engines_in_the_way(load, ledger.residents, policy, limits),
        )
        for load in ledger.pending_loads
    ]
    return MemoryState(pools=pools, waiting=waiting, max_loaded=policy.max_loaded)


def _describe_pool(pool: str, limit: int, head_room: int, residents: Iterable[Resident]) -> MemoryPool:
    holders = [
        MemoryHolder(
            model=resident.model,
            bytes=None if resident.holds is None else resident.holds.get(pool, 0),
            is_pinned=resident.is_pinned,
            is_busy=resident.is_busy,
            is_idle=resident.is_idle,
        )
        for resident in residents
        if resident.holds is None or resident.holds.get(pool)
    ]
    return MemoryPool(id=pool, name=pool, limit=limit, head_room=head_room, holders=holders)
