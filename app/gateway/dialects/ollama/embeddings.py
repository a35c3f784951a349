"""Ollama's two routes for embeddings, answered by the engine's OpenAI route; `/api/embed` gives vectors of length 1.

An empty input only loads the model.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.canonical.overflow import ContextOverflow
from app.gateway.dialects.keep_alive import kept_s, nanoseconds
from app.gateway.dialects.ollama import requests
from app.gateway.dialects.ollama.models import find, read_document
from app.gateway.dialects.ollama.options import read_options
from app.gateway.dialects.ollama.wire import EmbeddingsReply, EmbeddingsRequest, EmbedReply, EmbedRequest
from app.gateway.dialects.raw_fields import value_of
from app.gateway.dialects.replies import utf8_json_reply
from app.gateway.exchange.engine.answers import Tokens, understood
from app.gateway.exchange.handling import Job, handle, load_of
from app.gateway.exchange.observer import Observation, Outcome
from app.gateway.exchange.translating import fetch
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.requested_model import name_in_answer
from app.gateway.services import SERVICES, Services
from app.supervisor.policy import Terms
from engines.api import Adapter, Route


class _Vector(msgspec.Struct, frozen=True):
    embedding: list[float]
    index: int = 0


class _Counts(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None


class Vectors(msgspec.Struct, frozen=True):
    """An engine's answer."""

    data: list[_Vector]
    usage: _Counts | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens read; 0 if the engine does not say."""
        return (self.usage.prompt_tokens if self.usage else None) or 0


def read_input(raw: msgspec.Raw) -> list[str]:
    """Return the texts to embed; an empty one alone is none. Raises BadRequest, as Ollama words it."""
    value = value_of(raw)
    if value is None or value == "":
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("invalid input type", code="invalid_value")
    return texts


Input = str | list[int]
"""A text, or its tokens."""


def body_for(texts: Sequence[Input], *, model: str) -> bytes:
    """Return the request for the engine."""
    return msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})


def first_tokens(marked: Sequence[int], plain: Sequence[int], *, context: int) -> list[int]:
    """Return as many tokens of a text as fit, with the marks that `marked` has around `plain`, the text alone."""
    count = len(plain)
    starts = (at for at in range(len(marked) - count + 1) if marked[at : at + count] == plain)
    first = next(starts, None)
    if first is None:
        return list(marked[:context])
    before, after = marked[:first], marked[first + count :]
    return [*before, *plain[: context - len(before) - len(after)], *after]


def read_vectors(body: bytes) -> Vectors:
    """Return the vectors in the order of the texts. Raises EngineFailed for what cannot be read."""
    said = understood(body, Vectors)
    return Vectors(sorted(said.data, key=lambda one: one.index), said.usage)


def joined(answers: Sequence[Vectors]) -> Vectors:
    """Return several answers as one."""
    count = sum(answer.prompt_tokens for answer in answers)
    return Vectors([one for answer in answers for one in answer.data], _Counts(count))


def normalised(vector: Sequence[float], dimensions: int | None = None) -> list[float]:
    """Return the vector's first `dimensions`, scaled to length 1; one of zeros stays so."""
    kept = vector[:dimensions] if dimensions else vector
    length = math.sqrt(math.fsum(value * value for value in kept))
    return [value / length for value in kept] if length else list(kept)


