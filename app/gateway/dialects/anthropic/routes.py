"""Anthropic's routes. llama.cpp speaks them itself; what it gets wrong is mended on the way in and on the way out.

Where an engine has no such route, or its own passes over what is asked, the request is translated.
"""

from dataclasses import dataclass
from functools import partial

from aiohttp import web

from app.gateway.canonical.events import AnswerFailed, aggregate_events
from app.gateway.canonical.request import ConversationRequest
from app.gateway.dialects.anthropic.answers import AnthropicAnswerParams, AnthropicCountForm, AnthropicMessageForm
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.anthropic.requests import (
    AnthropicRequest,
    AnthropicSampling,
    check_request,
    for_engine,
    prefill_of,
    to_canonical_request,
    wants_format,
)
from app.gateway.dialects.anthropic.stream import AnthropicEncoder, build_message
from app.gateway.dialects.form import json_reply
from app.gateway.entry.access import KEY_ID
from app.gateway.entry.bodies import call_off_loop, decode_body, read_body
from app.gateway.entry.responses import REQUEST_ID
from app.gateway.exchange.capability_fallback import checks_calls, renders_tools, running_descriptor, with_plan
from app.gateway.exchange.client_stream import KeepAlivePlan
from app.gateway.exchange.engine.planning import reads_itself
from app.gateway.exchange.handling import (
    ENGINE_ACCESS,
    RequestJob,
    answer_request,
    client_header_lines,
    engine_path,
    lease_options,
    load_for_context,
)
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.presets import apply_preset
from app.gateway.exchange.token_count import token_counter
from app.gateway.exchange.translating import StreamCourse, StreamPart, stream_parts, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.requested_model import ResolvedModel, name_in_answer
from app.gateway.services import SERVICES, Services
from engines.api import Route


def add_routes(router: web.UrlDispatcher) -> None:
    """Add Anthropic's routes; its list of models is OpenAI's route too."""
    router.add_post("/v1/messages", create_message)
    router.add_post("/v1/messages/count_tokens", count_tokens)


