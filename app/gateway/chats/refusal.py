"""An engine's refusal to answer, said for the reader of a chat.

llama-server says how long the conversation is and what fits; others only write a text, which is quoted.
"""

import msgspec

from app.core.errors import EngineFailed

_CONTEXT = "exceed_context_size_error"
_LONGEST_TEXT = 500


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class _Refusal(msgspec.Struct, frozen=True):
    error: _Error | str = ""


def refusal(body: bytes) -> EngineFailed:
    """Return the error that an engine's error document, or its error event, stands for."""
    error = _decoded(body)
    if error.type == _CONTEXT:
        return _too_long(error)
    return EngineFailed(
        f"The engine refused to answer: {error.message or 'it did not say why.'}",
        hint="The model's log may say more.",
        code="engine_refused",
    )


def _too_long(error: _Error) -> EngineFailed:
    counts = "This conversation is longer than the model's context."
    if error.n_prompt_tokens is not None and error.n_ctx is not None:
        counts = (
            f"This conversation is {error.n_prompt_tokens:,} tokens long, "
            f"and the model keeps {error.n_ctx:,} tokens at once."
        )
    return EngineFailed(
        counts,
        hint="Begin a new chat, or raise Context in the settings if the model was made for more.",
        code="context_too_long",
    )


def _decoded(body: bytes) -> _Error:
    try:
        error = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        error = body.decode(errors="replace").strip()
    return _Error(message=error[:_LONGEST_TEXT]) if isinstance(error, str) else error
