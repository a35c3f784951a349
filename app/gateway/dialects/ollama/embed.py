"""Ollama's two routes for embeddings, answered by the engine's OpenAI route. An empty input only loads the model."""

import logging
import time

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, RoundhouseError
from app.gateway.canonical.overflow import ContextOverflow
from app.gateway.dialects.ollama import abilities
from app.gateway.dialects.ollama.durations import kept_s, nanoseconds
from app.gateway.dialects.ollama.embedding import (
    Input,
    Vectors,
    body_for,
    first_tokens,
    joined,
    normalised,
    read_input,
    read_vectors,
)
from app.gateway.dialects.ollama.lookup import find, json_reply, read_document
from app.gateway.dialects.ollama.options import read_options
from app.gateway.dialects.ollama.wire import EmbeddingsReply, EmbeddingsRequest, EmbedReply, EmbedRequest
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange.engine.answers import Tokens, understood
from app.gateway.exchange.native import load_of
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.translated import READY_S, asked_whole
from app.gateway.services import SERVICES, Services
from app.gateway.watching.watch import Outcome, Watch, watched
from app.supervisor.policy import Terms
from engines.api import Route

log = logging.getLogger(__name__)

_UNKNOWN = ""
"""As in `ollama`: the model of a request that named none we have."""


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors, and the seconds until there was an engine."""

    vectors: Vectors = Vectors([])
    ready_s: float


def add_routes(app: web.Application) -> None:
    """Add `/api/embed` and `/api/embeddings`."""
    app.router.add_post("/api/embed", embed)
    app.router.add_post("/api/embeddings", embeddings)


async def embed(request: web.Request) -> web.Response:
    """POST /api/embed."""
    services = request.app[SERVICES]
    try:
        sent = await read_document(request, EmbedRequest)
        texts = read_input(sent.input)
        if sent.dimensions is not None and sent.dimensions < 0:
            raise BadRequest("dimensions must not be negative", code="invalid_value")
        ask = await _ask(services, sent, texts)
    except RoundhouseError:
        services.metrics.requests.add("ollama/embed", _UNKNOWN, Outcome.REFUSED)
        raise
    cut = _Cut(services, ask, texts) if sent.truncate is not False else None
    found = await _embedded(request, "ollama/embed", ask, texts, cut)
    reply = EmbedReply(
        model=sent.model,
        embeddings=[normalised(one.embedding, sent.dimensions) for one in found.vectors.data],
        total_duration=nanoseconds(time.perf_counter() - request[ARRIVED]),
        load_duration=nanoseconds(found.ready_s),
        prompt_eval_count=found.vectors.prompt_tokens,
        truncated_inputs=cut.count if cut else 0,
    )
    return json_reply(reply)


async def embeddings(request: web.Request) -> web.Response:
    """POST /api/embeddings, which `embed` replaced: one text, one vector."""
    services = request.app[SERVICES]
    try:
        sent = await read_document(request, EmbeddingsRequest)
        texts = [sent.prompt] if sent.prompt else []
        ask = await _ask(services, sent, texts)
    except RoundhouseError:
        services.metrics.requests.add("ollama/embeddings", _UNKNOWN, Outcome.REFUSED)
        raise
    found = await _embedded(request, "ollama/embeddings", ask, texts)
    return json_reply(EmbeddingsReply(found.vectors.data[0].embedding if found.vectors.data else []))


async def _ask(services: Services, sent: EmbedRequest | EmbeddingsRequest, texts: list[str]) -> Ask:
    found = await find(services, sent.model)
    options, keep_s = read_options(sent.options), kept_s(sent)
    path = services.adapters[found.load.engine].descriptor.routes.get(Route.EMBEDDINGS)
    if not found.model.embeds or path is None:
        raise abilities.cannot(sent.model, "embedding")
    return Ask(
        load=await load_of(services, found, options.num_ctx),
        path=path,
        body=body_for(texts, model=found.model.name),
        model=found.model.name,
        terms=Terms(keep_s=keep_s, context=options.num_ctx),
    )


async def _embedded(
    request: web.Request, route: str, ask: Ask, texts: list[str], cut: "_Cut | None" = None
) -> Embedded:
    services = request.app[SERVICES]
    with watched(services.metrics, route=route, model=ask.model, started=request[ARRIVED]) as watch:
        if texts:
            return await _asked(request, ask, watch, cut)
        async with services.supervisor.lease(ask.load, ask.terms):
            watch.outcome = Outcome.OK
            return Embedded(ready_s=time.perf_counter() - request[ARRIVED])


async def _asked(request: web.Request, ask: Ask, watch: Watch, cut: "_Cut | None") -> Embedded:
    try:
        vectors = await _vectors(request, ask, watch)
    except ContextOverflow as error:
        if cut is None or not cut.is_possible or not error.context:
            raise
        asks = await cut.to(request, watch, error.context - 1)  # llama.cpp refuses some prompts that just fit
        vectors = joined([await _vectors(request, one, watch) for one in asks])
        return Embedded(vectors=vectors, ready_s=request[READY_S])
    return Embedded(vectors=vectors, ready_s=request[READY_S])


async def _vectors(request: web.Request, ask: Ask, watch: Watch) -> Vectors:
    return read_vectors((await asked_whole(request, ask, watch))[0])


class _Cut:
    """Cuts the inputs of a request to what the model takes, by the engine's own tokens."""

    def __init__(self, services: Services, ask: Ask, texts: list[str]) -> None:
        self._ask, self._texts = ask, texts
        self._path = services.adapters[ask.load.engine].descriptor.routes.get(Route.TOKENIZE)
        self.count = 0
        """How many inputs were cut."""

    @property
    def is_possible(self) -> bool:
        """Whether the engine tells tokens."""
        return self._path is not None

    async def to(self, request: web.Request, watch: Watch, context: int) -> list[Ask]:
        """Return what asks for each input on its own, none longer than that: not every engine mixes text and tokens."""
        inputs: list[Input] = [await self._shortened(request, watch, text, context) for text in self._texts]
        self.count = sum(not isinstance(one, str) for one in inputs)
        log.info("%d inputs did not fit and are cut", self.count, extra={"model": self._ask.model})
        return [msgspec.structs.replace(self._ask, body=body_for([one], model=self._ask.model)) for one in inputs]

    async def _shortened(self, request: web.Request, watch: Watch, text: str, context: int) -> Input:
        if len(text.encode()) < context:  # a token is a byte at least, and a mark is added before and after
            return text
        marked = await self._tokens(request, watch, text, has_marks=True)
        if len(marked) <= context:
            return text
        return first_tokens(marked, await self._tokens(request, watch, text, has_marks=False), context=context)

    async def _tokens(self, request: web.Request, watch: Watch, text: str, *, has_marks: bool) -> list[int]:
        body = msgspec.json.encode({"model": self._ask.model, "content": text, "add_special": has_marks})
        terms = msgspec.structs.replace(self._ask.terms, takes_slot=False)
        ask = msgspec.structs.replace(self._ask, path=self._path or "", body=body, terms=terms)
        return understood((await asked_whole(request, ask, watch))[0], Tokens).tokens
