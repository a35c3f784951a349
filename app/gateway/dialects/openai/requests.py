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

from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.gateway.canonical.assistant_prefill import NOTHING
from app.gateway.canonical.events import AnswerFailed, Event, aggregate_events
from app.gateway.canonical.request import ConversationRequest
from app.gateway.dialects.form import AnswerForm, StreamEditor, json_reply
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.openai import checks, embeddings, infill, multi_choice, rerank
from app.gateway.dialects.openai.answers import CHAT, ONE_CALL, OpenAICompletionForm
from app.gateway.dialects.openai.chat_request import (
    OpenAIChatRequest,
    is_translatable,
    to_canonical_request,
)
from app.gateway.dialects.openai.checks import ChoiceCount, OpenAIChatOptions, OpenAICompletionOptions
from app.gateway.dialects.openai.form import OPENAI, OpenAIForm
from app.gateway.dialects.openai.record import OPENAI_DIALECT
from app.gateway.dialects.openai.sounds import MediaForm
from app.gateway.dialects.openai.stream import (
    DONE,
    OpenAIAnswerInfo,
    OpenAIChunkEncoder,
    add_usage,
    build_completion,
    counts_chunk,
)
from app.gateway.dialects.raw_fields import ABSENT, is_set
from app.gateway.entry.bodies import call_off_loop, decode_body, read_body
from app.gateway.exchange.capability_fallback import (
    can_hear,
    can_pass_bytes,
    checks_calls,
    running_descriptor,
    with_plan,
)
from app.gateway.exchange.client_stream import KeepAlivePlan
from app.gateway.exchange.engine.capability import Fulfilment, RequestNeed, cannot_error, fulfilment_of, needs_of
from app.gateway.exchange.handling import (
    ENGINE_ACCESS,
    ROUTE_VERBS,
    RequestJob,
    client_header_lines,
    engine_path,
    lease_options,
    load_for_context,
)
from app.gateway.exchange.infilling import PREPARERS
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.presets import apply_preset
from app.gateway.exchange.translating import StreamCourse, StreamPart, stream_parts, translate_whole
from app.gateway.exchange.upstream import EngineAccess, Gather, UpstreamRequest
from app.gateway.guide.questions import guide_question
from app.gateway.library.endpoint_routes import with_probes
from app.gateway.loading.able_models import resolve_able_model
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.requested_model import MEDIA, ResolvedModel, name_in_answer
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LeaseOptions
from engines.api import Descriptor, Feature, Route

_WRITING_ROUTES = frozenset({Route.CHAT, Route.COMPLETIONS})


