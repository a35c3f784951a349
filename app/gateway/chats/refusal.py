"""An engine's refusal to answer, said for the reader of a chat."""

from app.core.errors import EngineFailed
from app.gateway.canonical.overflow import Overflow
from app.gateway.exchange.engine.error_document import understood

_LONGEST_TEXT = 500
_SERVER_ERROR = 500


def refusal(body: bytes, status: int = _SERVER_ERROR) -> EngineFailed:
    """Return the error that an engine's error document, or its error event, stands for."""
    refused = understood(body, status)
    if refused.overflow is not None:
        return _too_long(refused.overflow)
    return EngineFailed(
        f"The engine refused to answer: {refused.message[:_LONGEST_TEXT] or 'it did not say why.'}",
        hint="The model's log may say more.",
        code="engine_refused",
    )


def _too_long(overflow: Overflow) -> EngineFailed:
    sentence = "This conversation is longer than the model's context."
    hint = "Begin a new chat, or raise Context in the settings if the model was made for more."
    if overflow.prompt is not None and overflow.context is not None:
        answer = "" if overflow.answer is None else f", its answer may have {overflow.answer:,}"
        sentence = (
            f"This conversation is {overflow.prompt:,} tokens long{answer}, "
            f"and the model keeps {overflow.context:,} tokens at once."
        )
    if overflow.answer is not None:
        hint = "Lower Longest answer in the chat's settings, or begin a new chat."
    return EngineFailed(sentence, hint=hint, code="context_too_long")
