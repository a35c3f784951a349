"""From a request in OpenAI's dialect to what an engine is asked; LM Studio's `/api/v0` is asked the same way.

Of a request only what concerns the gateway is read; the rest is the engine's.
"""

from collections.abc import Callable

from aiohttp import web

from app.gateway.dialects.form import Form
from app.gateway.dialects.openai import checks, preparing
from app.gateway.dialects.openai.form import OpenAI
from app.gateway.dialects.openai.translated import Chat, job_for, passes
from app.gateway.entry.bodies import decode, read_body
from app.gateway.exchange.handling import Job, load_of, passed_headers, path_of, terms_of
from app.gateway.exchange.infilling import preparer
from app.gateway.exchange.presets import applied
from app.gateway.exchange.upstream import UpstreamRequest
from app.gateway.library.endpoint_routes import learned
from app.gateway.loading.aliases import name_in_answer
from app.gateway.loading.launch import resolve
from app.gateway.loading.recent import Found
from app.gateway.services import SERVICES
from engines.api import Route

Put = Callable[[OpenAI, Route, Found], Form]
"""What becomes of an answer in OpenAI's form on its way to a client of another dialect."""
_Wishes = preparing.Asked | checks.Asked


async def understand_chat(request: web.Request, put: Put | None = None) -> Job:
    """Return what a chat asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_body(request)
    wishes = decode(body, checks.Asked)
    prepared = preparing.prepared_chat(body, wishes)
    found = await resolve(services, wishes.model)
    if wishes.context is not None:
        found = found._replace(load=await load_of(services, found, wishes.context))
    if not await passes(services, found, body, wishes):
        form = None if put is None else put(prepared.form, Route.CHAT, found)
        name = name_in_answer(wishes.model, found.model)
        return await job_for(services, found, Chat(body, name, form, terms_of(wishes, Route.CHAT)))
    return Job(_upstream(request, found, prepared, wishes, put))


async def understand(request: web.Request, route: Route, put: Put | None = None) -> Job:
    """Return what any other request asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_body(request)
    wishes = decode(body, preparing.Asked)
    prepared = preparing.prepared(body, wishes, route)
    found = await learned(services, await resolve(services, wishes.model, route=route), prepared.route)
    found = found._replace(load=await load_of(services, found, wishes.context))
    return Job(_upstream(request, found, prepared, wishes, put))


def _upstream(
    request: web.Request, found: Found, prepared: preparing.Prepared, wishes: _Wishes, put: Put | None
) -> UpstreamRequest:
    (model, load), services = found, request.app[SERVICES]
    path = path_of(services, load.engine, model, prepared.route)
    name = name_in_answer(wishes.model, model)
    prepared = preparing.fitted(prepared, services.adapters[load.engine].descriptor, wishes, name=name)
    return UpstreamRequest(
        load=load,
        path=path,
        body=applied(prepared.body, model, prepared.route),
        model=wishes.model or "",
        terms=terms_of(wishes, prepared.route),
        form=prepared.form if put is None else put(prepared.form, prepared.route, found),
        streams=bool(wishes.stream),
        headers=passed_headers(request),
        gather=prepared.gather,
        prepare=preparer(prepared.route),
    )
