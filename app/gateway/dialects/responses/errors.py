"""What OpenAI's Responses say where a prompt is too long."""

from app.gateway.canonical.overflow import Overflow


def too_long(overflow: Overflow) -> str:
    """Return OpenAI's own words, and the counts after them."""
    told = "Your input exceeds the context window of this model"
    if overflow.context is None:
        return f"{told}. Please adjust your input and try again."
    told = f"{told}: this model's maximum context length is {overflow.context} tokens"
    if overflow.prompt is None:
        return f"{told}."
    answer = "" if overflow.answer is None else f" and the answer asked for {overflow.answer}"
    return f"{told}, and your input has {overflow.prompt}{answer}."
