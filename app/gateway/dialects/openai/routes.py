"""OpenAI's routes that engines speak themselves. Of a request only what concerns us is read; the rest is theirs."""

from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler

from app.gateway.dialects.openai.models import list_models, show_model
from app.gateway.dialects.openai.pictures import prepare_picture_job
from app.gateway.dialects.openai.requests import prepare_chat_job, prepare_job
from app.gateway.dialects.openai.sounds import prepare_recording_job
from app.gateway.exchange.handling import answer_request
from engines.api import Route


def add_routes(router: web.UrlDispatcher) -> None:
    """Add OpenAI's routes."""
    router.add_get("/v1/models/{id:.+}", show_model)
    for base in ("/v1", ""):  # record.UNVERSIONED has what is without
        router.add_get(f"{base}/models", list_models)
        router.add_post(
            f"{base}/chat/completions", partial(answer_request, route=Route.CHAT, understand=prepare_chat_job)
        )
        router.add_post(f"{base}/completions", _answer_on(Route.COMPLETIONS))
        router.add_post(f"{base}/embeddings", _answer_on(Route.EMBEDDINGS))
    router.add_post("/v1/audio/transcriptions", _answer_recording_on(Route.TRANSCRIPTIONS))
    router.add_post("/v1/audio/translations", _answer_recording_on(Route.TRANSLATIONS))
    router.add_post("/v1/audio/speech", _answer_on(Route.SPEECH))
    router.add_post("/v1/images/generations", _answer_on(Route.IMAGES))
    router.add_post("/v1/images/edits", _answer_pictures_on(Route.IMAGE_EDITS))
    router.add_post("/v1/images/variations", _answer_pictures_on(Route.IMAGE_VARIATIONS))
    for path in ("/v1/rerank", "/v1/reranking", "/rerank", "/reranking", "/v2/rerank"):  # llama-server's and Cohere's
        router.add_post(path, _answer_on(Route.RERANK))


def _answer_on(route: Route) -> Handler:
    """Return what answers on one of the engine's routes."""
    return partial(answer_request, route=route, understand=partial(prepare_job, route=route))


def _answer_recording_on(route: Route) -> Handler:
    """Return what answers to a form with a recording."""
    return partial(answer_request, route=route, understand=partial(prepare_recording_job, route=route))


def _answer_pictures_on(route: Route) -> Handler:
    """Return what answers to a form with pictures."""
    return partial(answer_request, route=route, understand=partial(prepare_picture_job, route=route))
