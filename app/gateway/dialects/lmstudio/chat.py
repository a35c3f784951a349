"""LM Studio's `/api/v1/chat`: a conversation whose earlier turns are kept here, answered as typed events or at once.

Unlike elsewhere the stream begins before the model is loaded, since loading and reading the prompt are told of in it.
What is kept, so that a client can go on by the id of an answer, is in memory: a restart forgets it. It is bounded by
the number of conversations and by the text and pictures in them; those not used for longest are forgotten first.
"""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.core.engines import EngineState
from app.core.errors import BadRequest, NotFound
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.events import Event
from app.gateway.canonical.request import ConversationMessage, Image, MessageRole, Text
from app.gateway.dialects.form import EVENT_STREAM_HEADERS, json_reply
from app.gateway.dialects.lmstudio.models import read_model, reasoning_of
from app.gateway.dialects.lmstudio.record import LM_STUDIO_V1
from app.gateway.dialects.lmstudio.requests import (
    EMPTY_HISTORY,
    RESPONSE_PREFIX,
    LmStudioChatRequest,
    LmStudioHistory,
    extend_history,
    to_canonical_request,
)
from app.gateway.dialects.lmstudio.stream import LmStudioEncoder
from app.gateway.entry.bodies import call_off_loop, read_json
from app.gateway.exchange.capability_fallback import plan_fallbacks
from app.gateway.exchange.client_stream import KeepAlivePlan
from app.gateway.exchange.event_receivers import End
from app.gateway.exchange.handling import RequestJob, answer_request, engine_path, load_for_context
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import StreamCourse, StreamPart, stream_parts, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LeaseOptions
from app.supervisor.pool import Supervisor
from engines.api import Route

_MOST_CONVERSATIONS = 1024
_MOST_CHARACTERS = 64 * 1024 * 1024
"""Counted once per answer, although answers of one conversation share their turns: so it is an upper bound."""
_ID_BYTES = 24


class _HistoryEntry(NamedTuple):
    history: LmStudioHistory
    characters: int


