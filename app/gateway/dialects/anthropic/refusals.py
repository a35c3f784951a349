"""An engine's refusal in Anthropic's words."""

from app.gateway.exchange.engine.error_document import Refused


def refusal_sentence(refused: Refused) -> str:
    """Return what an engine refused for: Claude Code looks for Anthropic's words about what does not fit."""
    if refused.answer_tokens is not None:
        sum_ = f"{refused.prompt_tokens} + {refused.answer_tokens} > {refused.context}"
        return f"input length and `max_tokens` exceed context limit: {sum_}, decrease input length or `max_tokens`"
    if refused.is_too_long and refused.prompt_tokens is not None and refused.context is not None:
        return f"prompt is too long: {refused.prompt_tokens} tokens > {refused.context} maximum"
    return f"prompt is too long: {refused.message}" if refused.is_too_long else refused.message
