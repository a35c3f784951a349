"""The room engines share: reads how much memory there is, has it decided who gets some, and tells the owners.

Memory is read for every decision that somebody waits for, in between never: an engine that is ready costs nothing here.

Who is in, who waits, and whether memory that was given back has arrived: what the room remembers, without its clock.

An engine keeps its place from being let in until nothing of it is left. What it held may take a moment longer to come
back; until it has, nobody is sent away or stopped for lack of it, but that is not waited for longer than `BACK_S`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

import msgspec

from app.core.engines import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.supervisor import messages as m
from app.supervisor.alarm import Alarm
from app.supervisor.faults import room_failure
from app.supervisor.memory_limits import Gauge, is_memory_back, limits_of
from app.supervisor.policy import SupervisorPolicy
from app.supervisor.scheduling import (
    SYSTEM,
    EvictEngine,
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


class MemoryArbiter:
    """The room. `describe_resident` describes a model's engine; `send` reaches its owner."""

    def __init__(
        self,
        policy: Callable[[], SupervisorPolicy],
        *,
        describe_resident: Callable[[str], Resident],
        send: Callable[[str, m.Message], None],
    ) -> None:
        self.ledger = MemoryLedger(policy, describe_resident)
        self._policy = policy
        self._send = send
        self.gauge: Gauge | None = None
        """Reads memory; without one it is taken to be endless."""
        self._alarm = Alarm(self.reconsider_queue)
        self._loop = asyncio.get_running_loop()
        self._reading_task: asyncio.Task[None] | None = None
        self._reads_again = False
        self._is_closed = False
        self._read_at = 0.0
        """When memory was last read, unless somebody has come or gone since."""

    def join_queue(self, model: str, run: int, needs: Mapping[str, int] | None) -> None:
        """Queue for room; the owner hears `RoomGranted` or `RoomRefused` of that run."""
        self.ledger.join_queue(PendingLoad(model=model, since=time.monotonic(), needs=needs), run)
        self._read_at = 0.0
        self.reconsider_queue()

    def leave_queue(self, model: str) -> None:
        """Give up the place, or the place in the queue."""
        self.ledger.leave_queue(model, time.monotonic())
        self._read_at = 0.0
        self.reconsider_queue()

    def reconsider_queue(self) -> None:
        """Let in who can be, and ask engines to make room for the others."""
        if self._is_closed or not self.ledger.needs_deciding:
            return
        if self.gauge is None:
            self._apply_decision(MemoryLimits())
        elif self._reading_task is not None:
            self._reads_again = True
        elif (due := self._read_at + LOOK_S) > time.monotonic():
            self._arm_alarm(
                due
            )  # reading takes milliseconds: not for every request that comes or goes while a load waits
        else:
            self._reading_task = asyncio.create_task(self._read_and_decide(self.gauge), name="room")

    async def read_limits(self) -> MemoryLimits:
        """Return how much memory there is for engines now."""
        return MemoryLimits() if self.gauge is None else await self._read_gauge(self.gauge)

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for another to make room."""
        return self.ledger.is_queued(model)

    def close(self) -> None:
        """Ask nothing more of anybody."""
        self._is_closed = True
        self._alarm.close()
        if self._reading_task is not None:
            self._reading_task.cancel()

    async def _read_and_decide(self, gauge: Gauge) -> None:
        left_at, self._reads_again = self.ledger.left_at, False
        try:
            limits = await self._read_gauge(gauge)
        finally:
            self._reading_task = None
        if self.ledger.left_at == left_at:  # else what was read is of before
            self._read_at = time.monotonic()
            self._apply_decision(limits)
        if self._reads_again:
            self.reconsider_queue()

    async def _read_gauge(self, gauge: Gauge) -> MemoryLimits:
        residents = self.ledger.residents
        try:
            memory_reading = await gauge([resident.pid for resident in residents if resident.pid is not None])
        except Exception:  # a gauge that fails must not keep every model from loading
            logging.getLogger(__name__).exception("Free memory could not be read")
            return MemoryLimits()
        return limits_of(memory_reading, residents, self._policy().head_room)

    def _apply_decision(self, limits: MemoryLimits) -> None:
        for effect, run in self.ledger.decide_effects(limits, time.monotonic()):
            self._send(effect.model, decision_message(effect, run))
        for model, run in self.ledger.take_newly_blocked():
            self._send(model, m.RoomAwaited(run=run))
        self._alarm.set_due(None)
        due = self.ledger.next_due(time.monotonic())
        if due is not None:
            self._arm_alarm(due)

    def _arm_alarm(self, due: float) -> None:
        """Decide again at that time, unless an earlier one is set."""
        if self._alarm.due is None or self._alarm.due > due:
            self._alarm.set_due(due)


def decision_message(effect: RoomEffect, run: int) -> m.Message:
    """Return what a model's owner is told of a decision."""
    match effect:
        case GrantRoom():
            return m.RoomGranted(run=run)
        case EvictEngine(drain=drains):
            return m.StopRequest(how=m.StopReason.YIELD if drains else m.StopReason.IF_IDLE)
        case RefuseLoad():
            return m.RoomRefused(run=run, failure=room_failure(effect))
        case _:
            assert_never(effect)


