"""Looks at free memory now and then, and has the supervisor do what `MemoryPressure` says. While off, nothing is read."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from app.core.errors import RoundhouseError
from app.core.events import Event, Notice
from app.supervisor.memory_limits import Gauge
from app.supervisor.memory_pressure import LOOK_S, MemoryPressure
from app.supervisor.policy import LoadRequest, SupervisorPolicy
from app.supervisor.scheduling import Resident

log = logging.getLogger(__name__)


class MemoryWatchHost(Protocol):
    """What is asked of the supervisor."""

    @property
    def policy(self) -> SupervisorPolicy:
        """What a person set."""

    @property
    def gauge(self) -> Gauge | None:
        """What reads memory."""

    def list_residents(self) -> list[Resident]:
        """Return who takes up room."""

    def request_of(self, model: str) -> LoadRequest | None:
        """Return how a model was loaded."""

    def stop_if_idle(self, model: str) -> None:
        """Have it go unless somebody uses it."""

    async def load_again(self, request: LoadRequest) -> None:
        """Load a model as it was."""


class MemoryWatch:
    """The task. `publish` tells everybody what was done, and why."""

    def __init__(self, engines: MemoryWatchHost, publish: Callable[[Event], None]) -> None:
        self._engines = engines
        self._publish = publish
        self._pressure = MemoryPressure()

    async def run_forever(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.check_once()
            except RoundhouseError as error:
                log.info("A model that had made way was not loaded again: %s", error)
            except Exception:  # a reading that fails must not end the watching
                log.exception("Free memory could not be watched")

    async def check_once(self) -> None:
        """Look once."""
        policy, gauge = self._engines.policy, self._engines.gauge
        keep_free = policy.keep_free
        if not keep_free or gauge is None or policy.is_paused:
            return
        free = (await gauge([])).free
        now, residents = time.monotonic(), self._engines.list_residents()
        for resident in residents:
            if not resident.is_leaving:
                self._pressure.note_loaded(resident.model)
        for model in self._pressure.models_to_stop(free, keep_free, residents, now):
            self._unload_for_others(model, now)
        again = self._pressure.model_to_load(free, keep_free, now)
        if again is not None:
            await self._load_again(again)

    def _unload_for_others(self, model: str, now: float) -> None:
        request = self._engines.request_of(model)
        if request is None:
            return
        self._pressure.note_unloaded(model, request, now)
        self._engines.stop_if_idle(model)
        sentence = f"{model} was unloaded: another program needs memory. It is loaded again when there is room."
        self._publish(Notice(level="info", code="memory_yielded", sentence=sentence))

    async def _load_again(self, request: LoadRequest) -> None:
        model = request.source.name
        self._pressure.note_loaded(model)
        self._publish(
            Notice(
                level="info", code="memory_returned", sentence=f"There is enough memory again: {model} is being loaded."
            )
        )
        await self._engines.load_again(request)
