"""From a request in OpenAI's dialect to what an engine is asked; LM Studio's `/api/v0` is asked the same way.

Of a request only what concerns the gateway is read; the rest is the engine's. In front of engines whose bytes cannot
pass, chats are translated to the canonical form and back; several answers to one request are then asked for one after
another.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.gateway.canonical.assistant_prefill import NOTHING
from app.gateway.canonical.events import Event, Failed, fold
from app.gateway.canonical.request import Generate
from app.gateway.dialects.form import Editor, Form
from app.gateway.dialects.keep_alive import Staying
from app.gateway.dialects.openai import checks, embeddings, infill, multi_choice, rerank
from app.gateway.dialects.openai.answers import CHAT, ONE_CALL, Texts
from app.gateway.dialects.openai.chat_request import ChatRequest, generate
from app.gateway.dialects.openai.checks import Answers, ChatOptions, CompletionOptions
from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.dialects.openai.record import OPENAI_DIALECT
from app.gateway.dialects.openai.stream import DONE, About, Chunks, added, counts_chunk, whole
from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.dialects.replies import json_reply
from app.gateway.entry.bodies import decode, read_body
from app.gateway.exchange.capability_fallback import may_pass, started, with_plan
from app.gateway.exchange.client_stream import KeepAlive
from app.gateway.exchange.engine.capability import How, Need, how, needs
from app.gateway.exchange.handling import Job, load_of, passed_headers, path_of, terms_of
from app.gateway.exchange.infilling import preparer
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.presets import applied
from app.gateway.exchange.translating import Course, Part, stream, translate_whole
from app.gateway.exchange.upstream import EngineAccess, Gather, UpstreamRequest
from app.gateway.library.endpoint_routes import with_probes
from app.gateway.loading.launch import resolve
from app.gateway.loading.requested_model import Found, name_in_answer
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import Terms
from engines.api import Descriptor, Feature, Route

_WRITES = frozenset({Route.CHAT, Route.COMPLETIONS})


class RequestOptions(Staying, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None
    prompt: msgspec.Raw = ABSENT
    n: Answers | None = None
    suffix: str | None = None
    """Of a completion: what comes after the text to be written."""


_Options = RequestOptions | ChatOptions


class Prepared(NamedTuple):
    """What the engine is sent, where, and what becomes of its answer. `source` is the body as it came."""

    route: Route
    body: bytes
    source: bytes
    form: OpenAI = OPENAI
    gather: Gather | None = None


def prepare_chat(body: bytes, wishes: ChatOptions) -> Prepared:
    """Return what a chat comes to. Raises BadRequest for what no engine would heed."""
    form = ONE_CALL if wishes.parallel_tool_calls is False else CHAT
    return Prepared(Route.CHAT, checks.check_chat(body, wishes), body, form)


def prepare(body: bytes, wishes: RequestOptions, route: Route) -> Prepared:
    """Return what any other request comes to. Raises BadRequest for what no engine would heed."""
    if route is Route.COMPLETIONS:
        return _completion(body, wishes)
    if route is Route.EMBEDDINGS:
        vector_wishes = decode(body, embeddings.Asked)
        return Prepared(route, embeddings.for_engine(body, vector_wishes), body, embeddings.form_of(vector_wishes))
    if route is Route.RERANK:
        ranking_wishes = decode(body, rerank.Asked)
        return Prepared(route, rerank.for_engine(body, ranking_wishes), body, rerank.form_of(ranking_wishes))
    return Prepared(route, body, body)


def fit_to_engine(prepared: Prepared, engine: Descriptor, wishes: _Options, *, name: str) -> Prepared:
    """Return it as an engine with ways of its own has to be asked and read; `name` is what answers call the model."""
    if isinstance(prepared.form, infill.Fim):
        return prepared._replace(form=msgspec.structs.replace(prepared.form, model=name))
    if wishes.stream and wishes.n is None and isinstance(wishes, ChatOptions):
        return prepared  # as with most
    each = int(wishes.n or 1)
    is_several = prepared.route in _WRITES and (
        each > 1 or (isinstance(wishes, RequestOptions) and _prompts(wishes.prompt) > 1)
    )
    if engine.counts_each and is_several and not wishes.stream:
        gather = partial(multi_choice.gathered, each=each)
        return prepared._replace(body=multi_choice.as_stream(prepared.body), gather=gather)
    form = _going_on(prepared.form, engine, prepared.source, wishes)
    if engine.counts_each and is_several:
        form = msgspec.structs.replace(form, each=each)
    return prepared._replace(form=form)


def _prompts(raw: msgspec.Raw) -> int:
    """Return how many prompts a completion has: a list of tokens is one."""
    prompts = msgspec.json.decode(raw) if bytes(raw).startswith(b"[") else []
    return len(prompts) if all(isinstance(one, str | list) for one in prompts) else 1


def _going_on(form: OpenAI, engine: Descriptor, body: bytes, wishes: _Options) -> OpenAI:
    """Return the form of an answer that may go on with the request's last turn."""
    if not engine.repeats_prefill or not isinstance(wishes, ChatOptions):
        return form
    prefilled = checks.prefilled_by(body, wishes)
    return form if prefilled == NOTHING else msgspec.structs.replace(form, prefilled=prefilled)


