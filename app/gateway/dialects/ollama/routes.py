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
from app.gateway.canonical.events import Failed, fold
from app.gateway.canonical.request import Generate, Request
from app.gateway.dialects.ollama import create as ollama_create
from app.gateway.dialects.ollama import embeddings as ollama_embed
from app.gateway.dialects.ollama import models as ollama_models
from app.gateway.dialects.ollama import requests
from app.gateway.dialects.ollama.descriptions import moment
from app.gateway.dialects.ollama.models import abilities_of, find, read_document
from app.gateway.dialects.ollama.record import OLLAMA_DIALECT
from app.gateway.dialects.ollama.requests import Asked, read_chat, read_generate
from app.gateway.dialects.ollama.stream import ChatForm, Form, GenerateForm, Lines, Said, whole
from app.gateway.dialects.ollama.wire import ChatRequest, Ending, GenerateRequest
from app.gateway.dialects.replies import NDJSON_HEADERS, utf8_json_reply
from app.gateway.exchange.capability_fallback import supplied, with_plan
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.engine.planning import Plan
from app.gateway.exchange.engine.request import route_of
from app.gateway.exchange.handling import Answerer, Job, handle, load_of
from app.gateway.exchange.infilling import preparer
from app.gateway.exchange.observer import Observation, Outcome
from app.gateway.exchange.translating import Course, Part, Trimming, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.requested_model import Found, name_in_answer
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import Terms

log = logging.getLogger(__name__)

_ONLY_HEAD = KeepAlive(alive=bytes)
"""A line would mean something."""


def add_routes(app: web.Application) -> None:
    """Add every route of Ollama's."""
    app.router.add_post("/api/chat", chat)
    app.router.add_post("/api/generate", generate)
    ollama_embed.add_routes(app)
    ollama_models.add_routes(app)
    ollama_create.add_routes(app)


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /api/chat."""
    return await handle(request, "ollama/chat", _understand_chat)


async def generate(request: web.Request) -> web.StreamResponse:
    """POST /api/generate."""
    return await handle(request, "ollama/generate", _understand_generate)


async def _understand_chat(request: web.Request) -> Job:
    wanted = read_chat(await read_document(request, ChatRequest))
    return await _job(request.app[SERVICES], wanted, ChatForm)


async def _understand_generate(request: web.Request) -> Job:
    wanted = read_generate(await read_document(request, GenerateRequest))
    return await _job(request.app[SERVICES], wanted, GenerateForm)


async def _job(services: Services, wanted: Asked, kind: type[ChatForm | GenerateForm]) -> Job:
    found = await find(services, wanted.model)
    name = name_in_answer(wanted.model, found.model)
    form = kind(name, _now)
    if wanted.unheeded:
        log.warning("Options that have no effect here: %s", ", ".join(wanted.unheeded), extra={"model": wanted.model})
    load = await load_of(services, found, wanted.num_ctx)
    work = wanted.request
    path, plan = ("", None) if work is None else await _sendable(services, found, name, work)
    upstream = UpstreamRequest(
        load=load,
        path=path,
        body=b"" if plan is None else plan.body,
        plan=plan,
        model=found.model.name,
        terms=Terms(keep_s=wanted.keep_s, context=wanted.num_ctx),
        prepare=None if work is None else preparer(route_of(work)),
    )
    if work is None:
        return Job(upstream, _loading(services, wanted, form, upstream))
    trimming = _trimming(services, found, upstream, work, form) if wanted.trims else None
    answer = _Answer(form=form, upstream=upstream, trimming=trimming)
    return Job(upstream, answer.stream if wanted.streams else answer.whole)


def _trimming(
    services: Services, found: Found, upstream: UpstreamRequest, work: Request, form: Form
) -> Trimming | None:
    """Return how a conversation is cut to what fits, if it is one."""
    if not isinstance(work, Generate):
        return None

    async def prepare(shorter: Generate) -> UpstreamRequest:
        return await with_plan(services, upstream, found, shorter)

    def dropped(count: int) -> None:
        form.dropped = count

    return Trimming(work=work, prepare=prepare, dropped=dropped)


async def _sendable(services: Services, found: Found, named: str, request: Request) -> tuple[str, Plan]:
    """Return where at the engine, and what. Raises BadRequest for what model or engine cannot do."""
    is_plain = requests.needed_abilities(request) == ["completion"] and found.model.chats
    found = await with_probes(services, found, route_of(request))
    if not is_plain:
        requests.check_abilities(request, await abilities_of(services, found.model, is_tried=True), model=named)
    path = routes_of(services.adapters, services.library, found.load.engine, found.model).get(route_of(request))
    if path is None:
        raise requests.cannot(named, "completion")
    return path, await supplied(services, found, request)


def _loading(services: Services, wanted: Asked, form: Form, upstream: UpstreamRequest) -> Answerer:
    """Return what loads the model, or lets it go once nobody uses it, and says which.

    A pinned one stays, and is said to be loaded.
    """
    supervisor = services.supervisor

    async def answer(_request: web.Request, _engines: EngineAccess, observed: Observation) -> web.Response:
        reason = "load"
        if wanted.unloads:
            status = await supervisor.let_go(upstream.load.source.name)
            reason = "load" if status.is_pinned and status.state is EngineState.READY else "unload"
        else:
            async with supervisor.lease(upstream.load, msgspec.structs.replace(upstream.terms, takes_slot=False)):
                pass
        observed.outcome = Outcome.OK
        return utf8_json_reply(form(Said(), Ending(done_reason=reason)))

    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """How an answer is put."""

    form: Form
    upstream: UpstreamRequest
    trimming: Trimming | None

    async def whole(self, _request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
        """Answer at once."""
        events = await translate_whole(engines, self.upstream, observed, self.trimming)
        reply = whole(fold(events), self.form, _new_id)
        if isinstance(reply, Failed):
            return utf8_json_reply(OLLAMA_DIALECT.document(reply), reply.status)
        return utf8_json_reply(reply)

    async def stream(self, request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer line by line."""
        course = Course(keep_alive=_ONLY_HEAD, headers=NDJSON_HEADERS, trimming=self.trimming)
        parts = [Part(self.upstream, Lines(self.form, _new_id))]
        return await stream(request, engines, parts, observed, course)


def _now() -> str:
    return moment(time.time())


def _new_id() -> str:
    return f"call_{secrets.token_hex(4)}"