class OpenAIRequestOptions(ModelLoadFields, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None
    prompt: msgspec.Raw = ABSENT
    n: ChoiceCount | None = None
    suffix: str | None = None
    """Of a completion: what comes after the text to be written."""


_Options = OpenAIRequestOptions | OpenAIChatOptions


class OpenAIEngineRequest(msgspec.Struct, frozen=True):
    """What the engine is sent, where, and what becomes of its answer. `source` is the body as it came."""

    route: Route
    body: bytes
    source: bytes
    form: OpenAIForm = OPENAI
    gather: Gather | None = None


def read_chat(body: bytes) -> tuple[OpenAIChatOptions, OpenAIEngineRequest]:
    """Return what of a chat concerns us, and what it comes to. Raises BadRequest for what no engine would heed."""
    options = decode_body(body, OpenAIChatOptions)
    form = ONE_CALL if options.parallel_tool_calls is False else CHAT
    return options, OpenAIEngineRequest(Route.CHAT, checks.check_chat(body, options), body, form)


def read_request(body: bytes, route: Route) -> tuple[OpenAIRequestOptions, OpenAIEngineRequest]:
    """Return the same of any other request. Raises BadRequest for what no engine would heed."""
    options = decode_body(body, OpenAIRequestOptions)
    return options, _prepare_request(body, options, route)


def _prepare_request(body: bytes, options: OpenAIRequestOptions, route: Route) -> OpenAIEngineRequest:
    if route is Route.COMPLETIONS:
        return _prepare_completion(body, options)
    if route is Route.EMBEDDINGS:
        vector_request = decode_body(body, embeddings.OpenAIEmbeddingsRequest)
        return OpenAIEngineRequest(
            route, embeddings.for_engine(body, vector_request), body, embeddings.form_of(vector_request)
        )
    if route is Route.RERANK:
        rerank_request = decode_body(body, rerank.RerankRequest)
        return OpenAIEngineRequest(route, rerank.for_engine(body, rerank_request), body, rerank.form_of(rerank_request))
    return OpenAIEngineRequest(route, body, body, MediaForm(does=ROUTE_VERBS[route]) if route in MEDIA else OPENAI)


def fit_to_engine(
    engine_request: OpenAIEngineRequest, engine: Descriptor, options: _Options, *, model: ModelInfo
) -> OpenAIEngineRequest:
    """Return it as an engine with ways of its own has to be asked and read."""
    is_chat = isinstance(options, OpenAIChatOptions)
    if isinstance(options, OpenAIChatOptions) and options.grammar is not ABSENT and is_set(options.grammar):
        body = checks.with_grammar_field(engine_request.body, engine)
        engine_request = msgspec.structs.replace(engine_request, body=body)
    if isinstance(engine_request.form, infill.SuffixCompletionForm):
        named_form = msgspec.structs.replace(engine_request.form, model=name_in_answer(options.model, model))
        return msgspec.structs.replace(engine_request, form=named_form)
    if is_chat and options.n is None and (options.stream or not engine.repeats_prefill):
        return engine_request  # as with most
    each = int(options.n or 1)
    is_several = engine_request.route in _WRITING_ROUTES and (
        each > 1 or (isinstance(options, OpenAIRequestOptions) and _count_prompts(options.prompt) > 1)
    )
    if engine.counts_each and is_several and not options.stream:
        gather = partial(multi_choice.gather_stream, each=each)
        return msgspec.structs.replace(engine_request, body=multi_choice.as_stream(engine_request.body), gather=gather)
    form = _form_with_prefill(engine_request.form, engine, engine_request.source, options)
    if engine.counts_each and is_several:
        form = msgspec.structs.replace(form, each=each)
    return engine_request if form is engine_request.form else msgspec.structs.replace(engine_request, form=form)


def _count_prompts(raw: msgspec.Raw) -> int:
    """Return how many prompts a completion has: a list of tokens is one."""
    prompts = msgspec.json.decode(raw) if bytes(raw).startswith(b"[") else []
    return len(prompts) if all(isinstance(prompt, str | list) for prompt in prompts) else 1


def _form_with_prefill(form: OpenAIForm, engine: Descriptor, body: bytes, options: _Options) -> OpenAIForm:
    """Return the form of an answer that may go on with the request's last turn."""
    if not engine.repeats_prefill or not isinstance(options, OpenAIChatOptions):
        return form
    prefill = checks.prefill_of(body, options)
    return form if prefill == NOTHING else msgspec.structs.replace(form, prefilled=prefill)


def _prepare_completion(body: bytes, options: OpenAIRequestOptions) -> OpenAIEngineRequest:
    completion = decode_body(body, OpenAICompletionOptions)
    engine_body = checks.check_completion(body, completion)
    if options.suffix:
        infill_request = decode_body(body, infill.SuffixCompletionRequest)
        form = infill.SuffixCompletionForm(includes_usage=completion.includes_usage)
        return OpenAIEngineRequest(Route.INFILL, infill.for_infill(engine_body, infill_request), body, form)
    texts = OpenAICompletionForm(includes_usage=completion.includes_usage, is_only_chosen=completion.is_only_chosen)
    return OpenAIEngineRequest(Route.COMPLETIONS, engine_body, body, texts)


_ALL_FEATURES = frozenset(
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


async def _can_pass(services: Services, target: ResolvedModel, body: bytes, options: OpenAIChatOptions) -> bool:
    """Tell whether a request's bytes may go to the engine as they are. Raises BadRequest for what cannot be read."""
    if await _is_guide_question(target.model, body):
        return False
    descriptor = running_descriptor(services.adapters, services.supervisor, target.load)
    if options.thinking_budget_tokens is not None and Feature.THINKING_BUDGET not in descriptor.features:
        raise cannot_error(RequestNeed.THINKING_BUDGET, descriptor.name)
    if descriptor.features >= _ALL_FEATURES:
        if not options.has_tools:
            return True
        if checks_calls(services, target) and await call_off_loop(body, is_translatable, body):
            return False
        return await can_pass_bytes(services, target, has_tools=True)
    if not await can_pass_bytes(services, target, has_tools=options.has_tools):
        return False
    chat_request = await call_off_loop(body, decode_body, body, OpenAIChatRequest)
    request_needs = [
        *needs_of(await call_off_loop(body, to_canonical_request, chat_request)),
        *([RequestNeed.CHOICES] if chat_request.choices > 1 else []),
    ]
    is_deaf = RequestNeed.SOUND in request_needs and not can_hear(target, descriptor)
    return not is_deaf and all(
        fulfilment_of(need, descriptor.features) in {Fulfilment.ENGINE, Fulfilment.PASSED_ON} for need in request_needs
    )


async def _is_guide_question(model: ModelInfo, body: bytes) -> bool:
    """Tell whether the Guide looks the answer up. What cannot be read is refused on the engine's way, in its words."""
    if not model.is_builtin or not await call_off_loop(body, is_translatable, body):
        return False
    try:
        chat_request = await call_off_loop(body, decode_body, body, OpenAIChatRequest)
        conversation = await call_off_loop(body, to_canonical_request, chat_request)
    except BadRequest:
        return False
    return chat_request.choices == 1 and bool(guide_question(model, conversation))


class _ChatTranslation(NamedTuple):
    """A request for a chat: its body, what the answer calls the model, how to put the answer, and its terms."""

    body: bytes
    name: str
    form: AnswerForm | None = None
    terms: LeaseOptions = LeaseOptions()


async def _translate_chat(services: Services, target: ResolvedModel, chat: _ChatTranslation) -> RequestJob:
    """Return what asks the engine for a chat, and answers with it. Raises BadRequest for what cannot be asked."""
    chat_request = await call_off_loop(chat.body, decode_body, chat.body, OpenAIChatRequest)
    conversation = await call_off_loop(chat.body, to_canonical_request, chat_request)
    blank = UpstreamRequest(
        load=target.load,
        path=engine_path(services.adapters, services.library, target.load.engine, target.model, Route.CHAT),
        body=b"",
        model=target.model.name,
        terms=chat.terms,
        form=chat.form or OPENAI,
    )
    upstreams = [
        await with_plan(services, blank, target, each)
        for each in _request_per_choice(conversation, chat_request.choices)
    ]
    about = OpenAIAnswerInfo(id=f"chatcmpl-{secrets.token_hex(12)}", model=chat.name, created=int(time.time()))
    answers = _ChatResponder(upstreams=tuple(upstreams), about=about, includes_usage=chat_request.includes_usage)
    answer = answers.answer_stream if chat_request.stream else answers.answer_whole
    return RequestJob(upstreams[0], answer, choices=answers.upstreams)


def _request_per_choice(request: ConversationRequest, count: int) -> Iterator[ConversationRequest]:
    """Yield the request once for every answer; with a seed, each has one of its own, or all would be the same."""
    for number in range(count):
        seed = None if request.sampling.seed is None else request.sampling.seed + number
        sampling = msgspec.structs.replace(request.sampling, seed=seed)
        yield msgspec.structs.replace(request, sampling=sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChatResponder:
    """How a request understood is answered: one upstream request for every answer it wants."""

    upstreams: tuple[UpstreamRequest, ...]
    about: OpenAIAnswerInfo
    includes_usage: bool

    async def answer_whole(
        self, _request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        """Answer at once."""
        answers = [
            aggregate_events(await translate_whole(engines, upstream, observation)) for upstream in self.upstreams
        ]
        reply = build_completion(self.about, answers)
        if isinstance(reply, AnswerFailed):
            return json_reply(OPENAI_DIALECT.error_document(reply), reply.status)
        body = self.upstreams[0].form.whole(msgspec.json.encode(reply))
        return web.Response(body=body, content_type="application/json")

    async def answer_stream(
        self, request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        """Answer piece by piece, one choice after another."""
        edit = self.upstreams[0].form.editor()
        encoders = [OpenAIChunkEncoder(self.about, index=index) for index, _ in enumerate(self.upstreams)]
        parts = [
            StreamPart(upstream, _ChunkEditor(encoder, edit))
            for upstream, encoder in zip(self.upstreams, encoders, strict=True)
        ]

        def final_chunk() -> bytes:
            total = encoders[0].usage
            for encoder in encoders[1:]:
                total = add_usage(total, encoder.usage)
            return edit((counts_chunk(self.about, total) if self.includes_usage else b"") + DONE)

        course = StreamCourse(keep_alive=KeepAlivePlan(first=parts[0].encoder.begin), last=final_chunk)
        return await stream_parts(request, engines, parts, observation, course)


class _ChunkEditor:
    """An encoder whose bytes are mended on their way, as an engine's own would be."""

    def __init__(self, encoder: OpenAIChunkEncoder, edit: StreamEditor) -> None:
        self._encoder = encoder
        self._edit = edit

    def begin(self) -> bytes:
        """Return what comes before everything else."""
        return self._edit(self._encoder.begin())

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are."""
        return self._edit(self._encoder.feed(events))


FormWrapper = Callable[[OpenAIForm, Route, ResolvedModel], AnswerForm]
"""What becomes of an answer in OpenAI's form on its way to a client of another dialect."""


async def prepare_chat_job(request: web.Request, put: FormWrapper | None = None) -> RequestJob:
    """Return what a chat asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_body(request)
    options, engine_request = await call_off_loop(body, read_chat, body)
    target = await resolve_model(services, options.model)
    if options.stream:
        services.connections.dial_ahead(services.supervisor, target.load.source.name)
    if options.context is not None:
        target = target._replace(load=await load_for_context(services, target, options.context))

    async def translate() -> RequestJob:
        form = None if put is None else put(engine_request.form, Route.CHAT, target)
        name = name_in_answer(options.model, target.model)
        translation = _ChatTranslation(body, name, form, lease_options(options, Route.CHAT))
        return await _translate_chat(services, target, translation)

    is_unreadable = target.load.source.name in request.app[ENGINE_ACCESS].unreadable
    if is_unreadable and await call_off_loop(body, is_translatable, body):
        return await translate()
    if not await _can_pass(services, target, body, options):
        return await translate()
    upstream = await call_off_loop(body, _build_upstream, request, target, engine_request, options, put)
    return RequestJob(upstream, detour=translate)


async def prepare_job(request: web.Request, route: Route, put: FormWrapper | None = None) -> RequestJob:
    """Return what any other request asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_body(request)
    options, engine_request = await call_off_loop(body, read_request, body, route)
    resolve = resolve_able_model if route in MEDIA else resolve_model
    needed_route = Route.INFILL if engine_request.route is Route.INFILL else route
    target = await with_probes(
        services.library,
        services.shared_work,
        services.events,
        await resolve(services, options.model, route=needed_route),
        engine_request.route,
    )
    target = target._replace(load=await load_for_context(services, target, options.context))
    return RequestJob(await call_off_loop(body, _build_upstream, request, target, engine_request, options, put))


def _build_upstream(
    request: web.Request,
    target: ResolvedModel,
    engine_request: OpenAIEngineRequest,
    options: _Options,
    put: FormWrapper | None,
) -> UpstreamRequest:
    (model, load), services = target, request.app[SERVICES]
    path = engine_path(services.adapters, services.library, load.engine, model, engine_request.route)
    descriptor = services.adapters[load.engine].descriptor
    engine_request = fit_to_engine(engine_request, descriptor, options, model=model)
    return UpstreamRequest(
        load=load,
        path=path,
        body=apply_preset(engine_request.body, model, engine_request.route),
        model=options.model or "",
        terms=lease_options(options, engine_request.route),
        form=engine_request.form if put is None else put(engine_request.form, engine_request.route, target),
        streams=bool(options.stream),
        headers=client_header_lines(request),
        gather=engine_request.gather,
        prepare=PREPARERS.get(engine_request.route),
        # "The token count of your prompt plus max_tokens cannot exceed the model's context length" (OpenAI's reference)
        keeps_limit=engine_request.route is Route.COMPLETIONS,
        is_media=engine_request.route in MEDIA,
    )
