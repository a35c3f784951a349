"""Have an engine write one answer: a lease, the request, and every piece it sends put into the `LiveAnswer`.

Runs as a task of its own. Cancelling it closes the connection, which is how an engine learns to stop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from app.core.chats import Chat
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed
from app.core.events import EngineChanged
from app.core.models import ModelInfo
from app.gateway.chats.apart import Apart, apart
from app.gateway.chats.live import LiveAnswer
from app.gateway.chats.refusal import refusal
from app.gateway.chats.request import chat_request
from app.gateway.chats.stream import AnswerReader
from app.gateway.exchange.capability_fallback import started
from app.gateway.exchange.presets import applied
from app.gateway.exchange.proxy import EngineLost, engine_headers, lost
from app.gateway.services import Services
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from engines.api import Route

_ERROR_STATUS = 400
_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be answered: a question of a chat (whose own `messages` are not looked at), and with what."""

    chat: Chat
    question: str
    model: ModelInfo
    load: LoadRequest


async def write_answer(services: Services, job: Job, live: LiveAnswer) -> None:
    """Fill `live`. Raises EngineFailed or Unavailable; what was written until then is in `live`."""
    try:
        await _attempt(services, job, live)
    except EngineLost as lost:
        if live.content or live.reasoning or not lost.may_repeat:
            raise _failure(lost) from lost
    else:
        return
    try:
        await _attempt(services, job, live)
    except EngineLost as lost:
        raise _failure(lost) from lost


async def _attempt(services: Services, job: Job, live: LiveAnswer) -> None:
    live.progress("Waiting for the model")
    async with _loading_told(services, job.load, live), services.supervisor.lease(job.load) as lease:
        live.cost.load_s = lease.load_s
        live.progress("Reading the prompt")
        await _exchange(services, job, lease, live)


async def _exchange(services: Services, job: Job, lease: Lease, live: LiveAnswer) -> None:
    descriptor = services.adapters[job.load.engine].descriptor
    path = await services.chats.path(job.chat.id, job.question)
    body = chat_request(job.chat, path, model=lease.served_name, features=descriptor.features)
    data = applied(body, job.model, Route.CHAT)
    try:
        async with services.http.post(
            lease.base_url + descriptor.routes[Route.CHAT],
            data=data,
            headers=engine_headers(lease, descriptor, data),
            allow_redirects=False,
        ) as said:
            if said.status >= _ERROR_STATUS:
                raise refusal(await said.read(), said.status)
            is_complete = await _read(said, live, await apart(services, job.model, started(services, job.load)))
            services.measuring.heard(lease.status, live.cost.engine_timings())
    except aiohttp.ClientConnectorError:
        raise await lost(job.load, lease, was_connected=False) from None
    except (aiohttp.ClientError, ConnectionError):
        raise await lost(job.load, lease, was_connected=True) from None
    if not is_complete:
        raise await lost(job.load, lease, was_connected=True)


async def _read(said: aiohttp.ClientResponse, live: LiveAnswer, tell_apart: Apart) -> bool:
    """Read to the end; return whether the engine said that this was the end."""
    reader = AnswerReader()
    async for chunk in said.content.iter_any():
        for piece in reader.feed(chunk):
            live.add(tell_apart(piece))
    return reader.is_complete


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


def _failure(lost: EngineLost) -> EngineFailed:
    return lost.cause or EngineFailed(
        "The engine broke off its answer.", hint="Try again; the model's log may say why.", code="engine_broke_off"
    )
