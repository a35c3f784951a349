"""Have an engine write one answer, the way every client's request is answered, and put it into the `LiveAnswer`.

Runs as a task of its own. Cancelling it closes the connection, which is how an engine learns to stop.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.core.chats import Chat
from app.core.engines import EngineState, EngineStatus
from app.core.errors import RoundhouseError
from app.core.events import EngineChanged
from app.core.models import ModelInfo
from app.gateway.canonical.events import Event, Failed
from app.gateway.chats.live import LiveAnswer
from app.gateway.chats.refusal import from_engine, said_to_reader
from app.gateway.chats.request import chat_request
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.connections import Flow
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import translate
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.requested_model import Found
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from engines.api import Route

_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be answered: a question of a chat (whose own `messages` are not looked at), and with what."""

    chat: Chat
    question: str
    model: ModelInfo
    load: LoadRequest


class Writer:
    """Has answers written."""

    def __init__(self, services: Services, engines: EngineAccess) -> None:
        self._services, self._engines = services, engines

    async def write(self, job: Job, live: LiveAnswer, observed: Observation) -> None:
        """Fill `live`. Raises EngineFailed or Unavailable; what was written until then is in `live`."""
        live.progress("Waiting for the model")
        try:
            async with _loading_told(self._services, job.load, live):
                upstream = await self._upstream(job)
                end = await translate(self._engines, upstream, observed, _Written(live, observed))
        except RoundhouseError as error:
            raise said_to_reader(error) from error
        if isinstance(end, Failed):
            raise from_engine(end)
        live.complete(end, observed.tokens.timings)

    async def _upstream(self, job: Job) -> UpstreamRequest:
        services, found = self._services, Found(job.model, job.load)
        path = await services.chats.path(job.chat.id, job.question)
        blank = UpstreamRequest(
            load=job.load,
            path=services.adapters[job.load.engine].descriptor.routes[Route.CHAT],
            body=b"",
            model=job.model.name,
        )
        return await with_plan(services, blank, found, chat_request(job.chat, path))


class _Written:
    """Takes an engine's events for a `LiveAnswer`, whose readers have each their own pace."""

    def __init__(self, live: LiveAnswer, observed: Observation) -> None:
        self._live, self._observed = live, observed

    async def open(self) -> None:
        """Note that the engine has the prompt."""
        self._live.cost.load_s = self._observed.load_s
        self._live.progress("Reading the prompt")

    def take(self, events: Sequence[Event]) -> Flow:
        """Append what they say."""
        for event in events:
            self._live.add(event)
        return Flow.MORE

    async def drain(self) -> None:
        """Go on."""


@asynccontextmanager
async def _loading_told(services: Services, load: LoadRequest, live: LiveAnswer) -> AsyncIterator[None]:
    """Tell the answer's readers how loading goes."""
    teller = asyncio.create_task(_tell(services, load.source.name, live))
    try:
        yield
    finally:
        teller.cancel()


async def _tell(services: Services, model: str, live: LiveAnswer) -> None:
    with services.events.subscribe() as events:
        for status in services.supervisor.statuses():
            _tell_one(status, model, live)
        async for event in events:
            if isinstance(event, EngineChanged):
                _tell_one(event.status, model, live)


def _tell_one(status: EngineStatus, model: str, live: LiveAnswer) -> None:
    if status.model == model and status.state in _LOADING:
        live.progress(status.stage or "Loading the model", status.progress)
