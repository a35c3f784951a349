"""LM Studio's `/api/v0`: OpenAI's routes, answered by the engine itself, with statistics added at the end.

`/api/v1` is in `lmstudio_chat`, what is said of models in `lmstudio_models`.
"""

import platform
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

from app.core.engines import EngineStatus
from app.core.models import ModelInfo
from app.gateway.dialects.lmstudio import chat as lmstudio_chat
from app.gateway.dialects.lmstudio import downloads as lmstudio_downloads
from app.gateway.dialects.lmstudio import models as lmstudio_models
from app.gateway.dialects.lmstudio.cards import format_v0
from app.gateway.dialects.lmstudio.form import V0
from app.gateway.dialects.lmstudio.stats import About, AboutModel, Runtime
from app.gateway.dialects.openai import chat_checks, preparing
from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.dialects.openai.text_form import AsWritten
from app.gateway.dialects.openai.translated import Wish, ask_for, passes
from app.gateway.entry.bodies import decode
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange import proxy
from app.gateway.exchange.infilling import preparer
from app.gateway.exchange.native import answered, load_of, path_of, terms_of
from app.gateway.exchange.presets import applied
from app.gateway.loading.aliases import name_in_answer
from app.gateway.loading.launch import resolve
from app.gateway.loading.recent import Found
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
    return partial(answered, route=route, understand=_understood)


async def _understood(request: web.Request, body: bytes, route: Route) -> proxy.Ask:
    services = request.app[SERVICES]
    asked = decode(body, chat_checks.Asked) if route is Route.CHAT else decode(body, preparing.Asked)
    prepared = preparing.prepared(body, asked, route)
    found = await resolve(services, asked.model, route=route)
    route, body, name = prepared.route, prepared.body, name_in_answer(asked.model, found.model)
    prepared = prepared._replace(form=_AS_IT_COMES.get(route, prepared.form))
    model, load, terms = found.model, await load_of(services, found, asked.context), terms_of(asked, route)
    engine = services.adapters[load.engine].descriptor
    prepared = preparing.fitted(prepared, engine, body, asked, name=name)
    form = V0(partial(_about, services, model, engine), started=request[ARRIVED], openai=prepared.form)
    if isinstance(asked, chat_checks.Asked) and not await passes(services, found, body, asked):
        return await ask_for(services, Found(model, load), Wish(body, name, form, terms))
    return proxy.Ask(
        load=load,
        path=path_of(services, load.engine, model, route),
        body=applied(prepared.body, model, route),
        model=asked.model or "",
        terms=terms,
        form=form,
        gather=prepared.gather,
        prepare=preparer(route),
    )


def _about(services: Services, model: ModelInfo, descriptor: Descriptor) -> About:
    """Return who answers, as it is loaded now."""
    status = next((one for one in services.supervisor.statuses() if one.model == model.runs_as), None)
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
