"""LM Studio's dialects: /api/v0, with errors in OpenAI's shape, and /api/v1, with errors in its own."""

import msgspec

from app.gateway.canonical.events import Overflow
from app.gateway.dialects.openai.record import OPENAI_DIALECT, TOO_MANY, dialect_for_field
from app.gateway.dialects.record import DialectFault, DialectName, DialectRecord

NOT_IMPLEMENTED = "not_implemented"
_KINDS = frozenset({"model_not_found", "job_not_found", NOT_IMPLEMENTED})
"""Of our codes, those that are kinds of error there; its other two say whose mistake it was."""
_SERVER_ERROR = 500


class LmStudioError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened. `type` is one of LM Studio's kinds, `code` ours, which says it more exactly."""

    type: str
    message: str
    code: str = ""
    param: str = ""


class LmStudioErrorBody(msgspec.Struct, frozen=True):
    """The document around it."""

    error: LmStudioError


def shape_error(fault: DialectFault) -> LmStudioErrorBody:
    """Return the document."""
    kind, code = "internal_error" if fault.status >= _SERVER_ERROR else "invalid_request", fault.error.code
    return LmStudioErrorBody(
        LmStudioError(type=code if code in _KINDS else kind, message=fault.message, code=code, param=fault.param or "")
    )


def too_long(overflow: Overflow) -> str:
    """Return a sentence of LM Studio's kind: "greater than the context length" is what its clients look for."""
    prompt = "The prompt" if overflow.prompt is None else f"The prompt of {overflow.prompt} tokens"
    answer = "" if overflow.answer is None else f" with an answer of {overflow.answer}"
    context = "" if overflow.context is None else f" of {overflow.context}"
    help_ = "Try to load the model with a larger context length, or provide a shorter input."
    return f"{prompt}{answer} is greater than the context length{context}. {help_}"


def _v0_record(openai: DialectRecord, path: str) -> DialectRecord:
    return msgspec.structs.replace(openai, name=DialectName.LM_STUDIO, prefixes=(f"/api/v0/{path}",), paths=frozenset())


LM_STUDIO_V0 = _v0_record(OPENAI_DIALECT, "")
LM_STUDIO_V0_TEXTS = _v0_record(dialect_for_field("prompt"), "completions")
LM_STUDIO_V0_VECTORS = _v0_record(dialect_for_field("input"), "embeddings")
LM_STUDIO_V1 = DialectRecord(
    name=DialectName.LM_STUDIO,
    shape=shape_error,
    too_long=too_long,
    field="input",
    prefixes=("/api/v1/",),
    overloaded=TOO_MANY,
)
