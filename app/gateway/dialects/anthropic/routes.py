"""Anthropic's routes. llama.cpp speaks them itself; what it gets wrong is mended on the way in and on the way out.

Where an engine does not, or not all that is asked, `anthropic_messages` translates.
"""

import msgspec
from aiohttp import web

from app.gateway.dialects.anthropic.form import Count, Messages
from app.gateway.dialects.anthropic.reply import Wishes
from app.gateway.dialects.anthropic.request import Asked, check, for_engine, prefilled_by
from app.gateway.dialects.anthropic.translated import ask_for, count_for, passes
from app.gateway.entry.bodies import decode
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange import proxy
from app.gateway.exchange.native import answered, load_of, path_of, terms_of
from app.gateway.exchange.presets import applied
from app.gateway.loading.aliases import name_in_answer
from app.gateway.loading.launch import resolve
from app.gateway.loading.recent import Found
from app.gateway.services import SERVICES
from engines.api import Route


def add_routes(app: web.Application) -> None:
    """Add Anthropic's routes; its list of models is OpenAI's route too."""
    app.router.add_post("/v1/messages", messages)
    app.router.add_post("/v1/messages/count_tokens", count_tokens)


async def messages(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages."""
    return await answered(request, Route.MESSAGES, _understood)


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """POST /v1/messages/count_tokens."""
    return await answered(request, Route.COUNT_TOKENS, _understood)


async def _understood(request: web.Request, body: bytes, route: Route) -> proxy.Ask:
    services = request.app[SERVICES]
    asked = decode(body, Asked)
    check(asked, counts_only=route is Route.COUNT_TOKENS)
    found = await resolve(services, asked.model)
    name = name_in_answer(asked.model, found.model)
    model, load, terms = found.model, await load_of(services, found, asked.context), terms_of(asked, route)
    found = Found(model, load)
    if not await passes(services, asked, found, route):
        is_count = route is Route.COUNT_TOKENS
        ask = await (
            count_for(services, body, asked, found) if is_count else ask_for(services, body, asked, found, name)
        )
        return msgspec.structs.replace(ask, terms=terms)
    wishes = Wishes(max_tokens=asked.max_tokens, one_tool=asked.is_one_at_a_time, prefilled=prefilled_by(asked))
    form = Count if route is Route.COUNT_TOKENS else Messages
    return proxy.Ask(
        load=load,
        path=path_of(services, load.engine, model, route),
        body=applied(for_engine(body, asked), model, route),
        model=asked.model or "",
        terms=terms,
        form=form(request_id=request[REQUEST_ID], wishes=wishes),
    )
