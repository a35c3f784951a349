"""A pause: a person wants the memory for something else, now, and everything back afterwards.

While paused nothing that takes memory here is loaded, and whoever asks is told so at once. Answers that had begun are
finished; then their engine goes too, pinned or not. On resuming, what was loaded comes back, what was used last first.
Endpoints that run elsewhere take no memory here and go on. A pause ends with the gateway: it is not kept on disk.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from app.core.engines import EngineStatus, Pause
from app.core.errors import RoundhouseError
from app.core.events import Event, PauseChanged
from app.supervisor import messages as m
from app.supervisor.policy import LoadRequest
from app.supervisor.scheduling import Resident

log = logging.getLogger(__name__)


class PauseHost(Protocol):
    """What is asked of the supervisor."""

    @property
    def is_paused(self) -> bool:
        """Whether its owners let nobody in."""

    @is_paused.setter
    def is_paused(self, value: bool) -> None:
        """Have its owners let nobody in, or somebody again."""

    def list_residents(self) -> list[Resident]:
        """Return who takes up room."""

    def list_statuses(self) -> list[EngineStatus]:
        """Return every engine that is there."""

    def request_of(self, model: str) -> LoadRequest | None:
        """Return how a model was loaded."""

    def tell_all(self, message: m.Message) -> None:
        """Tell every owner."""

    async def load_again(self, request: LoadRequest) -> None:
        """Load a model as it was."""


class PauseControl:
    """Pauses and resumes; `publish` tells everybody."""

    def __init__(self, engines: PauseHost, publish: Callable[[Event], None]) -> None:
        self._engines, self._publish = engines, publish
        self._since: float | None = None
        self._unloaded_requests: list[LoadRequest] = []
        self._return_task: asyncio.Task[None] | None = None

    def pause_state(self) -> Pause:
        """Return how it stands."""
        if not self._engines.is_paused:
            return Pause()
        finishing_models = [
            status.model
            for status in self._engines.list_statuses()
            if status.in_flight and self._takes_memory(status.model)
        ]
        comes_back = [request.runs_as for request in self._unloaded_requests]
        return Pause(is_paused=True, since=self._since, finishing=finishing_models, comes_back=comes_back)

    def pause_all(self) -> None:
        """Let nobody in, and have everybody go. Pausing again changes nothing."""
        if self._engines.is_paused:
            return
        self._cancel_return()
        self._since = time.time()
        loaded_requests = self._requests_in_memory()
        names = {request.runs_as for request in loaded_requests}
        self._unloaded_requests = [
            *loaded_requests,
            *(request for request in self._unloaded_requests if request.runs_as not in names),
        ]
        self._engines.is_paused = True
        self._engines.tell_all(m.StopRequest(how=m.StopReason.PAUSE))
        self._publish(PauseChanged(pause=self.pause_state()))

    def resume_all(self) -> None:
        """Let everybody in again, and bring back what was loaded. Without a pause this changes nothing."""
        if not self._engines.is_paused:
            return
        self._engines.is_paused = False
        self._publish(PauseChanged(pause=Pause()))
        self._return_task = asyncio.create_task(self._bring_back(), name="back from a pause")

    async def close(self) -> None:
        """Bring back nothing more."""
        self._cancel_return()
        if self._return_task is not None:
            await asyncio.gather(self._return_task, return_exceptions=True)

    def _takes_memory(self, model: str) -> bool:
        request = self._engines.request_of(model)
        return request is not None and request.takes_memory

    def _requests_in_memory(self) -> list[LoadRequest]:
        """Return how what is in memory, or on its way there, was loaded."""
        residents = sorted(self._engines.list_residents(), key=lambda resident: resident.last_used, reverse=True)
        requests = [self._engines.request_of(resident.model) for resident in residents if not resident.is_leaving]
        return [request for request in requests if request is not None and request.takes_memory]

    async def _bring_back(self) -> None:
        while self._unloaded_requests:
            request = self._unloaded_requests[0]
            try:
                await self._engines.load_again(request)
            except RoundhouseError as error:
                log.info("A model did not come back after a pause: %s", error)
            self._unloaded_requests = [
                pending_request for pending_request in self._unloaded_requests if pending_request is not request
            ]

    def _cancel_return(self) -> None:
        if self._return_task is not None:
            self._return_task.cancel()
