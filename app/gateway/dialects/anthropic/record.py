"""Anthropic's dialect: its addresses, its errors, whose types follow from the status, and its words for a long prompt.

Its own routes are its, and whatever is asked below /v1 by a client that names the version of Anthropic's API.
"""

import math
from datetime import UTC, datetime

import msgspec

from app.gateway.canonical.events import Overflow
from app.gateway.dialects.record import DialectFault, DialectName, DialectRecord, RateState
from app.gateway.exchange.engine.error_document import EngineRefusal

OVERLOADED = 529
"""Anthropic's own status for "not now"; its clients try again."""
_SERVER_ERROR = 500
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}


class AnthropicError(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong."""

    type: str
    message: str


class AnthropicErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The document around it, which is also the data of an `error` event."""

    error: AnthropicError
    type: str = "error"
    request_id: str | None = None


def anthropic_error(message: str, status: int, request_id: str | None = None) -> AnthropicErrorBody:
    """Return the document for a sentence that is sent with this status."""
    kind = _TYPES.get(status, "api_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return AnthropicErrorBody(error=AnthropicError(type=kind, message=message), request_id=request_id)


def shape_error(fault: DialectFault) -> AnthropicErrorBody:
    """Return the document for an error of ours."""
    return anthropic_error(fault.message, fault.status, fault.request_id)


def too_long(overflow: Overflow) -> str:
    """Return Anthropic's own words: Claude Code asks for less after the first, and compacts after the second."""
    prompt, context = overflow.prompt, overflow.context
    if overflow.answer is not None:
        total = f"{prompt} + {overflow.answer} > {context}"
        return (
            f"input length and `max_tokens` exceed context limit: {total}, "
            "decrease input length or `max_tokens` and try again"
        )
    if prompt is not None and context is not None:
        return f"prompt is too long: {prompt} tokens > {context} maximum"
    return "prompt is too long" if context is None else f"prompt is too long: more than the maximum of {context} tokens"


def rate_headers(state: RateState) -> list[tuple[str, str]]:
    """Return Anthropic's headers for a limit."""
    reset_at = datetime.fromtimestamp(math.ceil(state.reset_at), UTC)
    return [
        (f"anthropic-ratelimit-{state.unit}-limit", str(state.limit)),
        (f"anthropic-ratelimit-{state.unit}-remaining", str(state.remaining)),
        (f"anthropic-ratelimit-{state.unit}-reset", f"{reset_at:%Y-%m-%dT%H:%M:%SZ}"),
    ]


ANTHROPIC_DIALECT = DialectRecord(
    name=DialectName.ANTHROPIC,
    shape=shape_error,
    too_long=too_long,
    prefixes=("/v1/messages",),
    header="anthropic-version",
    shared=("/v1/",),
    overloaded=OVERLOADED,
    unavailable=OVERLOADED,
    rate_headers=rate_headers,
)


def refusal_document(refusal: EngineRefusal, request_id: str | None = None) -> AnthropicErrorBody:
    """Return the document."""
    return anthropic_error(ANTHROPIC_DIALECT.word_message(refusal.text, refusal.overflow), refusal.status, request_id)
