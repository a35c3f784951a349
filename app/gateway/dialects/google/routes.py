"""Google's routes. Engines do not speak this dialect: every request is translated, to the engine's OpenAI routes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.canonical.events import AnswerFailed, aggregate_events
from app.gateway.dialects.form import EVENT_STREAM_HEADERS, utf8_json_reply
from app.gateway.dialects.google.models import list_models, show_model
from app.gateway.dialects.google.record import GOOGLE_DIALECT, PREFIXES
from app.gateway.dialects.google.requests import text_to_embed, to_canonical_request, to_counted_request
from app.gateway.dialects.google.stream import ArrayFraming, EventFraming, GoogleEncoder, GoogleReplyForm, build_reply
from app.gateway.dialects.google.wire import (
    BatchEmbedRequest,
    CountTokensRequest,
    EmbedContentRequest,
    GenerateContentRequest,
    read_document,
)
from app.gateway.entry.bodies import call_off_loop, read_body
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.client_stream import KeepAlivePlan
from app.gateway.exchange.engine.vectors import encode_embeddings_request, normalise_vector, read_vectors
from app.gateway.exchange.handling import RequestJob, answer_request, engine_path
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.token_count import token_counter
from app.gateway.exchange.translating import StreamCourse, StreamPart, fetch_body, stream_parts, translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import with_probes
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.requested_model import name_in_answer
from app.gateway.services import SERVICES
from app.supervisor.policy import LeaseOptions
from engines.api import Route

_ONLY_HEAD = KeepAlivePlan(alive=bytes)
"""Some of its readers take every line for data."""
_ARRAY_HEADERS = {**EVENT_STREAM_HEADERS, "Content-Type": "application/json; charset=UTF-8"}
_MODEL = "{id:.+}"


def add_routes(router: web.UrlDispatcher) -> None:
    """Add Google's routes: what is done with a model stands behind its name, after a colon. /v1/models is OpenAI's."""
    router.add_get("/v1beta/models", list_models)
    router.add_get(f"/v1beta/models/{_MODEL}", show_model)
    for verb, handler in (
        ("generateContent", handle_generate),
        ("streamGenerateContent", handle_stream),
        ("countTokens", handle_count),
        ("embedContent", handle_embed),
        ("batchEmbedContents", handle_batch),
    ):
        for prefix in PREFIXES:
            router.add_post(f"{prefix}/models/{_MODEL}:{verb}", handler)


async def handle_generate(request: web.Request) -> web.StreamResponse:
    """POST /v1beta/models/{model}:generateContent."""
    return await answer_request(request, "google/generate", partial(_prepare_answer, streams=False))


async def handle_stream(request: web.Request) -> web.StreamResponse:
    """POST /v1beta/models/{model}:streamGenerateContent."""
    return await answer_request(request, "google/generate", partial(_prepare_answer, streams=True))


async def handle_count(request: web.Request) -> web.StreamResponse:
    """POST /v1beta/models/{model}:countTokens."""
    return await answer_request(request, "google/count", _prepare_count)


async def handle_embed(request: web.Request) -> web.StreamResponse:
    """POST /v1beta/models/{model}:embedContent."""
    return await answer_request(request, "google/embed", _prepare_embedding)


async def handle_batch(request: web.Request) -> web.StreamResponse:
    """POST /v1beta/models/{model}:batchEmbedContents."""
    return await answer_request(request, "google/embed", _prepare_batch)


async def _prepare_answer(request: web.Request, *, streams: bool) -> RequestJob:
    services, body, name = request.app[SERVICES], await read_body(request), request.match_info["id"]
    document = await call_off_loop(body, read_document, body, GenerateContentRequest)
    work = await call_off_loop(body, to_canonical_request, document)
    target = await resolve_model(services, name)
    if streams:
        services.connections.dial_ahead(services.supervisor, target.load.source.name)
    blank = UpstreamRequest(
        load=target.load,
        path=engine_path(services.adapters, services.library, target.load.engine, target.model, Route.CHAT),
        body=b"",
        model=target.model.name,
    )
    responder = _GoogleResponder(
        upstream=await with_plan(services, blank, target, work),
        form=GoogleReplyForm(
            model=name_in_answer(name, target.model),
            shows_thoughts=document.generation_config.thinking_config.include_thoughts,
        ),
        is_sse=request.query.get("alt") == "sse",
    )
    return RequestJob(responder.upstream, responder.answer_stream if streams else responder.answer_whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoogleResponder:
    """How an answer is put."""

    upstream: UpstreamRequest
    form: GoogleReplyForm
    is_sse: bool

    async def answer_whole(
        self, _request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.Response:
        """Answer at once."""
        reply = build_reply(aggregate_events(await translate_whole(engines, self.upstream, observation)), self.form)
        if isinstance(reply, AnswerFailed):
            return utf8_json_reply(GOOGLE_DIALECT.error_document(reply), reply.status)
        return utf8_json_reply(reply)

    async def answer_stream(
        self, request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        """Answer piece by piece."""
        encoder = GoogleEncoder(self.form, EventFraming() if self.is_sse else ArrayFraming())
        headers = EVENT_STREAM_HEADERS if self.is_sse else _ARRAY_HEADERS
        course = StreamCourse(keep_alive=_ONLY_HEAD, headers=headers)
        return await stream_parts(request, engines, [StreamPart(self.upstream, encoder)], observation, course)


async def _prepare_count(request: web.Request) -> RequestJob:
    services, body = request.app[SERVICES], await read_body(request)
    document = await call_off_loop(body, read_document, body, CountTokensRequest)
    work = await call_off_loop(body, to_counted_request, document)
    target = await resolve_model(services, request.match_info["id"])
    counter = await token_counter(services, target, work, LeaseOptions(takes_slot=False))

    async def answer_count(
        _request: web.Request, engines: EngineAccess, observation: Observation
    ) -> web.StreamResponse:
        count = await counter.count(engines, observation)
        return count.mark_estimate(utf8_json_reply({"totalTokens": count.tokens}))

    return RequestJob(counter.upstream, answer_count)


async def _prepare_embedding(request: web.Request) -> RequestJob:
    body = await read_body(request)
    document = await call_off_loop(body, read_document, body, EmbedContentRequest)
    return await _make_embedding_job(request, [document], is_batch=False)


async def _prepare_batch(request: web.Request) -> RequestJob:
    body = await read_body(request)
    document = await call_off_loop(body, read_document, body, BatchEmbedRequest)
    if not document.requests:
        raise BadRequest("`requests` must not be empty.", code="invalid_value")
    return await _make_embedding_job(request, document.requests, is_batch=True)


async def _make_embedding_job(
    request: web.Request, embeddings: Sequence[EmbedContentRequest], *, is_batch: bool
) -> RequestJob:
    services, texts = request.app[SERVICES], list(map(text_to_embed, embeddings))
    resolved_model = await resolve_model(services, request.match_info["id"], route=Route.EMBEDDINGS)
    target = await with_probes(
        services.library, services.shared_work, services.events, resolved_model, Route.EMBEDDINGS
    )
    body = encode_embeddings_request(texts, model=target.model.name)
    upstream = await call_off_loop(
        body,
        UpstreamRequest,
        load=target.load,
        path=engine_path(services.adapters, services.library, target.load.engine, target.model, Route.EMBEDDINGS),
        body=body,
        model=target.model.name,
    )

    async def answer_vectors(_request: web.Request, engines: EngineAccess, observation: Observation) -> web.Response:
        vectors = read_vectors(await fetch_body(engines, upstream, observation))
        documents = [
            {"values": _cut_vector(row.embedding, item.dimensions)}
            for row, item in zip(vectors.data, embeddings, strict=True)
        ]
        return utf8_json_reply({"embeddings": documents} if is_batch else {"embedding": documents[0]})

    return RequestJob(upstream, answer_vectors)


def _cut_vector(vector: list[float], dimensions: int | None) -> list[float]:
    if dimensions is None:
        return vector
    if not 1 <= dimensions <= len(vector):
        raise BadRequest(
            f"`outputDimensionality`: this model's vectors have {len(vector)} dimensions.", code="invalid_value"
        )
    return normalise_vector(vector, dimensions)
