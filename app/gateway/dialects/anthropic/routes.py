"""Anthropic's routes. llama.cpp speaks them itself; what it gets wrong is mended on the way in and on the way out.

Where an engine does not, or not all that is asked, `translated` translates.
"""

from functools import partial

from aiohttp import web

from app.gateway.dialects.anthropic.form import Count, Messages
from app.gateway.dialects.anthropic.reply import Wishes
from app.gateway.dialects.anthropic.requests import Asked, check, for_engine, prefilled_by
from app.gateway.dialects.anthropic.translated import count_job, messages_job, passes
from app.gateway.entry.bodies import decode, read_body
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange.handling import Job, handle, load_of, passed_headers, path_of, terms_of
from app.gateway.exchange.presets import applied
from app.gateway.exchange.upstream import UpstreamRequest
from app.gateway.library.endpoint_routes import learned
from app.gateway.loading.launch import resolve
from app.gateway.services import SERVICES
from engines.api import Route


def add_routes(app: web.Application) -> None:
    """Add Anthropic's routes; its list of models is OpenAI's route too."""
    app.router.add_post("/v1/messages", messages)
    app.router.add_post("/v1/messages/count_tokens", count_tokens)


async def messages(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages."""
    return await handle(request, Route.MESSAGES, partial(_understand, route=Route.MESSAGES))


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages/count_tokens."""
    return await handle(request, Route.COUNT_TOKENS, partial(_understand, route=Route.COUNT_TOKENS))


async def _understand(request: web.Request, route: Route) -> Job:
    services, body = request.app[SERVICES], await read_body(request)
    asked = decode(body, Asked)
    check(asked, counts_only=route is Route.COUNT_TOKENS)
    found = await resolve(services, asked.model)
    if route is Route.COUNT_TOKENS:
        found = await learned(services, found, route)
    found = found._replace(load=await load_of(services, found, asked.context))
    if not await passes(services, asked, found, route):
        return await (count_job if route is Route.COUNT_TOKENS else messages_job)(services, body, asked, found)
    wishes = Wishes(max_tokens=asked.max_tokens, one_tool=asked.is_one_at_a_time, prefilled=prefilled_by(asked))
    form = Count if route is Route.COUNT_TOKENS else Messages
    upstream = UpstreamRequest(
        load=found.load,
        path=path_of(services, found.load.engine, found.model, route),
        body=applied(for_engine(body, asked), found.model, route),
        model=asked.model or "",
        terms=terms_of(asked, route),
        form=form(request_id=request[REQUEST_ID], wishes=wishes),
        streams=bool(asked.stream),
        headers=passed_headers(request),
    )
    return Job(upstream)
