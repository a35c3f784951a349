"""OpenAI's Responses: `POST /v1/responses`, whole or as typed events, and the count of what it would have read.

Every request is translated, as Ollama's are. The response is kept before its end is sent, so that a client can go on
with it at once.
"""

from functools import partial

import msgspec
from aiohttp import web

from app.core.errors import NotFound
from app.gateway.canonical.events import Failed
from app.gateway.canonical.request import Generate
from app.gateway.dialects.replies import EVENT_STREAM_HEADERS, utf8_json_reply
from app.gateway.dialects.responses import stored
from app.gateway.dialects.responses.jobs import ResponseJob, read, understand
from app.gateway.dialects.responses.record import RESPONSES_DIALECT
from app.gateway.dialects.responses.requests import Asked
from app.gateway.dialects.responses.stored import keep, made
from app.gateway.entry.bodies import decode, read_body
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.handling import Job, handle, load_of, terms_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.token_count import counting_of
from app.gateway.exchange.translating import Course, End, Part, Trimming, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.launch import resolve
from app.gateway.services import SERVICES, Services
from engines.api import Route


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a request would have an engine read."""

    input_tokens: int
    object: str = "response.input_tokens"


_ALIVE = b": still loading\n\n"
_COUNT = "responses/input_tokens"


def add_routes(app: web.Application) -> None:
    """Add the routes of the Responses API."""
    app.router.add_post("/v1/responses", create)
    app.router.add_post("/v1/responses/input_tokens", count)
    app.router.add_post("/v1/responses/compact", compact)
    stored.add_routes(app)


async def create(request: web.Request) -> web.StreamResponse:
    """POST /v1/responses."""
    return await handle(request, Route.RESPONSES, _understand)


async def compact(_request: web.Request) -> web.Response:
    """POST /v1/responses/compact. Raises NotFound: what comes of it only OpenAI's servers could read."""
    raise NotFound(
        "Conversations are not compacted here.",
        hint='Send fewer turns, or ask with `truncation: "auto"`.',
        code="route_not_found",
    )


async def count(request: web.Request) -> web.StreamResponse:
    """POST /v1/responses/input_tokens: counted by the engine, or estimated."""
    return await handle(request, _COUNT, _understand_count)


async def _understand(request: web.Request) -> Job:
    job = await understand(request.app[SERVICES], await read_body(request))
    return Job(job.upstream, partial(_answer, job))


async def _answer(
    job: ResponseJob, request: web.Request, engines: EngineAccess, observed: Observation
) -> web.StreamResponse:
    services = request.app[SERVICES]
    async with made(request, job):
        with observed:  # a response that was stopped is kept as such, so `made` must hear of it
            trimming = _trimming(services, job) if job.asked.trims else None
            if not job.asked.stream:
                return await _whole(services, job, engines, observed, trimming)

            async def before_end(_end: End) -> None:
                await keep(services, job)

            course = Course(
                keep_alive=KeepAlive(first=job.begin, alive=lambda: _ALIVE),
                headers=EVENT_STREAM_HEADERS,
                trimming=trimming,
                before_end=before_end,
            )
            return await stream(request, engines, [Part(job.upstream, job)], observed, course)


def _trimming(services: Services, job: ResponseJob) -> Trimming:
    """Return how a conversation is cut to what fits (`truncation: auto`)."""

    async def prepare(work: Generate) -> UpstreamRequest:
        return await with_plan(services, job.upstream, job.found, work)

    return Trimming(work=job.said.work, prepare=prepare, dropped=job.encoder.trimmed)


async def _whole(
    services: Services, job: ResponseJob, engines: EngineAccess, observed: Observation, trimming: Trimming | None
) -> web.Response:
    events = await translate_whole(engines, job.upstream, observed, trimming)
    job.feed(events)
    if isinstance(end := events[-1], Failed):
        return utf8_json_reply(RESPONSES_DIALECT.document(end), end.status)
    await keep(services, job)
    return utf8_json_reply(job.encoder.response)


async def _understand_count(request: web.Request) -> Job:
    """Return what counts them. Raises BadRequest, NotFound, or what `resolve` raises."""
    services, asked = request.app[SERVICES], decode(await read_body(request), Asked)
    said = await read(services, asked)
    found = await resolve(services, asked.model)
    found = found._replace(load=await load_of(services, found, asked.context))
    counting = await counting_of(services, found, said.work, terms_of(asked, Route.COUNT_TOKENS))

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
        count = await counting.count(engines, observed)
        return count.marked(utf8_json_reply(Counted(input_tokens=count.tokens)))

    return Job(counting.upstream, answer)
