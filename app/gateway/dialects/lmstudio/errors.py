"""How LM Studio's `/api/v1` says that something went wrong. Its `/api/v0` has OpenAI's shape of error."""

import msgspec

from app.core.errors import ErrorBody

V0_PREFIX = "/api/v0/"
V1_PREFIX = "/api/v1/"
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


def error_document(body: ErrorBody, status: int, param: str | None = None) -> ErrorDocument:
    """Return the error as LM Studio's clients read it; the hint follows the sentence."""
    kind = "internal_error" if status >= _SERVER_ERROR else "invalid_request"
    return ErrorDocument(
        Error(
            type=body.code if body.code in _KINDS else kind,
            message=body.text,
            code=body.code,
            param=param or "",
        )
    )