class LmStudioHistoryCache:
    """Conversations by the id of their last answer. Belongs to the event loop's thread."""

    def __init__(self, *, most: int = _MOST_CONVERSATIONS, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most, self._most_characters = most, most_characters
        self._entries: OrderedDict[str, _HistoryEntry] = OrderedDict()
        self._characters = 0

    def find_history(self, response_id: str) -> LmStudioHistory:
        """Return the conversation up to an answer. Raises NotFound."""
        entry = self._entries.get(response_id)
        if entry is None:
            raise NotFound(
                "No earlier response with that id is stored.",
                hint="Send the conversation again; responses are forgotten when Roundhouse restarts.",
                code="previous_response_not_found",
            )
        self._entries.move_to_end(response_id)
        return entry.history

    def keep_history(self, response_id: str, history: LmStudioHistory) -> None:
        """Keep a conversation, if it is not larger than all that may be kept."""
        size = len(history.system) + sum(map(_count_characters, history.turns))
        if size > self._most_characters:
            return
        self._entries[response_id] = _HistoryEntry(history, size)
        self._characters += size
        while len(self._entries) > self._most or self._characters > self._most_characters:
            _, oldest = self._entries.popitem(last=False)
            self._characters -= oldest.characters


def new_response_id() -> str:
    """Return an id that nobody can guess."""
    return RESPONSE_PREFIX + secrets.token_hex(_ID_BYTES)


def _count_characters(turn: ConversationMessage) -> int:
    return sum(
        len(part.text) if isinstance(part, Text) else len(part.data) if isinstance(part, Image) else 0
        for part in turn.parts
    )


_ROUTE = "lmstudio/chat"
EARLIER_CHATS = web.AppKey("lmstudio_earlier", LmStudioHistoryCache)
_PROGRESS_INTERVAL_S = 0.25
"""How often a stream that waits says how far loading is."""


class LmStudioChatJob(msgspec.Struct, frozen=True, kw_only=True):
    """A chat understood. `response_id` is empty if it is not to be kept."""

    upstream: UpstreamRequest
    history: LmStudioHistory
    response_id: str


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the chat."""
    router.add_post("/api/v1/chat", handle_chat)


async def handle_chat(request: web.Request) -> web.StreamResponse:
    """POST /api/v1/chat."""
    return await answer_request(request, _ROUTE, _prepare_job)


async def _prepare_job(request: web.Request) -> RequestJob:
    chat_request = await read_json(request, LmStudioChatRequest)
    services = request.app[SERVICES]
    history = extend_history(chat_request, _find_earlier(request, chat_request.previous_response_id))
    work = to_canonical_request(chat_request, history)
    target = await resolve_model(services, chat_request.model)
    if chat_request.stream:
        services.connections.dial_ahead(services.supervisor, target.load.source.name)
    path = engine_path(services.adapters, services.library, target.load.engine, target.model, Route.CHAT)
    await _check_reasoning(services, target, work.thinking)
    context, plan = chat_request.context_tokens, await plan_fallbacks(services, target, work)
    upstream = await call_off_loop(
        plan.body,
        UpstreamRequest,
        load=await load_for_context(services, target, context),
        path=path,
        body=plan.body,
        plan=plan,
        model=target.model.name,
        terms=LeaseOptions(keep_s=chat_request.keep_s, context=context),
    )
    job = LmStudioChatJob(
        upstream=upstream, history=history, response_id="" if chat_request.store is False else new_response_id()
    )
    return RequestJob(upstream, partial(_answer_stream if chat_request.stream else _answer_whole, job))


def _find_earlier(request: web.Request, response_id: str | None) -> LmStudioHistory:
    if response_id is None:
        return EMPTY_HISTORY
    if not response_id.startswith(RESPONSE_PREFIX):
        raise BadRequest(f"`previous_response_id` starts with {RESPONSE_PREFIX!r}.", code="invalid_value")
    return request.app[EARLIER_CHATS].find_history(response_id)


async def _check_reasoning(services: Services, target: ResolvedModel, level: ThinkingLevel) -> None:
    """Return if the model's thinking can be set so. Raises BadRequest. Turning off what it never does is no mistake."""
    if level in {ThinkingLevel.DEFAULT, ThinkingLevel.OFF}:
        return
    reasoning = reasoning_of(await read_model(services, target.model))
    options = reasoning.allowed_options if reasoning else ()
    if level not in options:
        hint = f"It takes {', '.join(options)}." if options else "Leave out `reasoning`."
        raise BadRequest(
            f"{target.model.title} has no reasoning setting {level.value!r}.", hint=hint, code="invalid_value"
        )


async def _answer_whole(
    job: LmStudioChatJob, request: web.Request, engines: EngineAccess, observation: Observation
) -> web.Response:
    encoder = LmStudioEncoder(job.upstream.model, response_id=job.response_id or None)
    _ChatStreamEncoder(encoder).feed(await translate_whole(engines, job.upstream, observation))
    if encoder.failure is not None:
        failure = encoder.failure
        return json_reply(LM_STUDIO_V1.error_document(failure), failure.status)
    _keep_history(request, job, encoder)
    return json_reply(encoder.result)


async def _answer_stream(
    job: LmStudioChatJob, request: web.Request, engines: EngineAccess, observation: Observation
) -> web.StreamResponse:
    """Answer piece by piece. A model that is to be loaded first is told of from the start."""
    encoder, supervisor = LmStudioEncoder(job.upstream.model, response_id=job.response_id or None), engines.supervisor

    async def before_end(_end: End) -> None:
        _keep_history(request, job, encoder)

    keep_alive = KeepAlivePlan(
        first=lambda: encoder.begin() + _encode_progress(supervisor, encoder),
        alive=lambda: _encode_progress(supervisor, encoder),
        within_s=_PROGRESS_INTERVAL_S if supervisor.serves_at_once(job.upstream.load.source.name) else 0.0,
        every_s=_PROGRESS_INTERVAL_S,
    )
    course = StreamCourse(keep_alive=keep_alive, headers=EVENT_STREAM_HEADERS, before_end=before_end, has_begun=True)
    return await stream_parts(
        request, engines, [StreamPart(job.upstream, _ChatStreamEncoder(encoder))], observation, course
    )


class _ChatStreamEncoder:
    """The encoder, as streams are put."""

    def __init__(self, encoder: LmStudioEncoder) -> None:
        self._encoder = encoder

    def begin(self) -> bytes:
        """Return what comes before everything else."""
        return self._encoder.begin()

    def feed(self, events: Sequence[Event]) -> bytes:
        """Return what some events are."""
        return b"".join(map(self._encoder.take_event, events))


def _encode_progress(supervisor: Supervisor, encoder: LmStudioEncoder) -> bytes:
    """Say how far loading is, as long as the engine does not answer."""
    status = next((status for status in supervisor.list_statuses() if status.model == encoder.instance), None)
    if status is not None and status.state is EngineState.READY:
        return encoder.say_loaded((status.load_seconds or 0.0) if encoder.is_loading else 0.0)
    return encoder.say_loading(status.progress if status else None)


def _keep_history(request: web.Request, job: LmStudioChatJob, encoder: LmStudioEncoder) -> None:
    if job.response_id and encoder.failure is None:
        reply = ConversationMessage(MessageRole.ASSISTANT, (Text(encoder.text),))
        request.app[EARLIER_CHATS].keep_history(job.response_id, job.history.with_turn(reply))
