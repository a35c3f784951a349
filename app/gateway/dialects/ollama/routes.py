"""Ollama's routes that make a model write: chat and generate, and loading and unloading by asking for nothing.

Every request is translated: into a canonical one, sent to the engine's OpenAI route, and the engine's events into
NDJSON. An answer that is not streamed is the fold of the same events.
"""

import logging
import secrets
import time
from dataclasses import dataclass

import msgspec
from aiohttp import web

from app.core.engines import EngineState
from app.gateway.canonical.events import AnswerFailed, aggregate_events
from app.gateway.canonical.request import ConversationRequest, Request
from app.gateway.dialects.form import NDJSON_HEADERS, utf8_json_reply
from app.gateway.dialects.ollama import create as ollama_create
from app.gateway.dialects.ollama import embeddings as ollama_embed
from app.gateway.dialects.ollama import models as ollama_models
from app.gateway.dialects.ollama import requests
from app.gateway.dialects.ollama.descriptions import format_time
from app.gateway.dialects.ollama.models import abilities_of, find_target, read_document
from app.gateway.dialects.ollama.record import OLLAMA_DIALECT
from app.gateway.dialects.ollama.requests import OllamaGenerationParams, read_chat, read_generate
from app.gateway.dialects.ollama.stream import (
    OllamaChatForm,
    OllamaGenerateForm,
    OllamaLineEncoder,
    OllamaReplyContent,
    OllamaReplyForm,
    build_reply,
)
from app.gateway.dialects.ollama.wire import OllamaChatRequest, OllamaEndFields, OllamaGenerateRequest
from app.gateway.entry.bodies import call_off_loop
from app.gateway.exchange.capability_fallback import plan_fallbacks, with_plan
from app.gateway.exchange.client_stream import KeepAlivePlan
from app.gateway.exchange.engine.planning import UpstreamPlan
from app.gateway.exchange.engine.request import route_of
from app.gateway.exchange.handling import AnswerHandler, RequestJob, answer_request, load_for_context
from app.gateway.exchange.infilling import PREPARERS
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.exchange.translating import StreamCourse, StreamPart, stream_parts, translate_whole
from app.gateway.exchange.upstream import EngineAccess, TrimOptions, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.requested_model import ResolvedModel, name_in_answer
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LeaseOptions
from app.supervisor.pool import Supervisor

log = logging.getLogger(__name__)

_ONLY_HEAD = KeepAlivePlan(alive=bytes)
"""A line would mean something."""


def add_routes(router: web.UrlDispatcher) -> None:
    """Add every route of Ollama's."""
    router.add_post("/api/chat", handle_chat)
    router.add_post("/api/generate", handle_generate)
    ollama_embed.add_routes(router)
    ollama_models.add_routes(router)
    ollama_create.add_routes(router)


async def handle_chat(request: web.Request) -> web.StreamResponse:
    """POST /api/chat."""
    return await answer_request(request, "ollama/chat", _prepare_chat)


async def handle_generate(request: web.Request) -> web.StreamResponse:
    """POST /api/generate."""
    return await answer_request(request, "ollama/generate", _prepare_generate)


async def _prepare_chat(request: web.Request) -> RequestJob:
    params = read_chat(await read_document(request, OllamaChatRequest))
    return await _make_job(request.app[SERVICES], params, OllamaChatForm)


async def _prepare_generate(request: web.Request) -> RequestJob:
    params = read_generate(await read_document(request, OllamaGenerateRequest))
    return await _make_job(request.app[SERVICES], params, OllamaGenerateForm)