log = logging.getLogger(__name__)


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors, and the seconds until there was an engine."""

    vectors: Vectors = Vectors([])
    ready_s: float


def add_routes(app: web.Application) -> None:
    """Add `/api/embed` and `/api/embeddings`."""
    app.router.add_post("/api/embed", embed)
    app.router.add_post("/api/embeddings", embeddings)


async def embed(request: web.Request) -> web.StreamResponse:
    """POST /api/embed."""
    return await handle(request, "ollama/embed", _understand_embed)


async def embeddings(request: web.Request) -> web.StreamResponse:
    """POST /api/embeddings, which `embed` replaced: one text, one vector."""
    return await handle(request, "ollama/embeddings", _understand_embeddings)


async def _understand_embed(request: web.Request) -> Job:
    services, sent = request.app[SERVICES], await read_document(request, EmbedRequest)
    texts = read_input(sent.input)
    if sent.dimensions is not None and sent.dimensions < 0:
        raise BadRequest("dimensions must not be negative", code="invalid_value")
    upstream, name = await _upstream(services, sent, texts)
    cut = _Cut(services.adapters, upstream, texts) if sent.truncate is not False else None

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
        made = await _embedded(_Embedding(engines, upstream, observed, texts, cut))
        reply = EmbedReply(
            model=name,
            embeddings=[normalised(row.embedding, sent.dimensions) for row in made.vectors.data],
            total_duration=nanoseconds(time.perf_counter() - observed.started_at),
            load_duration=nanoseconds(made.ready_s),
            prompt_eval_count=made.vectors.prompt_tokens,
            truncated_inputs=cut.count if cut else 0,
        )
        return utf8_json_reply(reply)

    return Job(upstream, answer)


async def _understand_embeddings(request: web.Request) -> Job:
    sent = await read_document(request, EmbeddingsRequest)
    texts = [sent.prompt] if sent.prompt else []
    upstream, _ = await _upstream(request.app[SERVICES], sent, texts)

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
        rows = (await _embedded(_Embedding(engines, upstream, observed, texts, None))).vectors.data
        return utf8_json_reply(EmbeddingsReply(rows[0].embedding if rows else []))

    return Job(upstream, answer)


async def _upstream(
    services: Services, sent: EmbedRequest | EmbeddingsRequest, texts: list[str]
) -> tuple[UpstreamRequest, str]:
    """Return what asks the engine, and what the answer calls the model."""
    found = await with_probes(services, await find(services, sent.model or "", Route.EMBEDDINGS), Route.EMBEDDINGS)
    name = name_in_answer(sent.model, found.model)
    options, keep_s = read_options(sent.options), kept_s(sent)
    path = routes_of(services.adapters, services.library, found.load.engine, found.model).get(Route.EMBEDDINGS)
    if path is None or not (found.model.embeds or found.model.attached):
        raise requests.cannot(name, "embedding")
    upstream = UpstreamRequest(
        load=await load_of(services, found, options.num_ctx),
        path=path,
        body=body_for(texts, model=found.model.name),
        model=found.model.name,
        terms=Terms(keep_s=keep_s, context=options.num_ctx),
    )
    return upstream, name


class _Embedding(NamedTuple):
    """What embeds some texts."""

    engines: EngineAccess
    upstream: UpstreamRequest
    observed: Observation
    texts: list[str]
    cut: "_Cut | None"

    @property
    def ready_s(self) -> float:
        """Seconds until there was an engine."""
        return (self.observed.leased_at or time.perf_counter()) - self.observed.started_at

    async def vectors(self, upstream: UpstreamRequest) -> Vectors:
        """Return what an engine makes of a request."""
        return read_vectors(await fetch(self.engines, upstream, self.observed))


async def _embedded(work: _Embedding) -> Embedded:
    if not work.texts:
        async with work.engines.supervisor.lease(work.upstream.load, work.upstream.terms):
            work.observed.outcome = Outcome.OK
        return Embedded(ready_s=work.ready_s)
    try:
        return Embedded(vectors=await work.vectors(work.upstream), ready_s=work.ready_s)
    except ContextOverflow as error:
        if work.cut is None or not work.cut.is_possible or not error.context:
            raise
        shorter = await work.cut.to(work, error.context - 1)  # llama.cpp refuses some prompts that just fit
    vectors = joined([await work.vectors(upstream) for upstream in shorter])
    return Embedded(vectors=vectors, ready_s=work.ready_s)


class _Cut:
    """Cuts the inputs of a request to what the model takes, by the engine's own tokens."""

    def __init__(self, adapters: Mapping[str, Adapter], upstream: UpstreamRequest, texts: list[str]) -> None:
        self._upstream, self._texts = upstream, texts
        self._path = adapters[upstream.load.engine].descriptor.routes.get(Route.TOKENIZE)
        self.count = 0
        """How many inputs were cut."""

    @property
    def is_possible(self) -> bool:
        """Whether the engine tells tokens."""
        return self._path is not None

    async def to(self, work: _Embedding, context: int) -> list[UpstreamRequest]:
        """Return what asks for each input on its own, none longer than that: not every engine mixes text and tokens."""
        inputs: list[Input] = [await self._shortened(work, text, context) for text in self._texts]
        self.count = sum(not isinstance(text, str) for text in inputs)
        log.info("%d inputs did not fit and are cut", self.count, extra={"model": self._upstream.model})
        bodies = [body_for([text], model=self._upstream.model) for text in inputs]
        return [msgspec.structs.replace(self._upstream, body=body) for body in bodies]

    async def _shortened(self, work: _Embedding, text: str, context: int) -> Input:
        if len(text.encode()) < context:  # a token is a byte at least, and a mark is added before and after
            return text
        marked = await self._tokens(work, text, has_marks=True)
        if len(marked) <= context:
            return text
        return first_tokens(marked, await self._tokens(work, text, has_marks=False), context=context)

    async def _tokens(self, work: _Embedding, text: str, *, has_marks: bool) -> list[int]:
        body = msgspec.json.encode({"model": self._upstream.model, "content": text, "add_special": has_marks})
        terms = msgspec.structs.replace(self._upstream.terms, takes_slot=False)
        upstream = msgspec.structs.replace(self._upstream, path=self._path or "", body=body, terms=terms)
        return understood(await fetch(work.engines, upstream, work.observed), Tokens).tokens
