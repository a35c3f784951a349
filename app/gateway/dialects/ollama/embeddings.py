"""Ollama's two routes for embeddings, answered by the engine's OpenAI route; `/api/embed` gives vectors of length 1.

An empty input only loads the model.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.canonical.events import ContextOverflow
from app.gateway.dialects.form import utf8_json_reply
from app.gateway.dialects.keep_alive import keep_time_s, to_nanoseconds
from app.gateway.dialects.ollama import requests
from app.gateway.dialects.ollama.models import find_target, read_document
from app.gateway.dialects.ollama.requests import read_options
from app.gateway.dialects.ollama.wire import (
    OllamaEmbeddingsReply,
    OllamaEmbeddingsRequest,
    OllamaEmbedReply,
    OllamaEmbedRequest,
)
from app.gateway.dialects.raw_fields import value_of
from app.gateway.entry.bodies import call_off_loop
from app.gateway.exchange.engine.answers import TokenizeReply, decode_reply
from app.gateway.exchange.engine.vectors import (
    EngineVectors,
    Input,
    encode_embeddings_request,
    join_vectors,
    normalise_vector,
    read_vectors,
)
from app.gateway.exchange.handling import RequestJob, answer_request, load_for_context
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.exchange.translating import fetch_body
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.requested_model import name_in_answer
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import LeaseOptions
from engines.api import EngineAdapter, Route


def read_input(raw: msgspec.Raw) -> list[str]:
    """Return the texts to embed; an empty one alone is none. Raises BadRequest, as Ollama words it."""
    value = value_of(raw)
    if value is None or value == "":
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("invalid input type", code="invalid_value")
    return texts


def first_tokens(full_tokens: Sequence[int], plain: Sequence[int], *, context: int) -> list[int]:
    """Return as many tokens of a text as fit, with the marks that `full_tokens` has around `plain`, the text alone."""
    count = len(plain)
    starts = (at for at in range(len(full_tokens) - count + 1) if full_tokens[at : at + count] == plain)
    first = next(starts, None)
    if first is None:
        return list(full_tokens[:context])
    before, after = full_tokens[:first], full_tokens[first + count :]
    return [*before, *plain[: context - len(before) - len(after)], *after]


log = logging.getLogger(__name__)


class EmbeddingResult(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors, and the seconds until there was an engine."""

    vectors: EngineVectors = EngineVectors([])
    ready_s: float


def add_routes(router: web.UrlDispatcher) -> None:
    """Add `/api/embed` and `/api/embeddings`."""
    router.add_post("/api/embed", handle_embed)
    router.add_post("/api/embeddings", handle_embeddings)


async def handle_embed(request: web.Request) -> web.StreamResponse:
    """POST /api/embed."""
    return await answer_request(request, "ollama/embed", _prepare_embed)


async def handle_embeddings(request: web.Request) -> web.StreamResponse:
    """POST /api/embeddings, which `handle_embed` replaced: one text, one vector."""
    return await answer_request(request, "ollama/embeddings", _prepare_embeddings)


async def _prepare_embed(request: web.Request) -> RequestJob:
    services, embed_request = request.app[SERVICES], await read_document(request, OllamaEmbedRequest)
    texts = read_input(embed_request.input)
    if embed_request.dimensions is not None and embed_request.dimensions < 0:
        raise BadRequest("dimensions must not be negative", code="invalid_value")
    upstream, name = await _make_upstream(services, embed_request, texts)
    cut = _InputTruncation(services.adapters, upstream, texts) if embed_request.truncate is not False else None

    async def answer_embed(_request: web.Request, engines: EngineAccess, observation: Observation) -> web.Response:
        result = await _embed_texts(_EmbeddingWork(engines, upstream, observation, texts, cut))
        reply = OllamaEmbedReply(
            model=name,
            embeddings=[normalise_vector(row.embedding, embed_request.dimensions) for row in result.vectors.data],
            total_duration=to_nanoseconds(time.perf_counter() - observation.started_at),
            load_duration=to_nanoseconds(result.ready_s),
            prompt_eval_count=result.vectors.prompt_tokens,
            truncated_inputs=cut.count if cut else 0,
        )
        return utf8_json_reply(reply)

    return RequestJob(upstream, answer_embed)


async def _prepare_embeddings(request: web.Request) -> RequestJob:
    embeddings_request = await read_document(request, OllamaEmbeddingsRequest)
    texts = [embeddings_request.prompt] if embeddings_request.prompt else []
    upstream, _ = await _make_upstream(request.app[SERVICES], embeddings_request, texts)

    async def answer_embeddings(_request: web.Request, engines: EngineAccess, observation: Observation) -> web.Response:
        rows = (await _embed_texts(_EmbeddingWork(engines, upstream, observation, texts, None))).vectors.data
        return utf8_json_reply(OllamaEmbeddingsReply(rows[0].embedding if rows else []))

    return RequestJob(upstream, answer_embeddings)


