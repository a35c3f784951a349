"""LM Studio's `/api/v0`: OpenAI's routes, answered by the engine itself, with statistics added at the end.

`/api/v1` is in `chat` and `downloads`, what is said of models in `models`.
"""

import platform
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec
from aiohttp import web

from app.core.engines import EngineStatus
from app.core.models import ModelInfo
from app.gateway.dialects.lmstudio import chat as lmstudio_chat
from app.gateway.dialects.lmstudio import downloads as lmstudio_downloads
from app.gateway.dialects.lmstudio import models as lmstudio_models
from app.gateway.dialects.lmstudio.answers import V0, About, AboutModel, Runtime
from app.gateway.dialects.lmstudio.models import format_v0, status_of
from app.gateway.dialects.openai.answers import AsWritten
from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.dialects.openai.requests import understand, understand_chat
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange.handling import handle
from app.gateway.loading.requested_model import Found
from app.gateway.services import SERVICES, Services
from engines.api import Descriptor, Route

_AS_IT_COMES: Mapping[Route, OpenAI] = {Route.CHAT: OPENAI, Route.COMPLETIONS: AsWritten()}
"""Answers of which only the end is LM Studio's; others have OpenAI's form first."""


def add_routes(app: web.Application) -> None:
    """Add LM Studio's routes."""
    for path, route in (
        ("chat/completions", Route.CHAT),
        ("completions", Route.COMPLETIONS),
        ("embeddings", Route.EMBEDDINGS),
    ):
        app.router.add_post(f"/api/v0/{path}", _answering(route))
    lmstudio_models.add_routes(app)
    lmstudio_downloads.add_routes(app)
    lmstudio_chat.add_routes(app)


def _answering(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    return partial(_answer, route=route)


async def _answer(request: web.Request, route: Route) -> web.StreamResponse:
    put = partial(_put, request)
    understood = partial(understand_chat, put=put) if route is Route.CHAT else partial(understand, route=route, put=put)
    return await handle(request, route, understood)


def _put(request: web.Request, form: OpenAI, route: Route, found: Found) -> V0:
    """Return the form of an answer with LM Studio's blocks at its end."""
    services, model = request.app[SERVICES], found.model
    about = partial(_about, services, model, services.adapters[found.load.engine].descriptor)
    kept = {field: getattr(form, field) for field in ("prefilled", "each")}
    openai = msgspec.structs.replace(_AS_IT_COMES[route], **kept) if route in _AS_IT_COMES else form
    return V0(about, started=request[ARRIVED], openai=openai)


def _about(services: Services, model: ModelInfo, descriptor: Descriptor) -> About:
    """Return who answers, as it is loaded now."""
    status = status_of(services, model)
    return About(
        AboutModel(
            arch=model.architecture,
            quant=model.quantization,
            format=format_v0(model),
            context_length=status.context if status else None,
        ),
        _runtime(status, descriptor),
    )


def _runtime(status: EngineStatus | None, descriptor: Descriptor) -> Runtime:
    """Return the engine, named as LM Studio names its own: with the system and the backend it runs on."""
    where = [platform.system().lower(), platform.machine().lower(), status.backend if status else ""]
    return Runtime(
        name="-".join([descriptor.id, *filter(None, where)]),
        version=status.version if status else "",
        supported_formats=sorted(descriptor.formats),
    )
