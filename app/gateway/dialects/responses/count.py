"""How many tokens a request of the Responses API would have read, with the conversation it goes on with."""

from app.gateway.dialects.responses.intake import read
from app.gateway.dialects.responses.request import Asked
from app.gateway.entry.bodies import decode
from app.gateway.exchange.native import load_of, terms_of
from app.gateway.exchange.token_count import Counting, counting_of
from app.gateway.loading.launch import resolve
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from engines.api import Route


async def counted(services: Services, body: bytes) -> Counting:
    """Return what counts them. Raises BadRequest, NotFound, or what `resolve` raises."""
    asked = decode(body, Asked)
    said = await read(services, asked)
    model, load = await resolve(services, asked.model)
    found = Found(model, await load_of(services, Found(model, load), asked.context))
    return await counting_of(services, found, said.work, terms_of(asked, Route.COUNT_TOKENS))
