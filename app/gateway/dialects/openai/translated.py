"""OpenAI's chat route in front of engines whose bytes cannot pass: translated to the canonical form and back.

Several answers to one request are asked for one after another.
"""

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.gateway.canonical.events import Event, Failed, fold
from app.gateway.canonical.request import Generate
from app.gateway.dialects.form import Editor, Form
from app.gateway.dialects.openai.chat_request import ChatRequest, generate
from app.gateway.dialects.openai.checks import Asked
from app.gateway.dialects.openai.form import OPENAI
from app.gateway.dialects.openai.record import OPENAI_DIALECT
from app.gateway.dialects.openai.stream import DONE, About, Chunks, added, counts_chunk, whole
from app.gateway.entry.bodies import decode
from app.gateway.exchange.capability_fallback import may_pass, started, with_plan
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.engine.capability import How, Need, how, needs
from app.gateway.exchange.handling import Job, path_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import Course, Part, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from app.supervisor.policy import Terms
from engines.api import Feature, Route

_ALL = frozenset(
    {
        Feature.TOOLS,
        Feature.REASONING,
        Feature.JSON_SCHEMA,
        Feature.LOGPROBS,
        Feature.LOGIT_BIAS,
        Feature.CHOICES,
    }
)
"""An engine with these answers every request itself."""


async def passes(services: Services, found: Found, body: bytes, asked: Asked) -> bool:
    """Tell whether a request's bytes may go to the engine as they are. Raises BadRequest for what cannot be read."""
    descriptor = started(services, found.load)
    if descriptor.features >= _ALL:
        return not asked.has_tools or await may_pass(services, found, has_tools=True)
    if not await may_pass(services, found, has_tools=asked.has_tools):
        return False
    sent = decode(body, ChatRequest)
    asked_for = [*needs(generate(sent)), *([Need.CHOICES] if sent.choices > 1 else [])]
    return all(how(need, descriptor.features) in {How.ENGINE, How.PASSED_ON} for need in asked_for)


class Chat(NamedTuple):
    """A request for a chat: its body, what the answer calls the model, how to put the answer, and its terms."""

    body: bytes
    name: str
    form: Form | None = None
    terms: Terms = Terms()


async def job_for(services: Services, found: Found, chat: Chat) -> Job:
    """Return what asks the engine for a chat, and answers with it. Raises BadRequest for what cannot be asked."""
    sent = decode(chat.body, ChatRequest)
    blank = UpstreamRequest(
        load=found.load,
        path=path_of(services, found.load.engine, found.model, Route.CHAT),
        body=b"",
        model=found.model.name,
        terms=chat.terms,
        form=chat.form or OPENAI,
    )
    upstreams = [await with_plan(services, blank, found, each) for each in _each(generate(sent), sent.choices)]
    about = About(id=f"chatcmpl-{secrets.token_hex(12)}", model=chat.name, created=int(time.time()))
    answers = _Answers(upstreams=tuple(upstreams), about=about, includes_usage=sent.includes_usage)
    return Job(upstreams[0], answers.stream if sent.stream else answers.whole)


def _each(request: Generate, count: int) -> Iterator[Generate]:
    """Yield the request once for every answer; with a seed, each has one of its own, or all would be the same."""
    for number in range(count):
        seed = None if request.sampling.seed is None else request.sampling.seed + number
        sampling = msgspec.structs.replace(request.sampling, seed=seed)
        yield msgspec.structs.replace(request, sampling=sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """How a request understood is answered: one upstream request for every answer it wants."""

    upstreams: tuple[UpstreamRequest, ...]
    about: About
    includes_usage: bool

    async def whole(self, _request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer at once."""
        answers = [fold(await translate_whole(engines, upstream, observed)) for upstream in self.upstreams]
        reply = whole(self.about, answers)
        if isinstance(reply, Failed):
            return _json(OPENAI_DIALECT.document(reply), reply.status)
        body = self.upstreams[0].form.whole(msgspec.json.encode(reply))
        return web.Response(body=body, content_type="application/json")

    async def stream(self, request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer piece by piece, one choice after another."""
        edit = self.upstreams[0].form.editor()
        encoders = [Chunks(self.about, index=index) for index, _ in enumerate(self.upstreams)]
        parts = [
            Part(upstream, Edited(encoder, edit)) for upstream, encoder in zip(self.upstreams, encoders, strict=True)
        ]

        def last() -> bytes:
            total = encoders[0].usage
            for encoder in encoders[1:]:
                total = added(total, encoder.usage)
            return edit((counts_chunk(self.about, total) if self.includes_usage else b"") + DONE)

        course = Course(keep_alive=KeepAlive(first=parts[0].encoder.begin), last=last)
        return await stream(request, engines, parts, observed, course)


class Edited:
    """An encoder whose bytes are mended on their way, as an engine's own would be."""

    def __init__(self, encoder: Chunks, edit: Editor) -> None:
        self._encoder = encoder
        self._edit = edit

    def begin(self) -> bytes:
        """Return what comes before everything else."""
        return self._edit(self._encoder.begin())

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are."""
        return self._edit(self._encoder.feed(events))


def _json(value: msgspec.Struct, status: int) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