async def _make_upstream(
    services: Services, embed_request: OllamaEmbedRequest | OllamaEmbeddingsRequest, texts: list[str]
) -> tuple[UpstreamRequest, str]:
    """Return what asks the engine, and what the answer calls the model."""
    target = await with_probes(
        services.library,
        services.shared_work,
        services.events,
        await find_target(services, embed_request.model or "", Route.EMBEDDINGS),
        Route.EMBEDDINGS,
    )
    name = name_in_answer(embed_request.model, target.model)
    options, keep_s = read_options(embed_request.options), keep_time_s(embed_request)
    path = routes_of(services.adapters, services.library, target.load.engine, target.model).get(Route.EMBEDDINGS)
    if path is None or not (target.model.embeds or target.model.attached):
        raise requests.ability_error(name, "embedding")
    body = encode_embeddings_request(texts, model=target.model.name)
    upstream = await call_off_loop(
        body,
        UpstreamRequest,
        load=await load_for_context(services, target, options.num_ctx),
        path=path,
        body=body,
        model=target.model.name,
        terms=LeaseOptions(keep_s=keep_s, context=options.num_ctx),
    )
    return upstream, name


class _EmbeddingWork(NamedTuple):
    """What embeds some texts."""

    engines: EngineAccess
    upstream: UpstreamRequest
    observation: Observation
    texts: list[str]
    cut: "_InputTruncation | None"

    @property
    def ready_s(self) -> float:
        """Seconds until there was an engine."""
        return (self.observation.leased_at or time.perf_counter()) - self.observation.started_at

    async def fetch_vectors(self, upstream: UpstreamRequest) -> EngineVectors:
        """Return what an engine makes of a request."""
        return read_vectors(await fetch_body(self.engines, upstream, self.observation))


async def _embed_texts(work: _EmbeddingWork) -> EmbeddingResult:
    if not work.texts:
        async with work.engines.supervisor.lease(work.upstream.load, work.upstream.terms):
            work.observation.outcome = ExchangeOutcome.OK
        return EmbeddingResult(ready_s=work.ready_s)
    try:
        return EmbeddingResult(vectors=await work.fetch_vectors(work.upstream), ready_s=work.ready_s)
    except ContextOverflow as error:
        if work.cut is None or not work.cut.is_possible or not error.context:
            raise
        shorter = await work.cut.shorten_inputs(work, error.context - 1)  # llama.cpp refuses some prompts that just fit
    vectors = join_vectors([await work.fetch_vectors(upstream) for upstream in shorter])
    return EmbeddingResult(vectors=vectors, ready_s=work.ready_s)


class _InputTruncation:
    """Cuts the inputs of a request to what the model takes, by the engine's own tokens."""

    def __init__(self, adapters: Mapping[str, EngineAdapter], upstream: UpstreamRequest, texts: list[str]) -> None:
        self._upstream, self._texts = upstream, texts
        self._path = adapters[upstream.load.engine].descriptor.routes.get(Route.TOKENIZE)
        self.count = 0
        """How many inputs were cut."""

    @property
    def is_possible(self) -> bool:
        """Whether the engine tells tokens."""
        return self._path is not None

    async def shorten_inputs(self, work: _EmbeddingWork, context: int) -> list[UpstreamRequest]:
        """Return what asks for each input on its own, none longer than that: not every engine mixes text and tokens."""
        inputs: list[Input] = [await self._shorten_text(work, text, context) for text in self._texts]
        self.count = sum(not isinstance(text, str) for text in inputs)
        log.info("%d inputs did not fit and are cut", self.count, extra={"model": self._upstream.model})
        bodies = [encode_embeddings_request([text], model=self._upstream.model) for text in inputs]
        return [msgspec.structs.replace(self._upstream, body=body) for body in bodies]

    async def _shorten_text(self, work: _EmbeddingWork, text: str, context: int) -> Input:
        if len(text.encode()) < context:  # a token is a byte at least, and a mark is added before and after
            return text
        full_tokens = await self._fetch_tokens(work, text, has_marks=True)
        if len(full_tokens) <= context:
            return text
        return first_tokens(full_tokens, await self._fetch_tokens(work, text, has_marks=False), context=context)

    async def _fetch_tokens(self, work: _EmbeddingWork, text: str, *, has_marks: bool) -> list[int]:
        body = msgspec.json.encode({"model": self._upstream.model, "content": text, "add_special": has_marks})
        terms = msgspec.structs.replace(self._upstream.terms, takes_slot=False)
        upstream = msgspec.structs.replace(self._upstream, path=self._path or "", body=body, terms=terms)
        return decode_reply(await fetch_body(work.engines, upstream, work.observation), TokenizeReply).tokens