async def create_message(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages."""
    return await answer_request(request, Route.MESSAGES, partial(_prepare_job, route=Route.MESSAGES))


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages/count_tokens."""
    return await answer_request(request, Route.COUNT_TOKENS, partial(_prepare_job, route=Route.COUNT_TOKENS))


async def _prepare_job(request: web.Request, route: Route) -> RequestJob:
    services, body = request.app[SERVICES], await read_body(request)
    message_request = await call_off_loop(body, decode_body, body, AnthropicRequest)
    check_request(message_request, counts_only=route is Route.COUNT_TOKENS)
    target = await resolve_model(services, message_request.model)
    if message_request.stream:
        services.connections.dial_ahead(services.supervisor, target.load.source.name)
    if route is Route.COUNT_TOKENS:
        target = await with_probes(services.library, services.shared_work, services.events, target, route)
    target = target._replace(load=await load_for_context(services, target, message_request.context))
    caches, key_id = request.app[ENGINE_ACCESS].prompt_caches, request.get(KEY_ID, "")
    name = target.load.source.name
    is_unreadable = name in request.app[ENGINE_ACCESS].unreadable
    is_apart = route is Route.MESSAGES and (
        is_unreadable or caches.will_skip(name, key_id) or target.model.is_builtin  # which may be looked up
    )
    if is_apart or not await _can_pass(services, message_request, target, route):
        if route is Route.COUNT_TOKENS:
            return await _count_job(services, body, message_request, target)
        return await _translate_message(services, body, message_request, target)
    params = AnthropicAnswerParams(
        max_tokens=message_request.max_tokens,
        one_tool=message_request.is_one_at_a_time,
        prefilled=prefill_of(message_request),
    )
    form = AnthropicCountForm if route is Route.COUNT_TOKENS else AnthropicMessageForm
    engine_body = await call_off_loop(body, for_engine, body, message_request)
    upstream = await call_off_loop(
        body,
        UpstreamRequest,
        load=target.load,
        path=engine_path(services.adapters, services.library, target.load.engine, target.model, route),
        body=await call_off_loop(body, apply_preset, engine_body, target.model, route),
        model=message_request.model or "",
        terms=lease_options(message_request, route),
        form=form(request_id=request[REQUEST_ID], wishes=params),
        streams=bool(message_request.stream),
        headers=client_header_lines(request),
        drops_cache_field=route is Route.MESSAGES,
    )
    return RequestJob(upstream, detour=partial(_translate_message, services, body, message_request, target))


def to_conversation(body: bytes, message_request: AnthropicRequest) -> ConversationRequest:
    """Return what a body asks for. Raises BadRequest."""
    return to_canonical_request(message_request, decode_body(body, AnthropicSampling))


async def _can_pass(services: Services, message_request: AnthropicRequest, target: ResolvedModel, route: Route) -> bool:
    """Tell whether the engine's own route, for messages or their count, does what is asked."""
    descriptor = running_descriptor(services.adapters, services.supervisor, target.load)
    if route not in routes_of(services.adapters, services.library, target.load.engine, target.model):
        return False
    if route is Route.MESSAGES and (wants_format(message_request) or not reads_itself(descriptor)):
        return False
    if not message_request.tools:
        return True
    is_checked = route is Route.MESSAGES and checks_calls(services, target)
    return not is_checked and await renders_tools(services.facts, services.model_settings, target.model)


async def _translate_message(
    services: Services, body: bytes, message_request: AnthropicRequest, target: ResolvedModel
) -> RequestJob:
    """Return what asks the engine for a message, and answers with it. Raises BadRequest."""
    blank = UpstreamRequest(
        load=target.load,
        path=engine_path(services.adapters, services.library, target.load.engine, target.model, Route.CHAT),
        body=b"",
        model=target.model.name,
        terms=lease_options(message_request, Route.MESSAGES),
    )
    work = await call_off_loop(body, to_conversation, body, message_request)
    upstream = await with_plan(services, blank, target, work)
    params = AnthropicAnswerParams(max_tokens=message_request.max_tokens, one_tool=message_request.is_one_at_a_time)
    responder = _AnthropicResponder(
        upstream=upstream,
        model=name_in_answer(message_request.model, target.model),
        params=params,
        streams=bool(message_request.stream),
    )
    return RequestJob(upstream, responder.answer)


async def _count_job(
    services: Services, body: bytes, message_request: AnthropicRequest, target: ResolvedModel
) -> RequestJob:
    """Return what counts or estimates tokens for an engine without such a route. Raises BadRequest."""
    terms = lease_options(message_request, Route.COUNT_TOKENS)
    work = await call_off_loop(body, to_conversation, body, message_request)
    counter = await token_counter(services, target, work, terms)

    async def answer_count(
        _request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        count = await counter.count(engines, observation)
        return count.mark_estimate(json_reply({"input_tokens": count.tokens}))

    return RequestJob(counter.upstream, answer_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnthropicResponder:
    """How an answer is put."""

    upstream: UpstreamRequest
    model: str
    params: AnthropicAnswerParams
    streams: bool

    async def answer(self, request: web.Request, engines: EngineAccess, observation: Observation) -> web.StreamResponse:
        """Answer as the client wants it."""
        return await (self._answer_stream if self.streams else self._answer_whole)(request, engines, observation)

    async def _answer_whole(
        self, request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        reply = build_message(
            aggregate_events(await translate_whole(engines, self.upstream, observation)), self.model, self.params
        )
        if isinstance(reply, AnswerFailed):
            return json_reply(ANTHROPIC_DIALECT.error_document(reply, request[REQUEST_ID]), reply.status)
        return json_reply(reply)

    async def _answer_stream(
        self, request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        blocks = AnthropicEncoder(self.model, self.params, request[REQUEST_ID])
        course = StreamCourse(keep_alive=KeepAlivePlan(first=blocks.begin))
        return await stream_parts(request, engines, [StreamPart(self.upstream, blocks)], observation, course)
