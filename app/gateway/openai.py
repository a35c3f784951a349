"""OpenAI's routes that engines speak themselves. Of a request only `model` and `stream` are read; the rest is theirs.

`model` must be there and name a model: guessing one would answer with something the caller did not ask for.
"""

import asyncio

import msgspec
from aiohttp import web

from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest, RoundhouseError
from app.core.models import ModelInfo
from app.gateway import proxy
from app.gateway.bodies import decode, read_body
from app.gateway.launch import find_model, resolve
from app.gateway.middleware import ARRIVED
from app.gateway.services import SERVICES, Services
from app.gateway.watch import Outcome, watched
from engines.api import Route

_UNKNOWN = ""
"""Stands for the model in the metrics of a request that named none we have: its name could be anything."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model as OpenAI lists it, with LM Studio's names for what OpenAI does not say. Contexts in tokens."""

    id: str
    created: int
    object: str = "model"
    owned_by: str = "roundhouse"
    state: str = "not-loaded"
    loaded: bool = False
    max_context_length: int | None = None
    loaded_context_length: int | None = None


class ModelCards(msgspec.Struct, frozen=True, kw_only=True):
    """The list of models."""

    data: list[ModelCard]
    object: str = "list"


def add_routes(app: web.Application) -> None:
    """Add OpenAI's routes."""
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/v1/models/{id:.+}", show_model)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/completions", completions)
    app.router.add_post("/v1/embeddings", embeddings)


async def list_models(request: web.Request) -> web.Response:
    """GET /v1/models."""
    services = request.app[SERVICES]
    models = await asyncio.to_thread(services.library.models)
    running = {status.model: status for status in services.supervisor.statuses()}
    return _json(ModelCards(data=[_card(model, running.get(model.name)) for model in models if not model.problem]))


async def show_model(request: web.Request) -> web.Response:
    """GET /v1/models/{id}; ids may contain slashes and colons."""
    services = request.app[SERVICES]
    model = await find_model(services, request.match_info["id"])
    running = {status.model: status for status in services.supervisor.statuses()}
    return _json(_card(model, running.get(model.name)))


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /v1/chat/completions."""
    return await _generate(request, Route.CHAT)


async def completions(request: web.Request) -> web.StreamResponse:
    """POST /v1/completions."""
    return await _generate(request, Route.COMPLETIONS)


async def embeddings(request: web.Request) -> web.StreamResponse:
    """POST /v1/embeddings."""
    return await _generate(request, Route.EMBEDDINGS)


async def _generate(request: web.Request, route: Route) -> web.StreamResponse:
    services = request.app[SERVICES]
    try:
        body = await read_body(request)
        ask = await _understood(services, body, route)
    except RoundhouseError:
        services.metrics.requests.add(route, _UNKNOWN, Outcome.REFUSED)
        raise
    model = ask.load.source.name
    with watched(services.metrics, route=route, model=model, started=request[ARRIVED]) as watch:
        return await proxy.answer(request, ask, watch)


async def _understood(services: Services, body: bytes, route: Route) -> proxy.Ask:
    named = decode(body, Asked).model
    if not named:
        raise BadRequest("The request does not say which model it is for.", hint="Set `model`.", code="model_required")
    model, load = await resolve(services, named)
    return proxy.Ask(load=load, path=_path(services, load.engine, model, route), body=body, model=named)


def _path(services: Services, engine: str, model: ModelInfo, route: Route) -> str:
    descriptor = services.adapters[engine].descriptor
    able = model.embeds if route is Route.EMBEDDINGS else model.chats
    if able and route in descriptor.routes:
        return descriptor.routes[route]
    what = "make embeddings" if route is Route.EMBEDDINGS else "write text"
    culprit = model.title if not able else f"The engine {descriptor.name}"
    raise BadRequest(f"{culprit} does not {what}.", hint="Choose another model.", code="model_cannot")


def _card(model: ModelInfo, status: EngineStatus | None) -> ModelCard:
    is_loaded = status is not None and status.state is EngineState.READY
    return ModelCard(
        id=model.name,
        created=int(model.modified_at),
        state="loaded" if is_loaded else "not-loaded",
        loaded=is_loaded,
        max_context_length=model.trained_context,
        loaded_context_length=status.context if status is not None and is_loaded else None,
    )


def _json(value: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
