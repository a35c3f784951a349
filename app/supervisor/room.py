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
from app.supervisor.faults import no_room
from app.supervisor.measured import Gauge, limits_of
from app.supervisor.places import LOOK_S, Places
from app.supervisor.policy import Policy
from app.supervisor.scheduling import Effect, Evict, Grant, Limits, Refuse, Seat, Waiting


class Room:
    """The room. `seat` describes a model's engine; `send` reaches its owner."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        *,
        seat: Callable[[str], Seat],
        send: Callable[[str, m.Message], None],
    ) -> None:
        self.places = Places(policy, seat)
        self._policy = policy
        self._send = send
        self.gauge: Gauge | None = None
        """Reads memory; without one it is taken to be endless."""
        self._alarm = Alarm(self.reconsider)
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.Task[None] | None = None
        self._looks_again = False
        self._is_closed = False
        self._looked_at = 0.0
        """When memory was last read, unless somebody has come or gone since."""

    def enter(self, model: str, run: int, needs: Mapping[str, int] | None) -> None:
        """Queue for room; the owner hears `RoomGranted` or `RoomRefused` of that run."""
        self.places.enter(Waiting(model=model, since=time.monotonic(), needs=needs), run)
        self._looked_at = 0.0
        self.reconsider()

    def leave(self, model: str) -> None:
        """Give up the place, or the place in the queue."""
        self.places.leave(model, time.monotonic())
        self._looked_at = 0.0
        self.reconsider()

    def reconsider(self) -> None:
        """Let in who can be, and ask engines to make room for the others."""
        if self._is_closed or not self.places.needs_deciding:
            return
        if self.gauge is None:
            self._decide(Limits())
        elif self._looking is not None:
            self._looks_again = True
        elif (due := self._looked_at + LOOK_S) > time.monotonic():
            self._arm(due)  # reading takes milliseconds: not for every request that comes or goes while a load waits
        else:
            self._looking = asyncio.create_task(self._look(self.gauge), name="room")

    async def read(self) -> Limits:
        """Return how much memory there is for engines now."""
        return Limits() if self.gauge is None else await self._read(self.gauge)

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for another to make room."""
        return self.places.is_queued(model)

    def close(self) -> None:
        """Ask nothing more of anybody."""
        self._is_closed = True
        self._alarm.set(None)
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self, gauge: Gauge) -> None:
        left_at, self._looks_again = self.places.left_at, False
        try:
            limits = await self._read(gauge)
        finally:
            self._looking = None
        if self.places.left_at == left_at:  # else what was read is of before
            self._looked_at = time.monotonic()
            self._decide(limits)
        if self._looks_again or self.places.left_at != left_at:
            self.reconsider()

    async def _read(self, gauge: Gauge) -> Limits:
        seats = self.places.seats
        try:
            reading = await gauge([seat.pid for seat in seats if seat.pid is not None])
        except Exception:  # a gauge that fails must not keep every model from loading
            logging.getLogger(__name__).exception("Free memory could not be read")
            return Limits()
        return limits_of(reading, seats, self._policy().head_room)

    def _decide(self, limits: Limits) -> None:
        for effect, run in self.places.decide(limits, time.monotonic()):
            self._send(effect.model, told(effect, run))
        for model, run in self.places.newly_held_up():
            self._send(model, m.RoomAwaited(run=run))
        self._alarm.set(None)
        due = self.places.due(time.monotonic())
        if due is not None:
            self._arm(due)

    def _arm(self, due: float) -> None:
        """Decide again at that time, unless an earlier one is set."""
        if self._alarm.due is None or self._alarm.due > due:
            self._alarm.set(due)


def told(effect: Effect, run: int) -> m.Message:
    """Return what a model's owner is told of a decision."""
    match effect:
        case Grant():
            return m.RoomGranted(run=run)
        case Evict(drain=drains):
            return m.Stop(how=m.How.YIELD if drains else m.How.IF_IDLE)
        case Refuse():
            return m.RoomRefused(run=run, failure=no_room(effect))
        case _:
            assert_never(effect)