async def _make_job(
    services: Services, params: OllamaGenerationParams, kind: type[OllamaChatForm | OllamaGenerateForm]
) -> RequestJob:
    target = await find_target(services, params.model)
    if params.streams and params.request is not None:
        services.connections.dial_ahead(services.supervisor, target.load.source.name)
    name = name_in_answer(params.model, target.model)
    form = kind(name, _format_now)
    if params.names_without_effect:
        log.warning(
            "Options that have no effect here: %s",
            ", ".join(params.names_without_effect),
            extra={"model": params.model},
        )
    load = await load_for_context(services, target, params.num_ctx)
    work = params.request
    path, plan = ("", None) if work is None else await _plan_request(services, target, name, work)
    body = b"" if plan is None else plan.body
    upstream = await call_off_loop(
        body,
        UpstreamRequest,
        load=load,
        path=path,
        body=body,
        plan=plan,
        model=target.model.name,
        terms=LeaseOptions(keep_s=params.keep_s, context=params.num_ctx),
        prepare=None if work is None else PREPARERS.get(route_of(work)),
    )
    if work is None:
        return RequestJob(upstream, _make_load_answer(services.supervisor, params, form, upstream))
    trimming_options = _make_trimming(services, target, upstream, work, form) if params.trims else None
    answer = _OllamaResponder(form=form, upstream=upstream, trimming=trimming_options)
    handler = answer.answer_stream if params.streams else answer.answer_whole
    return RequestJob(upstream, handler, trim_options=trimming_options)


def _make_trimming(
    services: Services, target: ResolvedModel, upstream: UpstreamRequest, work: Request, form: OllamaReplyForm
) -> TrimOptions | None:
    """Return how a conversation is cut to what fits, if it is one."""
    if not isinstance(work, ConversationRequest):
        return None

    async def prepare_shorter(shorter: ConversationRequest) -> UpstreamRequest:
        return await with_plan(services, upstream, target, shorter)

    def note_dropped(count: int) -> None:
        form.dropped = count

    return TrimOptions(work=work, prepare=prepare_shorter, dropped=note_dropped)


async def _plan_request(
    services: Services, target: ResolvedModel, model_name: str, request: Request
) -> tuple[str, UpstreamPlan]:
    """Return where at the engine, and what. Raises BadRequest for what model or engine cannot do."""
    is_plain = requests.abilities_needed(request) == ["completion"] and target.model.chats
    target = await with_probes(services.library, services.shared_work, services.events, target, route_of(request))
    if not is_plain:
        requests.check_abilities(request, await abilities_of(services, target.model, is_tried=True), model=model_name)
    path = routes_of(services.adapters, services.library, target.load.engine, target.model).get(route_of(request))
    if path is None:
        raise requests.ability_error(model_name, "completion")
    return path, await plan_fallbacks(services, target, request)


def _make_load_answer(
    supervisor: Supervisor, params: OllamaGenerationParams, form: OllamaReplyForm, upstream: UpstreamRequest
) -> AnswerHandler:
    """Return what loads the model, or lets it go once nobody uses it, and says which.

    A pinned one stays, and is said to be loaded.
    """

    async def answer_load(_request: web.Request, _engines: EngineAccess, observation: Observation) -> web.Response:
        reason = "load"
        if params.unloads:
            status = await supervisor.let_go(upstream.load.source.name)
            reason = "load" if status.is_pinned and status.state is EngineState.READY else "unload"
        else:
            async with supervisor.lease(upstream.load, msgspec.structs.replace(upstream.terms, takes_slot=False)):
                pass
        observation.outcome = ExchangeOutcome.OK
        return utf8_json_reply(form(OllamaReplyContent(), OllamaEndFields(done_reason=reason)))

    return answer_load


@dataclass(frozen=True, slots=True, kw_only=True)
class _OllamaResponder:
    """How an answer is put."""

    form: OllamaReplyForm
    upstream: UpstreamRequest
    trimming: TrimOptions | None

    async def answer_whole(
        self, _request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.Response:
        """Answer at once."""
        events = await translate_whole(engines, self.upstream, observation, self.trimming)
        reply = build_reply(aggregate_events(events), self.form, _new_id)
        if isinstance(reply, AnswerFailed):
            return utf8_json_reply(OLLAMA_DIALECT.error_document(reply), reply.status)
        return utf8_json_reply(reply)

    async def answer_stream(
        self, request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        """Answer line by line."""
        course = StreamCourse(keep_alive=_ONLY_HEAD, headers=NDJSON_HEADERS, trimming=self.trimming)
        parts = [StreamPart(self.upstream, OllamaLineEncoder(self.form, _new_id))]
        return await stream_parts(request, engines, parts, observation, course)


def _format_now() -> str:
    return format_time(time.time())


def _new_id() -> str:
    return f"call_{secrets.token_hex(4)}"
