"""How many tokens a request of the Responses API would have read, with the conversation it goes on with."""

from aiohttp import web

from app.gateway.dialects.ollama.models import json_reply
from app.gateway.dialects.responses.intake import read
from app.gateway.dialects.responses.listing import Counted
from app.gateway.dialects.responses.requests import Asked
from app.gateway.entry.bodies import decode, read_body
from app.gateway.exchange.handling import Job, load_of, terms_of
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.token_count import counting_of
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.loading.launch import resolve
from app.gateway.services import SERVICES
from engines.api import Route


async def understand_count(request: web.Request) -> Job:
    """Return what counts them. Raises BadRequest, NotFound, or what `resolve` raises."""
    services, asked = request.app[SERVICES], decode(await read_body(request), Asked)
    said = await read(services, asked)
    found = await resolve(services, asked.model)
    found = found._replace(load=await load_of(services, found, asked.context))
    counting = await counting_of(services, found, said.work, terms_of(asked, Route.COUNT_TOKENS))

    async def answer(_request: web.Request, engines: EngineAccess, observed: Observation) -> web.Response:
        count = await counting.count(engines, observed)
        return count.marked(json_reply(Counted(input_tokens=count.tokens)))

    return Job(counting.upstream, answer)
