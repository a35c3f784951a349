"""How many tokens a text is that somebody types: counted by the engine where it is loaded, else estimated.

Nothing is loaded for it, and it takes no slot: whoever types must not hold up an answer.
"""

import asyncio

import msgspec

from app.core.errors import RoundhouseError
from app.core.tokens import TextTokens, estimate_text_tokens
from app.gateway.exchange.engine.answers import TokenizeReply, decode_reply
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.loading.launch import is_ready
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.policy import LeaseOptions
from engines.api import Route

_WITHIN_S = 2.0
"""Counting is quick, or not worth the wait."""
_OK = 200


async def count_text(services: Services, engines: EngineAccess, target: ResolvedModel, text: str) -> TextTokens:
    """Return the count of a text by itself, without what a chat template puts around it."""
    model, load = target.model, target.load
    path = services.adapters[load.engine].descriptor.routes.get(Route.TOKENIZE)
    if path is None or model.attached or not is_ready(services.supervisor, model.runs_as):
        return TextTokens(tokens=estimate_text_tokens(text), is_estimate=True)
    field = services.adapters[load.engine].descriptor.tokenizes
    body = msgspec.json.encode({"model": model.name, field: text, "add_special": False})
    try:
        async with (
            asyncio.timeout(_WITHIN_S),
            services.supervisor.lease(load, LeaseOptions(takes_slot=False)) as lease,
        ):
            status, answer = await engines.ask_engine(lease, path, body)
        if status == _OK:
            return TextTokens(tokens=len(decode_reply(answer, TokenizeReply).tokens), is_estimate=False)
    except (OSError, RoundhouseError):  # the engine went meanwhile
        pass
    return TextTokens(tokens=estimate_text_tokens(text), is_estimate=True)
