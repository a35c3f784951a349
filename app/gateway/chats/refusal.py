"""Why an engine did not answer, said for the reader of a chat."""

from app.core.errors import EngineFailed, RoundhouseError
from app.gateway.canonical.events import Failed, failed
from app.gateway.canonical.overflow import ContextOverflow, Overflow
from app.gateway.exchange.engine.error_document import NO_REASON

_ENGINES_WORDS = frozenset({"engine_refused", "engine_error", "engine_busy"})
_LONGEST_TEXT = 500


def said_to_reader(error: RoundhouseError) -> RoundhouseError:
    """Return an error as the reader of a chat can do something about it."""
    is_engines = isinstance(error, ContextOverflow) or error.code in _ENGINES_WORDS
    return from_engine(failed(error)) if is_engines else error


def from_engine(end: Failed) -> EngineFailed:
    """Return the error that an answer ended with; an engine's own words are quoted."""
    if end.overflow is not None:
        return _too_long(end.overflow)
    body = end.error
    if body.code not in _ENGINES_WORDS:
        return EngineFailed(body.sentence, hint=body.hint, code=body.code)
    reason = "it did not say why." if body.sentence == NO_REASON else body.sentence[:_LONGEST_TEXT]
    return EngineFailed(
        f"The engine refused to answer: {reason}",
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
