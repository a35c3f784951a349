"""Looks at free memory now and then, and has the supervisor do what `MemoryPressure` says. While off, nothing is read.

Make way for another program that needs memory, and come back when it needs it no more. Off unless a person wants it.

While less than `SupervisorPolicy.keep_free` of a memory is free, the idle engine that is worth least goes; a pinned or
busy one never does. What went so is loaded again once there has been room for it, and for what is to stay free, for a
while; or at once when somebody asks for it, which is the usual way of loading.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from app.core.errors import RoundhouseError
from app.core.events import Event, Notice
from app.supervisor.memory_limits import Gauge
from app.supervisor.policy import LoadRequest, SupervisorPolicy
from app.supervisor.scheduling import Resident, engines_to_free

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
        model = request.runs_as
        self._pressure.note_loaded(model)
        self._publish(
            Notice(
                level="info", code="memory_returned", sentence=f"There is enough memory again: {model} is being loaded."
            )
        )
        await self._engines.load_again(request)


LOOK_S = 2.0
"""A game takes longer than this to load what it needs."""
CALM_S = 20.0
"""There must be room for so long before a model comes back: programs that load let go of memory in between."""


class UnloadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that made way, and how it was loaded."""

    request: LoadRequest
    went_at: float


class MemoryPressure:
    """What has gone, and since when there is room again. Pure; times are monotonic seconds."""

    def __init__(self) -> None:
        self._unloaded_models: dict[str, UnloadedModel] = {}
        self._calm_since: float | None = None

    def models_to_stop(
        self, free: Mapping[str, int], keep_free: int, residents: Sequence[Resident], now: float
    ) -> list[str]:
        """Name the idle engines to stop now: those that hold memory there is too little of."""
        missing_bytes = {pool: float(keep_free - amount) for pool, amount in free.items() if amount < keep_free}
        if missing_bytes:
            self._calm_since = None
        if any(resident.is_leaving for resident in residents):  # what it frees is not seen yet
            return []
        return engines_to_free(residents, missing_bytes, now)

    def note_unloaded(self, model: str, request: LoadRequest, now: float) -> None:
        """Note that a model made way."""
        self._unloaded_models[model] = UnloadedModel(request=request, went_at=now)

    def note_loaded(self, model: str) -> None:
        """Note that a model was loaded again, or is not wanted back."""
        self._unloaded_models.pop(model, None)

    def model_to_load(self, free: Mapping[str, int], keep_free: int, now: float) -> LoadRequest | None:
        """Return the model to load again, if any: that which went last of those there has been room for."""
        fitting_loads = [
            candidate
            for candidate in self._unloaded_models.values()
            if _leaves_room(candidate.request, free, keep_free)
        ]
        if not fitting_loads:
            self._calm_since = None
            return None
        if self._calm_since is None:
            self._calm_since = now
        if now - self._calm_since < CALM_S:
            return None
        return max(fitting_loads, key=lambda candidate: candidate.went_at).request


def _leaves_room(request: LoadRequest, free: Mapping[str, int], keep_free: int) -> bool:
    """Tell whether a model leaves free what is to stay free. One of unknown size waits until it is asked for."""
    if request.needs is None:
        return False
    return all(free.get(pool, 0) - size >= keep_free for pool, size in request.needs.pools.items())
