"""Why an engine did not answer, said for the reader of a chat."""

from app.core.errors import EngineFailed, ErrorBody, RoundhouseError
from app.gateway.exchange.engine.error_document import NO_REASON
from app.gateway.exchange.engine.refusals import ContextOverflow

_ENGINES_WORDS = frozenset({"engine_refused", "engine_error", "engine_busy"})
_LONGEST_TEXT = 500


def said_to_reader(error: RoundhouseError) -> RoundhouseError:
    """Return an error as the reader of a chat can do something about it."""
    if not isinstance(error, ContextOverflow):
        return from_engine(error.body) if error.code in _ENGINES_WORDS else error
    counts = "This conversation is longer than the model's context."
    if error.prompt_tokens is not None and error.context is not None:
        counts = (
            f"This conversation is {error.prompt_tokens:,} tokens long, "
            f"and the model keeps {error.context:,} tokens at once."
        )
    return EngineFailed(
        counts,
        hint="Begin a new chat, or raise Context in the settings if the model was made for more.",
        code="context_too_long",
    )


def from_engine(body: ErrorBody) -> EngineFailed:
    """Return the error that an answer ended with; an engine's own words are quoted."""
    if body.code not in _ENGINES_WORDS:
        return EngineFailed(body.sentence, hint=body.hint, code=body.code)
    reason = "it did not say why." if body.sentence == NO_REASON else body.sentence[:_LONGEST_TEXT]
    return EngineFailed(
        f"The engine refused to answer: {reason}",
        hint="The model's log may say more.",
        code="engine_refused",
    )
