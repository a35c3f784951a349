"""How many tokens a request of the Responses API would have read: the engine writes the prompt down and counts it."""

import msgspec
from aiohttp import web

from app.gateway.dialects.ollama.lookup import json_reply
from app.gateway.dialects.responses.intake import read, upstream_for
from app.gateway.dialects.responses.listing import Counted
from app.gateway.dialects.responses.request import Asked
from app.gateway.entry.bodies import decode, read_body
from app.gateway.exchange.counting import count_prompt
from app.gateway.exchange.handling import Job, path_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.loading.aliases import AUTO
from app.gateway.loading.launch import resolve
from app.gateway.services import SERVICES
from engines.api import Route


async def understand_count(request: web.Request) -> Job:
    """Return what counts a request's prompt. Raises BadRequest, NotFound, or what `resolve` raises."""
    services, asked = request.app[SERVICES], decode(await read_body(request), Asked)
    said = await read(services, asked)
    found = await resolve(services, asked.model or AUTO)
    tokenize = path_of(services.adapters, found.load.engine, found.model, Route.TOKENIZE)
    upstream = await upstream_for(services, asked, found, said.work, route=Route.APPLY_TEMPLATE)
    beside = msgspec.structs.replace(upstream, terms=msgspec.structs.replace(upstream.terms, takes_slot=False))

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
        return json_reply(Counted(input_tokens=await count_prompt(engines, beside, tokenize, observed)))

    return Job(beside, answer)
