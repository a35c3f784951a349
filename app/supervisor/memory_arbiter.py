"""The room engines share: reads how much memory there is, has it decided who gets some, and tells the owners.

Memory is read for every decision that somebody waits for, in between never: an engine that is ready costs nothing here.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import assert_never

from app.supervisor import messages as m
from app.supervisor.alarm import Alarm
from app.supervisor.faults import room_failure
from app.supervisor.memory_ledger import LOOK_S, MemoryLedger
from app.supervisor.memory_limits import Gauge, limits_of
from app.supervisor.policy import SupervisorPolicy
from app.supervisor.scheduling import (
    EvictEngine,
    GrantRoom,
    MemoryLimits,
    PendingLoad,
    RefuseLoad,
    Resident,
    RoomEffect,
)


class MemoryArbiter:
    """The room. `seat` describes a model's engine; `send` reaches its owner."""

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
        self._alarm.set_due(None)
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
        if self._reads_again or self.ledger.left_at != left_at:
            self.reconsider_queue()

    async def _read_gauge(self, gauge: Gauge) -> MemoryLimits:
        residents = self.ledger.residents
        try:
            reading = await gauge([resident.pid for resident in residents if resident.pid is not None])
        except Exception:  # a gauge that fails must not keep every model from loading
            logging.getLogger(__name__).exception("Free memory could not be read")
            return MemoryLimits()
        return limits_of(reading, residents, self._policy().head_room)

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
