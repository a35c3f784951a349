"""Google's dialect: its addresses, its errors, whose status is a word of gRPC's, and its words for a long prompt.

What is below /v1/models is its where a client names its version of Google's SDK.
"""

import msgspec

from app.gateway.canonical.events import Overflow
from app.gateway.dialects.record import DialectFault, DialectName, DialectRecord

PREFIXES = ("/v1beta", "/v1")
"""Of the versions of Google's API. The latter has OpenAI's routes too; only the verbs after a colon are Google's."""
_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""google/rpc/code.proto: the code for each HTTP status."""
_SERVER_ERROR = 500


class GoogleErrorInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="@type", tag="google.rpc.ErrorInfo"):
    """A detail: our own code for what is wrong."""

    reason: str
    domain: str = "roundhouse"


class GoogleError(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong. `code` is the HTTP status again."""

    code: int
    message: str
    status: str
    details: list[GoogleErrorInfo] = []


class GoogleErrorBody(msgspec.Struct, frozen=True):
    """The document around it, which also ends a stream that cannot go on."""

    error: GoogleError


def shape_error(fault: DialectFault) -> GoogleErrorBody:
    """Return the document."""
    word = _WORDS.get(fault.status, "INTERNAL" if fault.status >= _SERVER_ERROR else "FAILED_PRECONDITION")
    details = [GoogleErrorInfo(reason=fault.error.code.upper())]
    return GoogleErrorBody(GoogleError(code=fault.status, message=fault.message, status=word, details=details))


def too_long(overflow: Overflow) -> str:
    """Return the words of Google's own endpoint."""
    prompt = "" if overflow.prompt is None else f" ({overflow.prompt})"
    answer = "" if overflow.answer is None else f" with an answer of {overflow.answer} tokens"
    context = "" if overflow.context is None else f" ({overflow.context})"
    return f"The input token count{prompt}{answer} exceeds the maximum number of tokens allowed{context}."


GOOGLE_DIALECT = DialectRecord(
    name=DialectName.GOOGLE,
    shape=shape_error,
    too_long=too_long,
    field="contents",
    prefixes=("/v1beta/",),
    header="x-goog-api-client",
    shared=("/v1/models",),
    charset="utf-8",
)
