"""Errors in OpenAI's shape, which LM Studio's `/api/v0` and llama-server's routes have too."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from app.gateway.dialects.record import Fault

_TYPES: Mapping[int, str] = MappingProxyType(
    {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
)
_SERVER_ERROR = 500


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


def shape(fault: Fault) -> OpenAIErrorBody:
    """Return the document."""
    error = OpenAIError(message=fault.message, type=error_type(fault.status), param=fault.param, code=fault.error.code)
    return OpenAIErrorBody(error)
