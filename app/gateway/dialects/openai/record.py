"""OpenAI's dialect: everything below /v1 that is nobody else's, and whatever is no dialect's at all.

LM Studio's `/api/v0` and llama-server's routes have errors of the same shape.
"""

from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType

import msgspec

from app.gateway.canonical.events import Overflow
from app.gateway.dialects.record import DialectFault, DialectName, DialectRecord, RateState

_TYPES: Mapping[int, str] = MappingProxyType(
    {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
)
_SERVER_ERROR = 500
_MINUTE_S = 60
_NOUNS = frozenset({"messages", "prompt", "input", "documents", "texts"})
"""Fields that are called what they are; what is in any other is called the prompt."""


class OpenAIError(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's error object; all four keys are always present."""

    message: str
    type: str
    param: str | None = None
    code: str | int | None = None


class OpenAIErrorBody(msgspec.Struct, frozen=True):
    """The document around it."""

    error: OpenAIError


def error_type(status: int) -> str:
    """Return OpenAI's word for the kind of error that is sent with this status."""
    return _TYPES.get(status, "server_error" if status >= _SERVER_ERROR else "invalid_request_error")


def shape_error(fault: DialectFault) -> OpenAIErrorBody:
    """Return the document."""
    error = OpenAIError(message=fault.message, type=error_type(fault.status), param=fault.param, code=fault.error.code)
    return OpenAIErrorBody(error)


def too_long(overflow: Overflow, field: str) -> str:
    """Return OpenAI's own words, for which clients that shorten and ask again look."""
    noun = field if field in _NOUNS else "prompt"
    plea = f"Please reduce the length of the {noun}"
    if overflow.context is None:
        return f"The length of your {noun} exceeds this model's maximum context length. {plea}."
    limit = f"This model's maximum context length is {overflow.context} tokens. However,"
    if overflow.prompt is None:
        return f"{limit} your {noun} resulted in more. {plea}."
    if overflow.answer is None:
        return f"{limit} your {noun} resulted in {overflow.prompt} tokens. {plea}."
    total = overflow.prompt + overflow.answer
    counts = f"({overflow.prompt} in the {noun}, {overflow.answer} in the completion)"
    return f"{limit} you requested {total} tokens {counts}. {plea} or completion."


def rate_headers(state: RateState) -> list[tuple[str, str]]:
    """Return OpenAI's headers for a limit. A duration is written as Go writes it: 6m0s, 1.25s, 0s."""
    minutes, seconds = divmod(round(state.reset_s, 3), _MINUTE_S)
    hours, minutes = divmod(int(minutes), _MINUTE_S)
    before = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return [
        (f"x-ratelimit-limit-{state.unit}", str(state.limit)),
        (f"x-ratelimit-remaining-{state.unit}", str(state.remaining)),
        (f"x-ratelimit-reset-{state.unit}", f"{before}{seconds:.3f}".rstrip("0").rstrip(".") + "s"),
    ]


TOO_MANY = 429
"""What OpenAI's clients take for "not now"."""
UNVERSIONED = frozenset({"/chat/completions", "/completions", "/embeddings", "/models"})
"""What llama-server answers without the /v1 too, for clients that were given its address alone."""


@cache
def dialect_for_field(field: str) -> DialectRecord:
    """Return OpenAI's dialect as routes speak it whose prompt is in that field of a request."""
    return DialectRecord(
        name=DialectName.OPENAI,
        shape=shape_error,
        too_long=partial(too_long, field=field),
        field=field,
        overloaded=TOO_MANY,
        rate_headers=rate_headers,
    )


OPENAI_DIALECT = msgspec.structs.replace(dialect_for_field("messages"), prefixes=("/v1/",), paths=UNVERSIONED)
OPENAI_TEXTS = msgspec.structs.replace(
    dialect_for_field("prompt"), paths=frozenset({"/v1/completions", "/completions"})
)
OPENAI_VECTORS = msgspec.structs.replace(dialect_for_field("input"), paths=frozenset({"/v1/embeddings", "/embeddings"}))
