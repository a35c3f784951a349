"""OpenAI's Responses: its dialect, with other words for a prompt that is too long."""

import msgspec

from app.gateway.canonical.events import Overflow
from app.gateway.dialects.openai.record import dialect_for_field


def too_long(overflow: Overflow) -> str:
    """Return OpenAI's own words, and the counts after them."""
    sentence = "Your input exceeds the context window of this model"
    if overflow.context is None:
        return f"{sentence}. Please adjust your input and try again."
    sentence = f"{sentence}: this model's maximum context length is {overflow.context} tokens"
    if overflow.prompt is None:
        return f"{sentence}."
    answer = "" if overflow.answer is None else f" and the answer asked for {overflow.answer}"
    return f"{sentence}, and your input has {overflow.prompt}{answer}."


RESPONSES_DIALECT = msgspec.structs.replace(dialect_for_field("input"), too_long=too_long, prefixes=("/v1/responses",))
