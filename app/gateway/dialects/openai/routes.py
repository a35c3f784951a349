"""OpenAI's routes that engines speak themselves. Of a request only what concerns us is read; the rest is theirs."""

from functools import partial

from aiohttp import web

from app.gateway.dialects.openai.models import list_models, show_model
from app.gateway.dialects.openai.requests import prepare_chat_job, prepare_job
from app.gateway.exchange.handling import answer_request
from engines.api import Route


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