BACK_S = 2.0
"""A driver gives an ended process's memory back within this time, if it does."""
LOOK_S = 0.02
"""How often is looked whether it has."""


class MemoryLedger:
    """The places and the queue. `describe_resident` describes a model's engine. Times are monotonic seconds."""

    def __init__(self, policy: Callable[[], SupervisorPolicy], describe_resident: Callable[[str], Resident]) -> None:
        self._policy = policy
        self._describe_resident = describe_resident
        self._resident_models: set[str] = set()
        self._queue: dict[str, tuple[PendingLoad, int]] = {}
        self._blocked_models: set[str] = set()
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
        self._blocked_models.discard(load.model)
        self._queue[load.model] = (load, run)

    def leave_queue(self, model: str, now: float) -> None:
        """Give up the place, or the place in the queue."""
        self._queue.pop(model, None)
        if model in self._resident_models:
            self._resident_models.discard(model)
            self.left_at = now

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for others to make room."""
        return model in self._queue and model in self._blocked_models

    def decide_effects(self, limits: MemoryLimits, now: float) -> list[tuple[RoomEffect, int]]:
        """Return what is to be done, each with the run that waited (else 0), and note it as done."""
        self.limits = self._judge_limits(limits, now)
        effects = schedule_loads(self.pending_loads, self.residents, now=now, policy=self._policy(), limits=self.limits)
        return [(effect, self._note_effect(effect)) for effect in effects]

    def take_newly_blocked(self) -> list[tuple[str, int]]:
        """Return the models, each with its run, that turned out to have to wait in the last decision."""
        blocked_tickets = set(self._queue)
        new = blocked_tickets - self._blocked_models
        self._blocked_models = blocked_tickets
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
        loading_runs = (
            resident for resident in self.residents if not (resident.is_idle or resident.is_busy or resident.is_leaving)
        )
        return any(
            pool != SYSTEM and size for resident in loading_runs for pool, size in (resident.holds or {}).items()
        )

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
    waiting_loads = [
        WaitingLoad(
            model=load.model,
            seconds=max(0.0, now - load.since),
            needs=None if load.needs is None else dict(load.needs),
            waits_for=engines_in_the_way(load, ledger.residents, policy, limits),
        )
        for load in ledger.pending_loads
    ]
    return MemoryState(pools=pools, waiting=waiting_loads, max_loaded=policy.max_loaded)


def _describe_pool(pool: str, limit: int, head_room: int, residents: Iterable[Resident]) -> MemoryPool:
    holders = [
        MemoryHolder(
            model=resident.model,
            bytes=None if resident.holds is None else resident.holds[pool],
            is_pinned=resident.is_pinned,
            is_busy=resident.is_busy,
            is_idle=resident.is_idle,
        )
        for resident in residents
        if resident.holds is None or resident.holds.get(pool)
    ]
    return MemoryPool(id=pool, name=pool, limit=limit, head_room=head_room, holders=holders)
