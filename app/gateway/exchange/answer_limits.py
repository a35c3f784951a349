"""An answer's limit that does not fit: what an engine that refuses it is asked for instead.

Agents ask for their model's whole context (131,072 tokens, 65,536, 32,000), whatever their prompt takes of it.
llama.cpp takes any limit and stops where its context ends; vLLM, SGLang, TGI and many endpoints refuse. The refusal
says how much there is, so the same request is sent again with what is left. Where little is left the refusal is handed
on, in the words of the client's dialect: agents shorten the conversation on them, which is better than half a tool
call.
"""

from collections.abc import Mapping

import msgspec

from app.gateway.exchange.engine.error_document import parse_refusal

MOST_CUTS = 3
"""Of one request: some engines name a bound first, and the exact count only once the answer asked for is shorter."""
_LEAST_ANSWER = 256
"""Tokens that a cut answer must have room for: a tool call with its arguments."""
_UNCOUNTED_SHARE = 4
"""Of a context whose prompt nobody counted, an answer is asked for one part in so many."""
_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict")
"""What engines' routes call it."""


class _AnswerLimits(msgspec.Struct, frozen=True):
    max_tokens: int | float | None = None
    max_completion_tokens: int | float | None = None
    max_output_tokens: int | float | None = None
    n_predict: int | float | None = None


def fitting_limit(body: bytes, refusal: bytes, status: int) -> int | None:
    """Return the limit to ask for instead of a request's own; None where no shorter answer would help."""
    room = _room_in(refusal, status)
    return room if room is not None and room >= _LEAST_ANSWER and limit_changes(body, room) else None


def limit_changes(body: bytes, most: int) -> Mapping[str, object]:
    """Return the fields of a request that allow more than `most` tokens, with that instead; none of what is no JSON."""
    try:
        limits = msgspec.json.decode(body, type=_AnswerLimits)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return {name: most for name in _NAMES if (getattr(limits, name) or 0) > most}


def _room_in(refusal: bytes, status: int) -> int | None:
    """Return how long an answer may be, as an engine's refusal tells; None where it tells of something else."""
    parsed_refusal = parse_refusal(refusal, status)
    if parsed_refusal.overflow is None:
        return parsed_refusal.most_answer
    context, prompt = parsed_refusal.overflow.context, parsed_refusal.overflow.prompt
    if context is None:
        return None
    return context // _UNCOUNTED_SHARE if prompt is None else context - prompt
