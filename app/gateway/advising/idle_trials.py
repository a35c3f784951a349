"""Tries drafts with a loaded model by itself: once, while nobody uses anything, and ends as soon as somebody does."""

import asyncio
import logging
import time
from pathlib import Path

from app.core.engines import EngineState, EngineStatus
from app.core.errors import RoundhouseError
from app.gateway.advising.draft_trials import DraftTrials
from app.gateway.loading.draft_choice import find_trial, own_draft_of
from app.gateway.loading.launch import HEAD_ROOM, load_request_for
from app.gateway.loading.measured_names import MeasuredAs, find_purpose
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest

log = logging.getLogger(__name__)

LOOK_S, BUSY_LOOK_S = 30.0, 1.0
"""How often it is looked whether all is idle, and during a trial whether somebody came."""
IDLE_S = 120.0
"""So long nobody used the model: a pause between two questions is shorter."""
AGAIN_S = 3600.0
"""After a trial that was disturbed or called off."""


class IdleTrials:
    """Belongs to the event loop's thread; `watch` ends when it is cancelled."""

    def __init__(self, services: Services, trials: DraftTrials) -> None:
        self._services = services
        self._trials = trials
        self._attempts: dict[str, float] = {}
        self._is_running = False

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(BUSY_LOOK_S if self._is_running else LOOK_S)
            try:
                await self.look()
            except RoundhouseError as error:  # a file that is gone, an engine that was removed
                log.info("Drafts were not tried: %s", error)

    async def look(self) -> None:
        """Begin a trial if all is idle and something is untried; end ours if somebody came."""
        statuses = [
            status
            for status in self._services.supervisor.list_statuses()
            if find_purpose(status.model) is not MeasuredAs.TRIAL
        ]
        is_used = any(map(_is_used, statuses)) or self._services.supervisor.is_paused
        if self._trials.job.is_busy:
            if self._is_running and is_used:
                await self._trials.stop()
            return
        self._is_running = False
        if is_used or not self._services.settings.get_flag("models.try_drafts"):
            return
        for status in statuses:
            if find_purpose(status.model) is None and self._is_due(status) and await self._can_be_tried(status.model):
                self._is_running = True
                await self._trials.start(status.model)
                return

    def _is_due(self, status: EngineStatus) -> bool:
        used_at = max(status.last_used_at or 0.0, status.loaded_at or 0.0)
        if status.state is not EngineState.READY or time.time() - used_at < IDLE_S:
            return False
        tried_at = self._attempts.get(status.model)
        if tried_at is not None and time.monotonic() - tried_at < AGAIN_S:
            return False
        self._attempts[status.model] = time.monotonic()
        return True

    async def _can_be_tried(self, name: str) -> bool:
        load = await asyncio.to_thread(self._find_untried_load, name)
        return load is not None and await self._has_room(load)

    def _find_untried_load(self, name: str) -> LoadRequest | None:
        model = self._services.library.find_model(name)
        if (
            model.is_builtin
            or model.attached
            or self._services.model_settings.settings_of(model.runs_as).draft is not None
        ):
            return None
        load = load_request_for(self._services, model)
        if find_trial(self._services.drafts, self._services.catalogue, Path(model.path), load.engine) is not None:
            return None
        return load if own_draft_of(self._services, model, load.engine) else None

    async def _has_room(self, load: LoadRequest) -> bool:
        """Whether the trial fits beside what is loaded, which stays."""
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- the advisor is brought in once it is needed

        planned_needs = (await fit_load(self._services, load)).needs
        needs = {} if planned_needs is None else planned_needs.pools
        free = {pool.id: pool.free.value or 0 for pool in (await self._services.machine.read_free()).pools}
        return bool(needs) and all(size + HEAD_ROOM <= free.get(pool, 0) for pool, size in needs.items())


def _is_used(status: EngineStatus) -> bool:
    return bool(status.in_flight or status.queued) or status.state in {EngineState.STARTING, EngineState.LOADING}
