"""How many tokens a prompt has, where an engine has no route for that: it writes the prompt down, and counts it."""

import msgspec

from app.gateway.exchange.engine.answers import Prompt, Tokens, understood
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import fetch
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest


async def count_prompt(engines: EngineAccess, upstream: UpstreamRequest, tokenize: str, observed: Observation) -> int:
    """Return the tokens of the prompt that `upstream` has an engine write; `tokenize` is the path that counts them.

    Raises EngineFailed if an answer is not as expected, or as `fetch` does.
    """
    prompt = understood(await fetch(engines, upstream, observed), Prompt).prompt
    body = msgspec.json.encode({"content": prompt, "add_special": True, "parse_special": True})
    answer = await fetch(engines, msgspec.structs.replace(upstream, path=tokenize, body=body), observed)
    return len(understood(answer, Tokens).tokens)
