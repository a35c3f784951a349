"""An engine's refusal in Anthropic's words."""

from app.gateway.engine_errors import Refused


def refusal_sentence(refused: Refused) -> str:
    """Return what an engine refused for: Claude Code looks for Anthropic's words about a prompt that is too long."""
    if refused.is_too_long and refused.prompt_tokens is not None and refused.context is not None:
        return f"prompt is too long: {refused.prompt_tokens} tokens > {refused.context} maximum"
    return f"prompt is too long: {refused.message}" if refused.is_too_long else refused.message
