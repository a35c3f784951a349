"""Ollama's two routes for embeddings, answered by the engine's OpenAI route. An empty input only loads the model."""

import time

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, RoundhouseError
from app.gateway.dialects.ollama import abilities
from app.gateway.dialects.ollama.durations import kept_s, nanoseconds
from app.gateway.dialects.ollama.embedding import Vectors, body_for, normalised, read_input, read_vectors
from app.gateway.dialects.ollama.options import read_options
from app.gateway.dialects.ollama.wire import EmbeddingsReply, EmbeddingsRequest, EmbedReply, EmbedRequest
from app.gateway.entry.middleware import ARRIVED
from app.gateway.relay.native import load_of
from app.gateway.relay.proxy import Ask
from app.gateway.relay.translated import READY_S, asked_whole
from app.gateway.routes.ollama_asked import find, json_reply, read_document
from app.gateway.services import SERVICES, Services
from app.gateway.watching.watch import Outcome, Watch, watched
from app.supervisor.policy import Terms
from engines.api import Route

_UNKNOWN = ""
"""As in `ollama`: the model of a request that named none we have."""
_TOO_LONG = ("too large to process", "exceeds the context")
"""How engines say that an input is longer than they take."""


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
        if sent.dimensions is not None and sent.dimensions < 1:
            raise BadRequest("dimensions must be at least 1", code="invalid_value")
        ask = await _ask(services, sent, texts)
    except RoundhouseError:
        services.metrics.requests.add("ollama/embed", _UNKNOWN, Outcome.REFUSED)
        raise
    found = await _embedded(request, "ollama/embed", ask, texts)
    reply = EmbedReply(
        model=sent.model,
        embeddings=[normalised(one.embedding, sent.dimensions) for one in found.vectors.data],
        total_duration=nanoseconds(time.perf_counter() - request[ARRIVED]),
        load_duration=nanoseconds(found.ready_s),
        prompt_eval_count=found.vectors.prompt_tokens,
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


async def _embedded(request: web.Request, route: str, ask: Ask, texts: list[str]) -> Embedded:
    services = request.app[SERVICES]
    with watched(services.metrics, route=route, model=ask.model, started=request[ARRIVED]) as watch:
        if texts:
            return await _asked(request, ask, watch)
        async with services.supervisor.lease(ask.load, ask.terms):
            watch.outcome = Outcome.OK
            return Embedded(ready_s=time.perf_counter() - request[ARRIVED])


async def _asked(request: web.Request, ask: Ask, watch: Watch) -> Embedded:
    try:
        body, _ = await asked_whole(request, ask, watch)
    except RoundhouseError as error:
        if error.code == "context_length_exceeded" or any(words in str(error) for words in _TOO_LONG):
            raise BadRequest(
                "the input length exceeds the context length", hint=str(error), code="context_length_exceeded"
            ) from None
        raise
    return Embedded(vectors=read_vectors(body), ready_s=request[READY_S])
