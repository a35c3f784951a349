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
from app.gateway.canonical.events import Event
from app.gateway.canonical.request import Image, Level, Message, Role, Text
from app.gateway.dialects.lmstudio.models import known_of, reasoning_of
from app.gateway.dialects.lmstudio.record import LM_STUDIO_V1
from app.gateway.dialects.lmstudio.requests import (
    NOTHING,
    RESPONSE_PREFIX,
    ChatRequest,
    Earlier,
    conversation,
    generate,
)
from app.gateway.dialects.lmstudio.stream import Encoder
from app.gateway.dialects.replies import EVENT_STREAM_HEADERS, json_reply
from app.gateway.entry.bodies import read_json
from app.gateway.exchange.capability_fallback import supplied
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.handling import Job, handle, load_of, path_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import Course, End, Part, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.launch import resolve
from app.gateway.loading.requested_model import Found
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import Terms
from app.supervisor.pool import Supervisor
from engines.api import Route

_MOST = 1024
_MOST_CHARACTERS = 64 * 1024 * 1024
"""Counted once per answer, although answers of one conversation share their turns: so it is an upper bound."""
_ID_BYTES = 24


class _Kept(NamedTuple):
    talk: Earlier
    characters: int


class Remembered:
    """Conversations by the id of their last answer. Belongs to the event loop's thread."""

    def __init__(self, *, most: int = _MOST, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most, self._most_characters = most, most_characters
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._characters = 0

    def find(self, response_id: str) -> Earlier:
        """Return the conversation up to an answer. Raises NotFound."""
        kept = self._kept.get(response_id)
        if kept is None:
            raise NotFound(
                "No earlier response with that id is stored.",
                hint="Send the conversation again; responses are forgotten when Roundhouse restarts.",
                code="previous_response_not_found",
            )
        self._kept.move_to_end(response_id)
        return kept.talk

    def keep(self, response_id: str, talk: Earlier) -> None:
        """Keep a conversation, if it is not larger than all that may be kept."""
        size = len(talk.system) + sum(map(_size, talk.turns))
        if size > self._most_characters:
            return
        self._kept[response_id] = _Kept(talk, size)
        self._characters += size
        while len(self._kept) > self._most or self._characters > self._most_characters:
            _, forgotten = self._kept.popitem(last=False)
            self._characters -= forgotten.characters


def new_response_id() -> str:
    """Return an id that nobody can guess."""
    return RESPONSE_PREFIX + secrets.token_hex(_ID_BYTES)


def _size(turn: Message) -> int:
    return sum(
        len(part.text) if isinstance(part, Text) else len(part.data) if isinstance(part, Image) else 0
        for part in turn.parts
    )


_ROUTE = "lmstudio/chat"
_EARLIER = web.AppKey("lmstudio_earlier", Remembered)
_LOOK_S = 0.25
"""How often a stream that waits says how far loading is."""


class ChatJob(msgspec.Struct, frozen=True, kw_only=True):
    """A chat understood. `response_id` is empty if it is not to be kept."""

    upstream: UpstreamRequest
    talk: Earlier
    response_id: str


def add_routes(app: web.Application) -> None:
    """Add the chat, and what it remembers."""
    app[_EARLIER] = Remembered()
    app.router.add_post("/api/v1/chat", chat)


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /api/v1/chat."""
    return await handle(request, _ROUTE, _understand)


async def _understand(request: web.Request) -> Job:
    wanted = await read_json(request, ChatRequest)
    services = request.app[SERVICES]
    talk = conversation(wanted, _earlier(request, wanted.previous_response_id))
    work = generate(wanted, talk)
    found = await resolve(services, wanted.model)
    path = path_of(services, found.load.engine, found.model, Route.CHAT)
    await _check_reasoning(services, found, work.thinking)
    context, plan = wanted.wanted_context, await supplied(services, found, work)
    upstream = UpstreamRequest(
        load=await load_of(services, found, context),
        path=path,
        body=plan.body,
        plan=plan,
        model=found.model.name,
        terms=Terms(keep_s=wanted.keep_s, context=context),
    )
    job = ChatJob(upstream=upstream, talk=talk, response_id="" if wanted.store is False else new_response_id())
    return Job(upstream, partial(_stream if wanted.stream else _whole, job))


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


async def _whole(job: ChatJob, request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
    encoder = Encoder(job.upstream.model, response_id=job.response_id or None)
    _Encoding(encoder).feed(await translate_whole(engines, job.upstream, observed))
    if encoder.failure is not None:
        failure = encoder.failure
        return json_reply(LM_STUDIO_V1.document(failure), failure.status)
    _keep(request, job, encoder)
    return json_reply(encoder.result)


async def _stream(
    job: ChatJob, request: web.Request, engines: EngineAccess, observed: Observation
) -> web.StreamResponse:
    """Answer piece by piece. A model that is to be loaded first is told of from the start."""
    encoder, supervisor = Encoder(job.upstream.model, response_id=job.response_id or None), engines.supervisor

    async def before_end(_end: End) -> None:
        _keep(request, job, encoder)

    keep_alive = KeepAlive(
        first=lambda: encoder.begin() + _progress(supervisor, encoder),
        alive=lambda: _progress(supervisor, encoder),
        within_s=_LOOK_S if supervisor.serves_at_once(job.upstream.load.source.name) else 0.0,
        every_s=_LOOK_S,
    )
    course = Course(keep_alive=keep_alive, headers=EVENT_STREAM_HEADERS, before_end=before_end, has_begun=True)
    return await stream(request, engines, [Part(job.upstream, _Encoding(encoder))], observed, course)


class _Encoding:
    """The encoder, as streams are put."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def begin(self) -> bytes:
        """Return what comes before everything else."""
        return self._encoder.begin()

    def feed(self, events: Sequence[Event]) -> bytes:
        """Return what some events are."""
        return b"".join(map(self._encoder.take, events))


def _progress(supervisor: Supervisor, encoder: Encoder) -> bytes:
    """Say how far loading is, as long as the engine does not answer."""
    status = next((status for status in supervisor.statuses() if status.model == encoder.instance), None)
    if status is not None and status.state is EngineState.READY:
        return encoder.loaded((status.load_seconds or 0.0) if encoder.is_loading else 0.0)
    return encoder.loading(status.progress if status else None)


def _keep(request: web.Request, job: ChatJob, encoder: Encoder) -> None:
    if job.response_id and encoder.failure is None:
        said = Message(Role.ASSISTANT, (Text(encoder.text),))
        request.app[_EARLIER].keep(job.response_id, job.talk.then(said))
