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
from app.gateway.dialects.lmstudio.answers import LmStudioAnswerInfo, LmStudioModelInfo, LmStudioRuntime, LmStudioV0Form
from app.gateway.dialects.lmstudio.models import format_v0
from app.gateway.dialects.openai.answers import RawCompletionForm
from app.gateway.dialects.openai.form import OPENAI, OpenAIForm
from app.gateway.dialects.openai.requests import prepare_chat_job, prepare_job
from app.gateway.entry.responses import ARRIVAL_S
from app.gateway.exchange.handling import answer_request
from app.gateway.loading.launch import status_of
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import SERVICES
from app.supervisor.pool import Supervisor
from engines.api import Descriptor, Route

_PASS_THROUGH_FORMS: Mapping[Route, OpenAIForm] = {Route.CHAT: OPENAI, Route.COMPLETIONS: RawCompletionForm()}
"""Answers of which only the end is LM Studio's; others have OpenAI's form first."""


def add_routes(router: web.UrlDispatcher) -> None:
    """Add LM Studio's routes."""
    for path, route in (
        ("chat/completions", Route.CHAT),
        ("completions", Route.COMPLETIONS),
        ("embeddings", Route.EMBEDDINGS),
    ):
        router.add_post(f"/api/v0/{path}", _make_handler(route))
    lmstudio_models.add_routes(router)
    lmstudio_downloads.add_routes(router)
    lmstudio_chat.add_routes(router)


def _make_handler(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    return partial(_answer_route, route=route)


async def _answer_route(request: web.Request, route: Route) -> web.StreamResponse:
    put = partial(_wrap_form, request)
    prepare = partial(prepare_chat_job, put=put) if route is Route.CHAT else partial(prepare_job, route=route, put=put)
    return await answer_request(request, route, prepare)


def _wrap_form(request: web.Request, form: OpenAIForm, route: Route, target: ResolvedModel) -> LmStudioV0Form:
    """Return the form of an answer with LM Studio's blocks at its end."""
    services, model = request.app[SERVICES], target.model
    about = partial(_answer_info, services.supervisor, model, services.adapters[target.load.engine].descriptor)
    shared_fields = {field: getattr(form, field) for field in ("prefilled", "each")}
    openai = (
        msgspec.structs.replace(_PASS_THROUGH_FORMS[route], **shared_fields) if route in _PASS_THROUGH_FORMS else form
    )
    return LmStudioV0Form(about, started_at=request[ARRIVAL_S], openai=openai)


def _answer_info(supervisor: Supervisor, model: ModelInfo, descriptor: Descriptor) -> LmStudioAnswerInfo:
    """Return who answers, as it is loaded now."""
    status = status_of(supervisor, model)
    return LmStudioAnswerInfo(
        LmStudioModelInfo(
            arch=model.architecture,
            quant=model.quantization,
            format=format_v0(model),
            context_length=status.context if status else None,
        ),
        _describe_runtime(status, descriptor),
    )


def _describe_runtime(status: EngineStatus | None, descriptor: Descriptor) -> LmStudioRuntime:
    """Return the engine, named as LM Studio names its own: with the system and the backend it runs on."""
    where = [platform.system().lower(), platform.machine().lower(), status.backend if status else ""]
    return LmStudioRuntime(
        name="-".join([descriptor.id, *filter(None, where)]),
        version=status.version if status else "",
        supported_formats=sorted(descriptor.formats),
    )
