"""OpenAI's Responses: `POST /v1/responses`, whole or as typed events, and the count of what it would have read.

Every request is translated, as Ollama's are. The response is kept before its end is sent, so that a client can go on
with it at once.
"""

from collections.abc import Sequence
from functools import partial

import msgspec
from aiohttp import web

from app.core.errors import NotFound
from app.gateway.canonical.events import AnswerFailed, Event
from app.gateway.dialects.form import EVENT_STREAM_HEADERS, utf8_json_reply
from app.gateway.dialects.responses import stored
from app.gateway.dialects.responses.hosted_answer import ResponseItemReceiver, ResponseRounds
from app.gateway.dialects.responses.hosted_tools import ToolRuns, open_hosted_tools
from app.gateway.dialects.responses.jobs import (
    ResponseInput,
    ResponseJob,
    make_offer,
    prepare_response,
    read_input,
    read_work,
    trim_options,
)
from app.gateway.dialects.responses.ownership import owner_of
from app.gateway.dialects.responses.record import RESPONSES_DIALECT
from app.gateway.dialects.responses.requests import ResponsesRequest
from app.gateway.dialects.responses.stored import keep_response, track_response
from app.gateway.entry.bodies import read_body, read_json
from app.gateway.exchange.client_stream import KeepAlivePlan
from app.gateway.exchange.event_receivers import End
from app.gateway.exchange.handling import RequestJob, answer_request, lease_options, load_for_context
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.token_count import token_counter
from app.gateway.exchange.translating import StreamCourse, StreamPart, stream_parts, translate_whole
from app.gateway.exchange.upstream import EngineAccess, TrimOptions
from app.gateway.loading.launch import resolve_model
from app.gateway.services import SERVICES, Services
from engines.api import Route


class InputTokenCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a request would have an engine read."""

    input_tokens: int
    object: str = "response.input_tokens"


_KEEP_ALIVE_COMMENT = b": still loading\n\n"
_COUNT_ROUTE = "responses/input_tokens"


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the routes of the Responses API."""
    router.add_post("/v1/responses", create_response)
    router.add_post("/v1/responses/input_tokens", count_input)
    router.add_post("/v1/responses/compact", refuse_compaction)
    stored.add_routes(router)


async def create_response(request: web.Request) -> web.StreamResponse:
    """POST /v1/responses."""
    return await answer_request(request, Route.RESPONSES, _prepare_job)


async def refuse_compaction(_request: web.Request) -> web.Response:
    """POST /v1/responses/compact. Raises NotFound: what comes of it only OpenAI's servers could read."""
    raise NotFound(
        "Conversations are not compacted here.",
        hint='Send fewer turns, or ask with `truncation: "auto"`.',
        code="route_not_found",
    )


async def count_input(request: web.Request) -> web.StreamResponse:
    """POST /v1/responses/input_tokens: counted by the engine, or estimated."""
    return await answer_request(request, _COUNT_ROUTE, _prepare_count)


async def _prepare_job(request: web.Request) -> RequestJob:
    job = await prepare_response(request.app[SERVICES], await read_body(request), owner_of(request))
    if not job.response_input.hosted:
        trimming_options = _make_trimming(request.app[SERVICES], job)
        return RequestJob(job.upstream, partial(_answer_job, job, None), trim_options=trimming_options)
    tools = await _open_tools(request, job.response_input)
    return RequestJob(job.upstream, partial(_answer_job, job, ResponseRounds(request.app[SERVICES], job, tools)))


def _make_trimming(services: Services, job: ResponseJob) -> TrimOptions | None:
    """Return how the conversation of a response without rounds is cut, if it is to be."""
    return trim_options(services, job, job.upstream, job.response_input.work) if job.request.trims else None


async def _open_tools(request: web.Request, response_input: ResponseInput) -> ToolRuns:
    names = {tool.name for tool in response_input.offer.tools}
    return await open_hosted_tools(request, response_input.hosted, names)


async def _answer_job(
    job: ResponseJob,
    hosted_rounds: ResponseRounds | None,
    request: web.Request,
    engines: EngineAccess,
    observation: Observation,
) -> web.StreamResponse:
    services = request.app[SERVICES]
    async with track_response(request, job):
        with observation:  # a response that was stopped is kept as such, so `track_response` must hear of it
            trimming_options = _make_trimming(services, job) if hosted_rounds is None else None
            if not job.request.stream:
                if hosted_rounds is None:
                    events = await translate_whole(engines, job.upstream, observation, trimming_options)
                else:
                    events = [await hosted_rounds.write_response(engines, observation, ResponseItemReceiver(job))]
                return await _answer_whole(services, job, events)

            async def before_end(_end: End) -> None:
                await keep_response(services.chats, services.settings, job)

            course = StreamCourse(
                keep_alive=KeepAlivePlan(first=job.begin, alive=lambda: _KEEP_ALIVE_COMMENT),
                headers=EVENT_STREAM_HEADERS,
                trimming=trimming_options,
                before_end=before_end,
            )
            answer = None if hosted_rounds is None else partial(hosted_rounds.write_response, engines, observation)
            return await stream_parts(request, engines, [StreamPart(job.upstream, job, answer)], observation, course)


async def _answer_whole(services: Services, job: ResponseJob, events: Sequence[Event]) -> web.Response:
    job.feed(events)
    if isinstance(end := events[-1], AnswerFailed):
        return utf8_json_reply(RESPONSES_DIALECT.error_document(end), end.status)
    await keep_response(services.chats, services.settings, job)
    return utf8_json_reply(job.encoder.response)


async def _prepare_count(request: web.Request) -> RequestJob:
    """Return what counts them. Raises BadRequest, NotFound, or what `resolve_model` raises."""
    services, response_request = request.app[SERVICES], await read_json(request, ResponsesRequest)
    target = await resolve_model(services, response_request.model)
    response_input = await read_input(services, response_request, owner_of(request), target.model)
    work = response_input.work
    if response_input.hosted:
        tools = await _open_tools(request, response_input)
        await tools.list_all()
        offer = make_offer(response_request, response_request.tool_choice, tools.offer_entries())
        work = read_work(response_request, response_input.items, response_input, offer)
    target = target._replace(load=await load_for_context(services, target, response_request.context))
    counter = await token_counter(services, target, work, lease_options(response_request, Route.COUNT_TOKENS))

    async def answer_count(_request: web.Request, engines: EngineAccess, observation: Observation) -> web.Response:
        count = await counter.count(engines, observation)
        return count.mark_estimate(utf8_json_reply(InputTokenCount(input_tokens=count.tokens)))

    return RequestJob(counter.upstream, answer_count)
