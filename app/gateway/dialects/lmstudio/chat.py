"""LM Studio's `/api/v1/chat`: a conversation whose earlier turns are kept here, answered as typed events or at once.

Unlike elsewhere the stream begins before the model is loaded, since loading and reading the prompt are told of in it.
"""

from collections.abc import Sequence
from contextlib import aclosing

import msgspec
from aiohttp import hdrs, web

from app.core.engines import EngineState
from app.core.errors import BadRequest, RoundhouseError, UserError
from app.gateway.canonical.events import Event, failed
from app.gateway.canonical.request import Level, Message, Role, Text
from app.gateway.dialects.lmstudio.cards import reasoning_of
from app.gateway.dialects.lmstudio.conversations import Remembered, new_response_id
from app.gateway.dialects.lmstudio.models import known_of
from app.gateway.dialects.lmstudio.record import LM_STUDIO_V1
from app.gateway.dialects.lmstudio.requests import (
    NOTHING,
    RESPONSE_PREFIX,
    ChatRequest,
    Earlier,
    conversation,
    generate,
    required,
)
from app.gateway.dialects.lmstudio.stream import Encoder
from app.gateway.entry.bodies import read_json
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange.capability_fallback import supplied
from app.gateway.exchange.heartbeat import Signs
from app.gateway.exchange.native import load_of, path_of
from app.gateway.exchange.opening import first_of
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.translated import Batches, asked
from app.gateway.loading.launch import resolve
from app.gateway.loading.recent import Found
from app.gateway.services import SERVICES, Services
from app.gateway.watching.watch import Outcome, Watch, watched
from app.supervisor.policy import Terms
from engines.api import Route

_ROUTE = "lmstudio/chat"
_UNKNOWN = ""
"""Stands for the model in the metrics of a request that named none we have."""
_EARLIER = web.AppKey("lmstudio_earlier", Remembered)
_STREAM_HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream",
    hdrs.CACHE_CONTROL: "no-cache",
    "X-Accel-Buffering": "no",
}
_LOOK_S = 0.25
"""How often a stream that waits says how far loading is."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A chat understood. `response_id` is empty if it is not to be kept."""

    ask: Ask
    talk: Earlier
    response_id: str
    streams: bool


def add_routes(app: web.Application) -> None:
    """Add the chat, and what it remembers."""
    app[_EARLIER] = Remembered()
    app.router.add_post("/api/v1/chat", chat)


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /api/v1/chat."""
    services = request.app[SERVICES]
    try:
        job = await _understood(request, await read_json(request, ChatRequest))
    except RoundhouseError:
        services.metrics.requests.add(_ROUTE, _UNKNOWN, Outcome.REFUSED)
        raise
    model = job.ask.load.source.name
    with watched(services.metrics, route=_ROUTE, model=model, started=request[ARRIVED]) as watch:
        async with aclosing(asked(request, job.ask, watch)) as batches:
            return await (_streamed(request, job, batches, watch) if job.streams else _whole(request, job, batches))


async def _understood(request: web.Request, wanted: ChatRequest) -> Job:
    services, name = request.app[SERVICES], required(wanted.model, "model")
    talk = conversation(wanted, _earlier(request, wanted.previous_response_id))
    work = generate(wanted, talk)
    found = await resolve(services, name)
    path = path_of(services, found.load.engine, found.model, Route.CHAT)
    await _check_reasoning(services, found, work.thinking)
    context, plan = wanted.wanted_context, await supplied(services, found, work)
    ask = Ask(
        load=await load_of(services, found, context),
        path=path,
        body=plan.body,
        plan=plan,
        model=found.model.name,
        terms=Terms(keep_s=wanted.keep_s, context=context),
    )
    response_id = "" if wanted.store is False else new_response_id()
    return Job(ask=ask, talk=talk, response_id=response_id, streams=bool(wanted.stream))


def _earlier(request: web.Request, response_id: str | None) -> Earlier:
    if response_id is None:
        return NOTHING
    if not response_id.startswith(RESPONSE_PREFIX):
        raise BadRequest(f"`previous_response_id` starts with {RESPONSE_PREFIX!r}.", code="invalid_value")
    return request.app[_EARLIER].find(response_id)


async def _check_reasoning(services: Services, found: Found, level: Level) -> None:
    """Return if the model's thinking can be set so. Raises BadRequest. Turning off what it never does is no mistake."""
    if level in {Level.DEFAULT, Level.OFF}:
        return
    can = reasoning_of(await known_of(services, found.model))
    options = can.allowed_options if can else ()
    if level not in options:
        hint = f"It takes {', '.join(options)}." if options else "Leave out `reasoning`."
        raise BadRequest(
            f"{found.model.title} has no reasoning setting {level.value!r}.", hint=hint, code="invalid_value"
        )


async def _whole(request: web.Request, job: Job, batches: Batches) -> web.Response:
    encoder = Encoder(job.ask.model, response_id=job.response_id or None)
    async for batch in batches:
        _encoded(encoder, batch)
    if encoder.failure is not None:
        told = encoder.failure
        return _json(LM_STUDIO_V1.document(told), told.status)
    _keep(request, job, encoder)
    return _json(encoder.result)


async def _streamed(request: web.Request, job: Job, batches: Batches, watch: Watch) -> web.StreamResponse:
    encoder = Encoder(job.ask.model, response_id=job.response_id or None)
    response = web.StreamResponse(headers=_STREAM_HEADERS)
    signs = Signs(_LOOK_S, _LOOK_S, head=encoder.begin, alive=lambda: _progress(request, encoder))
    try:
        if not request.app[SERVICES].supervisor.serves_at_once(job.ask.load.source.name):
            await _open(request, response, encoder)
        first = await first_of(batches, request, response, signs)
        if not response.prepared:
            await _open(request, response, encoder)
        await response.write(_encoded(encoder, first))
        async for batch in batches:
            await response.write(_encoded(encoder, batch))
    except RoundhouseError as error:
        if not response.prepared:
            await _open(request, response, encoder)
        watch.outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
        await response.write(encoder.take(failed(error)))
    _keep(request, job, encoder)
    await response.write_eof()
    return response


async def _open(request: web.Request, response: web.StreamResponse, encoder: Encoder) -> None:
    await response.prepare(request)
    await response.write(encoder.begin() + _progress(request, encoder))


def _progress(request: web.Request, encoder: Encoder) -> bytes:
    """Say how far loading is, as long as the engine does not answer."""
    statuses = request.app[SERVICES].supervisor.statuses()
    status = next((one for one in statuses if one.model == encoder.instance), None)
    if status is not None and status.state is EngineState.READY:
        return encoder.loaded((status.load_seconds or 0.0) if encoder.is_loading else 0.0)
    return encoder.loading(status.progress if status else None)


def _encoded(encoder: Encoder, batch: Sequence[Event]) -> bytes:
    return b"".join(map(encoder.take, batch))


def _keep(request: web.Request, job: Job, encoder: Encoder) -> None:
    if job.response_id and encoder.failure is None:
        said = Message(Role.ASSISTANT, (Text(encoder.text),))
        request.app[_EARLIER].keep(job.response_id, job.talk.then(said))


def _json(value: msgspec.Struct | None, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
