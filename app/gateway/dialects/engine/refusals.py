"""What an engine says instead of an answer, as an error of ours that every dialect can put into its own shape."""

import msgspec

from app.core.errors import BadRequest, EngineFailed, RoundhouseError, Unavailable

_CONTEXT = "exceed_context_size_error"
"""llama-server's word, with both counts beside it."""
_SERVER_ERROR = 500
_UNAVAILABLE = 503
_NOT_IMPLEMENTED = 501
_LONGEST_TEXT = 2000


class ContextOverflow(BadRequest):
    """The prompt does not fit. The counts are there if the engine told them."""

    default_code = "context_length_exceeded"

    def __init__(self, sentence: str, *, prompt_tokens: int | None = None, context: int | None = None) -> None:
        super().__init__(sentence, hint="Shorten it, or ask for a larger context.")
        self.prompt_tokens = prompt_tokens
        self.context = context


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    type: str | None = None
    code: int | str | None = None
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class _Document(msgspec.Struct, frozen=True):
    error: _Error | str | None = None
    detail: object = None
    message: str = ""


def refused(body: bytes, status: int = _SERVER_ERROR) -> RoundhouseError:
    """Return the error for an engine's error document, or for an error event in its stream (without a status)."""
    error = _decoded(body)
    if error.type == _CONTEXT:
        return _too_long(error)
    said = error.message.strip()[:_LONGEST_TEXT] or "The engine refused the request and did not say why."
    status = error.code if isinstance(error.code, int) else status
    if status == _UNAVAILABLE:
        return Unavailable(said, code="engine_busy")
    if status < _SERVER_ERROR or status == _NOT_IMPLEMENTED:
        return BadRequest(said, code="engine_refused")
    return EngineFailed(said, code="engine_error")


def _too_long(error: _Error) -> ContextOverflow:
    sentence = "The prompt is longer than the model's context."
    if error.n_prompt_tokens is not None and error.n_ctx is not None:
        sentence = (
            f"The prompt exceeds the context length: it has {error.n_prompt_tokens} tokens, "
            f"and the model keeps {error.n_ctx} at once."
        )
    return ContextOverflow(sentence, prompt_tokens=error.n_prompt_tokens, context=error.n_ctx)


def _decoded(body: bytes) -> _Error:
    try:
        said = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Error(message=body.decode(errors="replace"))
    if isinstance(said.error, _Error):
        return said.error
    return _Error(message=said.error or said.message or (str(said.detail) if said.detail else ""))
