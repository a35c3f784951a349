"""How many tokens a request of the Responses API would have read: the engine writes the prompt down and counts it."""

import msgspec

from app.gateway.dialects.responses.intake import ask_for, read
from app.gateway.dialects.responses.request import Asked
from app.gateway.entry.bodies import decode
from app.gateway.exchange.engine.answers import Prompt, Tokens, understood
from app.gateway.exchange.native import path_of
from app.gateway.exchange.proxy import Ask
from app.gateway.loading.launch import resolve
from app.gateway.services import Services
from engines.api import Route


class Counting(msgspec.Struct, frozen=True):
    """Two questions: `ask` for the prompt, and at `path` for its tokens."""

    ask: Ask
    path: str

    def of(self, answer: bytes) -> Ask:
        """Return the second one. Raises EngineFailed if the first one's answer is not as expected."""
        prompt = understood(answer, Prompt).prompt
        body = msgspec.json.encode({"content": prompt, "add_special": True, "parse_special": True})
        return msgspec.structs.replace(self.ask, path=self.path, body=body)


async def counted(services: Services, body: bytes) -> Counting:
    """Return what to ask the engine. Raises BadRequest, NotFound, or what `resolve` raises."""
    asked = decode(body, Asked)
    said = await read(services, asked)
    found = await resolve(services, asked.model)
    tokenize = path_of(services, found.load.engine, found.model, Route.TOKENIZE)
    ask = await ask_for(services, asked, found, said.work, route=Route.APPLY_TEMPLATE)
    beside = msgspec.structs.replace(ask.terms, takes_slot=False)
    return Counting(msgspec.structs.replace(ask, terms=beside), tokenize)


def count_of(answer: bytes) -> int:
    """Return how many tokens there are. Raises EngineFailed."""
    return len(understood(answer, Tokens).tokens)
