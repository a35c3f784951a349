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

from app.core.engines import EngineStatus
from app.core.errors import RoundhouseError
from app.core.events import Event, PauseChanged
from app.core.memory import Pause
from app.supervisor import messages as m
from app.supervisor.policy import LoadRequest
from app.supervisor.scheduling import Seat

log = logging.getLogger(__name__)


class Engines(Protocol):
    """What is asked of the supervisor."""

    @property
    def is_paused(self) -> bool:
        """Whether its owners let nobody in."""

    @is_paused.setter
    def is_paused(self, value: bool) -> None:
        """Have its owners let nobody in, or somebody again."""

    def seats(self) -> list[Seat]:
        """Return who takes up room."""

    def statuses(self) -> list[EngineStatus]:
        """Return every engine that is there."""

    def request_of(self, model: str) -> LoadRequest | None:
        """Return how a model was loaded."""

    def tell_all(self, message: m.Message) -> None:
        """Tell every owner."""

    async def load_again(self, request: LoadRequest) -> None:
        """Load a model as it was."""


class Pausing:
    """Pauses and resumes; `publish` tells everybody."""

    def __init__(self, engines: Engines, publish: Callable[[Event], None]) -> None:
        self._engines, self._publish = engines, publish
        self._since: float | None = None
        self._gone: list[LoadRequest] = []
        self._returning: asyncio.Task[None] | None = None

    def state(self) -> Pause:
        """Return how it stands."""
        if not self._engines.is_paused:
            return Pause()
        finishing = [one.model for one in self._engines.statuses() if one.in_flight and self._takes_memory(one.model)]
        comes_back = [request.source.name for request in self._gone]
        return Pause(is_paused=True, since=self._since, finishing=finishing, comes_back=comes_back)

    def pause(self) -> None:
        """Let nobody in, and have everybody go. Pausing again changes nothing."""
        if self._engines.is_paused:
            return
        self._stop_returning()
        self._since = time.time()
        loaded = self._loaded()
        names = {request.source.name for request in loaded}
        self._gone = [*loaded, *(request for request in self._gone if request.source.name not in names)]
        self._engines.is_paused = True
        self._engines.tell_all(m.Stop(how=m.How.PAUSE))
        self._publish(PauseChanged(pause=self.state()))

    def resume(self) -> None:
        """Let everybody in again, and bring back what was loaded. Without a pause this changes nothing."""
        if not self._engines.is_paused:
            return
        self._engines.is_paused = False
        self._publish(PauseChanged(pause=Pause()))
        self._returning = asyncio.create_task(self._bring_back(), name="back from a pause")

    async def close(self) -> None:
        """Bring back nothing more."""
        self._stop_returning()
        if self._returning is not None:
            await asyncio.gather(self._returning, return_exceptions=True)

    def _takes_memory(self, model: str) -> bool:
        request = self._engines.request_of(model)
        return request is not None and request.takes_memory

    def _loaded(self) -> list[LoadRequest]:
        """Return how what is in memory, or on its way there, was loaded."""
        seats = sorted(self._engines.seats(), key=lambda seat: seat.last_used, reverse=True)
        found = [self._engines.request_of(seat.model) for seat in seats if not seat.is_leaving]
        return [request for request in found if request is not None and request.takes_memory]

    async def _bring_back(self) -> None:
        while self._gone:
            request = self._gone[0]
            try:
                await self._engines.load_again(request)
            except RoundhouseError as error:
                log.info("A model did not come back after a pause: %s", error)
            self._gone = [one for one in self._gone if one is not request]

    def _stop_returning(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
