"""How many characters of a benchmark's prompts a model's tokenizer puts into one token, counted by its engine."""

import aiohttp
import msgspec

from app.benchmark.workloads import CHARACTERS_PER_TOKEN, Conversation, longest_prompt
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import RoundhouseError
from app.gateway.exchange.engine.answers import TokenizeReply, decode_reply
from app.gateway.services import Services
from app.network.connector import OutboundRequest
from app.supervisor.lease import Lease
from engines.api import Route

_MARGIN = 0.95
"""Other prompts may have a few more tokens for their length than the one that is counted."""
_TIMEOUT = aiohttp.ClientTimeout(total=30)


class TextDensities:
    """Characters per token of each model that was loaded for a benchmark; never more than is usual."""

    def __init__(self) -> None:
        self._densities: dict[str, float] = {}

    def __contains__(self, model: str) -> bool:
        """Tell whether a model's was counted, or cannot be."""
        return model in self._densities

    def of_model(self, model: str) -> float:
        """Return what was counted, else what is usual."""
        return self._densities.get(model, CHARACTERS_PER_TOKEN)

    async def count(self, services: Services, model: str, lease: Lease, conversations: list[Conversation]) -> float:
        """Have the engine count the longest prompt, keep the density and return it."""
        prompt_count = await _count_prompt(services, lease, conversations)
        density = CHARACTERS_PER_TOKEN if prompt_count is None else min(CHARACTERS_PER_TOKEN, _MARGIN * prompt_count)
        self._densities[model] = density
        return density


async def _count_prompt(services: Services, lease: Lease, conversations: list[Conversation]) -> float | None:
    """Return the characters per token of the longest prompt; None where the engine does not count."""
    descriptor = services.adapters[lease.engine].descriptor
    path = descriptor.routes.get(Route.TOKENIZE)
    if path is None:
        return None
    text = "\n\n".join(message.content for message in longest_prompt(conversations).messages)
    body = msgspec.json.encode({"model": lease.served_name, descriptor.tokenizes: text, "add_special": False})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {lease.key}"}
    purpose = OutboundRequest(Purpose(why=ConnectionReason.ATTACHED, about=lease.model))
    try:
        with purpose.as_current():
            async with services.http.post(
                lease.base_url + path, data=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                tokens = decode_reply(await response.read(), TokenizeReply).tokens
    except (OSError, aiohttp.ClientError, RoundhouseError):
        return None
    return len(text) / len(tokens) if tokens else None
