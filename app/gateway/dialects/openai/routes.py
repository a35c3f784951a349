"""OpenAI's routes that engines speak themselves. Of a request only what concerns us is read; the rest is theirs."""

import asyncio
from functools import partial

import msgspec
from aiohttp import web

from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo
from app.gateway.dialects.anthropic import models as anthropic_models
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.google import models as google_models
from app.gateway.dialects.google.record import GOOGLE_DIALECT
from app.gateway.dialects.openai.requests import prepare_chat_job, prepare_job
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.dialects.registry import dialect_of
from app.gateway.exchange.handling import answer_request
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import find_model
from app.gateway.services import SERVICES
from engines.api import Route


class OpenAIModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model as OpenAI lists it, with LM Studio's names for what OpenAI does not say. Contexts in tokens.

    `capabilities` are a list, as llama-server and others have it, of the words of `core.capabilities`.
    """

    id: str
    created: int
    object: str = "model"
    owned_by: str = "roundhouse"
    state: str = "not-loaded"
    loaded: bool = False
    max_context_length: int | None = None
    loaded_context_length: int | None = None
    capabilities: list[Capability] = []


class OpenAIModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The list of models."""

    data: list[OpenAIModelCard]
    object: str = "list"


def add_routes(app: web.Application) -> None:
    """Add OpenAI's routes."""
    app.router.add_get("/v1/models/{id:.+}", show_model)
    for base in ("/v1", ""):  # record.UNVERSIONED has what is without
        app.router.add_get(f"{base}/models", list_models)
        app.router.add_post(f"{base}/chat/completions", handle_chat)
        app.router.add_post(f"{base}/completions", handle_completions)
        app.router.add_post(f"{base}/embeddings", handle_embeddings)
    for path in ("/v1/rerank", "/v1/reranking", "/rerank", "/reranking", "/v2/rerank"):
        app.router.add_post(path, handle_rerank)


async def list_models(request: web.Request) -> web.Response:
    """GET /v1/models, to whichever of its audiences asks."""
    services, dialect = request.app[SERVICES], dialect_of(request.path, request.headers)
    if dialect is GOOGLE_DIALECT:
        return await google_models.list_models(request)
    models = await asyncio.to_thread(services.library.list_models)
    if dialect is ANTHROPIC_DIALECT:
        usable = [model for model in models if not model.problem]
        return json_reply(
            anthropic_models.model_page(usable, decode_query(request.query, anthropic_models.AnthropicPageQuery))
        )
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    able = await with_capabilities(services, [model for model in models if not model.problem])
    return json_reply(OpenAIModelList(data=[_model_card(model, statuses.get(model.runs_as)) for model in able]))


async def show_model(request: web.Request) -> web.Response:
    """GET /v1/models/{id}; ids may contain slashes and colons."""
    services, dialect = request.app[SERVICES], dialect_of(request.path, request.headers)
    if dialect is GOOGLE_DIALECT:
        return await google_models.show_model(request)
    model = await find_model(services, request.match_info["id"])
    if dialect is ANTHROPIC_DIALECT:
        return json_reply(anthropic_models.model_card(model))
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    (able,) = await with_capabilities(services, [model])
    return json_reply(_model_card(able, statuses.get(model.runs_as)))


async def handle_chat(request: web.Request) -> web.StreamResponse:
    """POST /v1/chat/completions."""
    return await answer_request(request, Route.CHAT, prepare_chat_job)


async def handle_completions(request: web.Request) -> web.StreamResponse:
    """POST /v1/completions."""
    return await answer_request(request, Route.COMPLETIONS, partial(prepare_job, route=Route.COMPLETIONS))


async def handle_embeddings(request: web.Request) -> web.StreamResponse:
    """POST /v1/embeddings."""
    return await answer_request(request, Route.EMBEDDINGS, partial(prepare_job, route=Route.EMBEDDINGS))


async def handle_rerank(request: web.Request) -> web.StreamResponse:
    """POST /v1/rerank, the other names llama-server has for it, and Cohere's."""
    return await answer_request(request, Route.RERANK, partial(prepare_job, route=Route.RERANK))


def _model_card(model: ModelInfo, status: EngineStatus | None) -> OpenAIModelCard:
    is_loaded = status is not None and status.state is EngineState.READY
    return OpenAIModelCard(
        id=model.name,
        created=int(model.modified_at),
        state="loaded" if is_loaded else "not-loaded",
        loaded=is_loaded,
        max_context_length=model.trained_context,
        loaded_context_length=status.context if status is not None and is_loaded else None,
        capabilities=model.capabilities,
    )
