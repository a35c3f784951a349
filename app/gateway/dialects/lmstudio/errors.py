"""How LM Studio's `/api/v1` says that something went wrong. Its `/api/v0` has OpenAI's shape of error."""

import msgspec

from app.gateway.canonical.overflow import Overflow
from app.gateway.dialects.record import Fault

NOT_IMPLEMENTED = "not_implemented"
_KINDS = frozenset({"model_not_found", "job_not_found", NOT_IMPLEMENTED})
"""Of our codes, those that are kinds of error there; its other two say whose mistake it was."""
_SERVER_ERROR = 500


class Error(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened. `type` is one of LM Studio's kinds, `code` ours, which says it more exactly."""

    type: str
    message: str
    code: str = ""
    param: str = ""


class ErrorDocument(msgspec.Struct, frozen=True):
    """The document around it."""

    error: Error


def shape(fault: Fault) -> ErrorDocument:
    """Return the document."""
    kind, code = "internal_error" if fault.status >= _SERVER_ERROR else "invalid_request", fault.error.code
    return ErrorDocument(
        Error(type=code if code in _KINDS else kind, message=fault.message, code=code, param=fault.param or "")
    )


def too_long(overflow: Overflow) -> str:
    """Return a sentence of LM Studio's kind: "greater than the context length" is what its clients look for."""
    prompt = "The prompt" if overflow.prompt is None else f"The prompt of {overflow.prompt} tokens"
    answer = "" if overflow.answer is None else f" with an answer of {overflow.answer}"
    context = "" if overflow.context is None else f" of {overflow.context}"
    help_ = "Try to load the model with a larger context length, or provide a shorter input."
    return f"{prompt}{answer} is greater than the context length{context}. {help_}"
