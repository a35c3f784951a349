"""Once this computer has slept, engines are asked whether they still compute, and loaded again if they do not.

A driver may come back without what an engine had on its card. Such an engine fails with the next request, or says that
it is well and answers nothing; so each that is ready and idle is asked for a token now, before somebody needs it. One
that is busy is looked at by whoever waits for its answer. The same is done when an engine ends in a way that a reset of
the driver ends all of them.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from app.core.engines import EngineState, EngineStatus
from app.core.errors import RoundhouseError
from app.core.events import EngineChanged, Event, Notice
from app.supervisor.alarm import SLEEP_S
from app.supervisor.policy import LoadRequest
from engines.api import FailureKind

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""So soon after a computer wakes it is noticed."""
_OF_THE_DRIVER = frozenset({FailureKind.DRIVER, FailureKind.BACKEND_CRASH})
"""Ends of one engine that may be those of all on a card."""
_RESET_S = 60.0
"""One such end has the others asked at most this often: a driver that is gone for good ends every load."""


class Clocks(NamedTuple):
    """Seconds by a clock that may stand still while the computer sleeps, and by one that does not, if there is one."""

    awake_s: float
    total_s: float


def read_clocks() -> Clocks:
    """Read both. On Windows the first one goes on: that it jumps between two looks tells of sleep there."""
    awake_s = time.monotonic()
    if sys.platform == "linux":
        return Clocks(awake_s, time.clock_gettime(time.CLOCK_BOOTTIME))
    if sys.platform == "darwin":
        return Clocks(awake_s, time.clock_gettime(time.CLOCK_MONOTONIC))
    return Clocks(awake_s, awake_s)


class SleepMeter:
    """Tells from looks at the clocks, `LOOK_S` apart, how long the computer slept in between."""

    def __init__(self, first: Clocks) -> None:
        self._last = first

    def note_look(self, now: Clocks) -> float:
        """Return the seconds slept since the last look; 0 where nothing tells of sleep."""
        awake_s, total_s = now.awake_s - self._last.awake_s, now.total_s - self._last.total_s
        self._last = now
        slept_s = max(total_s - awake_s, awake_s - LOOK_S)
        return slept_s if slept_s > SLEEP_S else 0.0


class WakeHost(Protocol):
    """What is asked of the supervisor."""

    def list_statuses(self) -> list[EngineStatus]:
        """Return every engine that runs."""

    def request_of(self, model: str) -> LoadRequest | None:
        """Return how a model was loaded."""

    async def still_computes(self, model: str) -> bool | None:
        """Ask a model's engine for a token; None where nobody can tell."""

    async def end_broken(self, model: str) -> None:
        """Kill a model's engine, which computes no more, if it still runs, and wait for its end."""

    async def load_again(self, request: LoadRequest) -> None:
        """Load a model as it was."""


class WakeWatch:
    """The task. `publish` tells everybody what was done; `clocks` are read every `LOOK_S`."""

    def __init__(
        self, engines: WakeHost, publish: Callable[[Event], None], clocks: Callable[[], Clocks] = read_clocks
    ) -> None:
        self._engines, self._publish, self._clocks = engines, publish, clocks
        self._meter = SleepMeter(clocks())
        self._has_reset = False
        self._reset_at_s: float | None = None

    async def run_forever(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look_once()
            except Exception:  # one failure must not end the watching
                log.exception("Engines could not be looked at after sleep")

    def note_event(self, event: Event) -> None:
        """Take note of an engine that ended as a reset of the driver ends all."""
        status = event.status if isinstance(event, EngineChanged) else None
        if status is not None and status.failure is not None and status.failure.code in _OF_THE_DRIVER:
            self._has_reset = True

    async def look_once(self) -> None:
        """Ask every engine if the computer slept, or the driver may have been reset."""
        clocks = self._clocks()
        slept_s, has_reset = self._meter.note_look(clocks), self._has_reset
        self._has_reset = False
        if slept_s:
            log.info("This computer slept for %d s", slept_s)
        elif not has_reset or not self._is_first_reset(clocks.awake_s):
            return
        why = "this computer slept" if slept_s else "another engine lost its driver"
        idle = [
            status.model
            for status in self._engines.list_statuses()
            if status.state is EngineState.READY and not status.in_flight
        ]
        await asyncio.gather(*(self._check_engine(model, why) for model in idle))

    def _is_first_reset(self, now_s: float) -> bool:
        if self._reset_at_s is not None and now_s - self._reset_at_s < _RESET_S:
            return False
        self._reset_at_s = now_s
        return True

    async def _check_engine(self, model: str, why: str) -> None:
        request = self._engines.request_of(model)
        if request is None or not request.takes_memory or await self._engines.still_computes(model) is not False:
            return
        await self._engines.end_broken(model)
        log.warning("%s computes no more and is loaded again", model, extra={"model": model})
        sentence = f"{model} no longer answered after {why}. It is being loaded again."
        self._publish(Notice(level="warn", code="engine_reloaded", sentence=sentence))
        try:
            await self._engines.load_again(request)
        except RoundhouseError as error:
            log.info("%s was not loaded again: %s", model, error)
