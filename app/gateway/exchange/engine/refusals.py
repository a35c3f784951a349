"""What an engine says instead of an answer, as an error of ours that every dialect can put into its own shape."""

from app.core.errors import BadRequest, EngineFailed, RoundhouseError, Unavailable
from app.gateway.exchange.engine.error_document import NO_REASON, Refused, understood

_SERVER_ERROR = 500
_UNAVAILABLE = 503
_NOT_IMPLEMENTED = 501
_LONGEST_TEXT = 2000


class ContextOverflow(BadRequest):
    """The prompt does not fit. The counts are there if the engine told them."""

    default_code = "context_length_exceeded"

    def __init__(
        self,
        sentence: str,
        *,
        prompt_tokens: int | None = None,
        context: int | None = None,
        hint: str = "Shorten it, or ask for a larger context.",
    ) -> None:
        super().__init__(sentence, hint=hint)
        self.prompt_tokens = prompt_tokens
        self.context = context


def refused(body: bytes, status: int = _SERVER_ERROR) -> RoundhouseError:
    """Return the error for an engine's error document, or for an error event in its stream (without a status)."""
    told = understood(body, status)
    if told.is_too_long:
        return _too_long(told)
    said = told.message.strip()[:_LONGEST_TEXT] or NO_REASON
    status = told.code if isinstance(told.code, int) else told.status
    if status == _UNAVAILABLE:
        return Unavailable(said, code="engine_busy")
    if status < _SERVER_ERROR or status == _NOT_IMPLEMENTED:
        return BadRequest(said, code=str(told.code) if told.param and told.code else "engine_refused")
    return EngineFailed(said, code="engine_error")


def _too_long(told: Refused) -> ContextOverflow:
    sentence = "The prompt is longer than the model's context."
    if told.prompt_tokens is not None and told.context is not None:
        sentence = (
            f"The prompt exceeds the context length: it has {told.prompt_tokens} tokens, "
            f"and the model keeps {told.context} at once."
        )
    if told.answer_tokens is not None:
        sentence = (
            f"The prompt and the answer asked for exceed the context length: {told.prompt_tokens} and "
            f"{told.answer_tokens} tokens, and the model keeps {told.context} at once."
        )
        hint = "Ask for a shorter answer, shorten the prompt, or ask for a larger context."
        return ContextOverflow(sentence, prompt_tokens=told.prompt_tokens, context=told.context, hint=hint)
    return ContextOverflow(sentence, prompt_tokens=told.prompt_tokens, context=told.context)
