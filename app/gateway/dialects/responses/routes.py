"""OpenAI's Responses: `POST /v1/responses`, whole or as typed events, and the count of what it would have read.

Every request is translated, as Ollama's are. The response is kept before its end is sent, so that a client can go on
with it at once.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing

from aiohttp import hdrs, web

from app.core.errors import NotFound, RoundhouseError, UserError
from app.gateway.canonical.events import Event, Failed, failed
from app.gateway.canonical.request import Generate
from app.gateway.dialects.ollama.lookup import json_reply
from app.gateway.dialects.responses import stored as responses_kept
from app.gateway.dialects.responses.count import count_of, counted
from app.gateway.dialects.responses.intake import Job, understood
from app.gateway.dialects.responses.listing import Counted
from app.gateway.dialects.responses.record import RESPONSES_DIALECT
from app.gateway.dialects.responses.stored import keep, made
from app.gateway.entry.bodies import read_body
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange import opening
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.heartbeat import Signs
from app.gateway.exchange.opening import first_of
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.translated import Batches, asked_whole
from app.gateway.exchange.trimmed import Trimming, asked_trimmed
from app.gateway.services import SERVICES
from app.gateway.watching.watch import Outcome, Stopped, Watch, was_stopped, watched
from engines.api import Route

log = logging.getLogger(__name__)

_UNKNOWN = ""
"""Stands for the model in the metrics of a request that named none we have: its name could be anything."""
_STREAM_HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream",
    hdrs.CACHE_CONTROL: "no-cache",
    "X-Accel-Buffering": "no",
}
ALIVE_EVERY_S = 10.0
"""A stream whose model still loads says so this often; proxies and clients give up on silence after 30 s and more."""
_ALIVE = b": still loading\n\n"
_COUNT = "responses/input_tokens"


def add_routes(app: web.Application) -> None:
    """Add the routes of the Responses API."""
    app.router.add_post("/v1/responses", create)
    app.router.add_post("/v1/responses/input_tokens", count)
    app.router.add_post("/v1/responses/compact", compact)
    responses_kept.add_routes(app)


async def create(request: web.Request) -> web.StreamResponse:
    """POST /v1/responses."""
    services = request.app[SERVICES]
    try:
        job = await understood(services, await read_body(request))
    except RoundhouseError:
        services.metrics.requests.add(Route.RESPONSES, _UNKNOWN, Outcome.REFUSED)
        raise
    model = job.ask.load.source.name
    async with made(request, job):
        with watched(services.metrics, route=Route.RESPONSES, model=model, started=request[ARRIVED]) as watch:
            async with aclosing(_heard(request, job, watch)) as batches:
                return await (_streamed if job.asked.stream else _whole)(request, job, batches, watch)


async def compact(_request: web.Request) -> web.Response:
    """POST /v1/responses/compact. Raises NotFound: what comes of it only OpenAI's servers could read."""
    raise NotFound(
        "Conversations are not compacted here.",
        hint='Send fewer turns, or ask with `truncation: "auto"`.',
        code="route_not_found",
    )


async def count(request: web.Request) -> web.Response:
    """POST /v1/responses/input_tokens: the engine writes the prompt down, and counts its tokens."""
    services = request.app[SERVICES]
    try:
        counting = await counted(services, await read_body(request))
    except RoundhouseError:
        services.metrics.requests.add(_COUNT, _UNKNOWN, Outcome.REFUSED)
        raise
    with watched(services.metrics, route=_COUNT, model=counting.ask.model, started=request[ARRIVED]) as watch:
        prompt, _ = await asked_whole(request, counting.ask, watch)
        tokens, _ = await asked_whole(request, counting.of(prompt), watch)
        return json_reply(Counted(input_tokens=count_of(tokens)))


def _heard(request: web.Request, job: Job, watch: Watch) -> Batches:
    """Return what the engine says; with `truncation: auto`, to as much of the conversation as fits."""

    async def ask_for(work: Generate) -> Ask:
        return await with_plan(request.app[SERVICES], job.ask, job.found, work)

    trimming = Trimming(work=job.said.work, ask_for=ask_for, dropped=job.encoder.trimmed) if job.asked.trims else None
    return asked_trimmed(request, job.ask, watch, trimming)


async def _whole(request: web.Request, job: Job, batches: Batches, _watch: Watch) -> web.Response:
    encoder = job.encoder
    async for batch in batches:
        for event in batch:
            encoder.take(event)
            if isinstance(event, Failed):
                return json_reply(RESPONSES_DIALECT.document(event), event.status)
    await keep(request.app[SERVICES], job)
    return json_reply(encoder.response)


async def _streamed(request: web.Request, job: Job, batches: Batches, watch: Watch) -> web.StreamResponse:
    response = web.StreamResponse(headers=_STREAM_HEADERS)
    signs = Signs(opening.HEAD_WITHIN_S, ALIVE_EVERY_S, head=job.begin, alive=lambda: _ALIVE)
    before = b""
    try:
        first = await first_of(batches, request, response, signs)
        if not response.prepared:
            await response.prepare(request)
            before = job.begin()
        await _send(request, response, job, first, before=before)
        async for batch in batches:
            await _send(request, response, job, batch)
    except asyncio.CancelledError:
        if not response.prepared or not was_stopped():
            raise
        await _send(request, response, job, [failed(Stopped())])
    except RoundhouseError as error:
        if not response.prepared:
            raise
        log.error(str(error), extra={"code": error.code, "model": job.ask.model})  # noqa: TRY400 -- said in a sentence
        watch.outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
        await _send(request, response, job, [failed(error)])
    await response.write_eof()
    return response


async def _send(
    request: web.Request, response: web.StreamResponse, job: Job, batch: Sequence[Event], *, before: bytes = b""
) -> None:
    data = before + b"".join(map(job.encoder.take, batch))
    if job.encoder.is_over:
        await keep(request.app[SERVICES], job)
    if data:
        await response.write(data)