def _completion(body: bytes, wishes: RequestOptions) -> Prepared:
    wanted = decode(body, CompletionOptions)
    checked = checks.check_completion(body, wanted)
    if wishes.suffix:
        between = decode(body, infill.Asked)
        form = infill.Fim(includes_usage=wanted.includes_usage)
        return Prepared(Route.INFILL, infill.for_infill(checked, between), body, form)
    texts = Texts(includes_usage=wanted.includes_usage, is_only_chosen=wanted.is_only_chosen)
    return Prepared(Route.COMPLETIONS, checked, body, texts)


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


async def _passes(services: Services, found: Found, body: bytes, asked: ChatOptions) -> bool:
    """Tell whether a request's bytes may go to the engine as they are. Raises BadRequest for what cannot be read."""
    descriptor = started(services, found.load)
    if descriptor.features >= _ALL:
        return not asked.has_tools or await may_pass(services, found, has_tools=True)
    if not await may_pass(services, found, has_tools=asked.has_tools):
        return False
    sent = decode(body, ChatRequest)
    asked_for = [*needs(generate(sent)), *([Need.CHOICES] if sent.choices > 1 else [])]
    return all(how(need, descriptor.features) in {How.ENGINE, How.PASSED_ON} for need in asked_for)


class _Translation(NamedTuple):
    """A request for a chat: its body, what the answer calls the model, how to put the answer, and its terms."""

    body: bytes
    name: str
    form: Form | None = None
    terms: Terms = Terms()


async def _translated_job(services: Services, found: Found, chat: _Translation) -> Job:
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
            return json_reply(OPENAI_DIALECT.document(reply), reply.status)
        body = self.upstreams[0].form.whole(msgspec.json.encode(reply))
        return web.Response(body=body, content_type="application/json")

    async def stream(self, request: web.Request, engines: EngineAccess, observed: Observation) -> web.StreamResponse:
        """Answer piece by piece, one choice after another."""
        edit = self.upstreams[0].form.editor()
        encoders = [Chunks(self.about, index=index) for index, _ in enumerate(self.upstreams)]
        parts = [
            Part(upstream, _EditedChunks(encoder, edit))
            for upstream, encoder in zip(self.upstreams, encoders, strict=True)
        ]

        def last() -> bytes:
            total = encoders[0].usage
            for encoder in encoders[1:]:
                total = added(total, encoder.usage)
            return edit((counts_chunk(self.about, total) if self.includes_usage else b"") + DONE)

        course = Course(keep_alive=KeepAlive(first=parts[0].encoder.begin), last=last)
        return await stream(request, engines, parts, observed, course)


class _EditedChunks:
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


Put = Callable[[OpenAI, Route, Found], Form]
"""What becomes of an answer in OpenAI's form on its way to a client of another dialect."""


async def understand_chat(request: web.Request, put: Put | None = None) -> Job:
    """Return what a chat asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_body(request)
    wishes = decode(body, ChatOptions)
    prepared = prepare_chat(body, wishes)
    found = await resolve(services, wishes.model)
    if wishes.context is not None:
        found = found._replace(load=await load_of(services, found, wishes.context))
    if not await _passes(services, found, body, wishes):
        form = None if put is None else put(prepared.form, Route.CHAT, found)
        name = name_in_answer(wishes.model, found.model)
        return await _translated_job(services, found, _Translation(body, name, form, terms_of(wishes, Route.CHAT)))
    return Job(_upstream(request, found, prepared, wishes, put))


async def understand(request: web.Request, route: Route, put: Put | None = None) -> Job:
    """Return what any other request asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_body(request)
    wishes = decode(body, RequestOptions)
    prepared = prepare(body, wishes, route)
    found = await with_probes(services, await resolve(services, wishes.model, route=route), prepared.route)
    found = found._replace(load=await load_of(services, found, wishes.context))
    return Job(_upstream(request, found, prepared, wishes, put))


def _upstream(
    request: web.Request, found: Found, prepared: Prepared, wishes: _Options, put: Put | None
) -> UpstreamRequest:
    (model, load), services = found, request.app[SERVICES]
    path = path_of(services, load.engine, model, prepared.route)
    name = name_in_answer(wishes.model, model)
    prepared = fit_to_engine(prepared, services.adapters[load.engine].descriptor, wishes, name=name)
    return UpstreamRequest(
        load=load,
        path=path,
        body=applied(prepared.body, model, prepared.route),
        model=wishes.model or "",
        terms=terms_of(wishes, prepared.route),
        form=prepared.form if put is None else put(prepared.form, prepared.route, found),
        streams=bool(wishes.stream),
        headers=passed_headers(request),
        gather=prepared.gather,
        prepare=preparer(prepared.route),
    )
