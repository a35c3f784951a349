"""How an error looks on the wire: OpenAI's shape below /v1, Ollama's below /api, our own elsewhere.

The sentence is the same everywhere.
"""

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, ErrorBody, Forbidden, NotFound, RoundhouseError, TooLarge, UserError
from engines.api import NEVER_RETRY_UNCHANGED

OPENAI_PREFIX = "/v1/"
OLLAMA_PREFIX = "/api/"
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_SERVER_ERROR = 500
_JSON = "application/json"


class MethodNotAllowed(UserError):
    """The route exists for other methods."""

    default_code = "method_not_allowed"
    status = 405


class RequestTimeout(UserError):
    """The request did not arrive in time."""

    default_code = "request_timeout"
    status = 408


class OpenAIError(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's error object; all four keys are always present."""

    message: str
    type: str
    param: str | None = None
    code: str | int | None = None


class OpenAIErrorBody(msgspec.Struct, frozen=True):
    """The document around it."""

    error: OpenAIError


class OllamaError(msgspec.Struct, frozen=True):
    """Ollama's error document, and the last line of a stream of its that cannot go on."""

    error: str


def ollama_error(body: ErrorBody) -> OllamaError:
    """Return the error as Ollama's clients read it."""
    return OllamaError(f"{body.sentence} {body.hint}".strip())


def openai_error(body: ErrorBody, status: int, param: str | None = None) -> OpenAIErrorBody:
    """Return the error as OpenAI's clients read it; the hint follows the sentence, which is all they show."""
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= _SERVER_ERROR else "invalid_request_error")
    message = f"{body.sentence} {body.hint}".strip()
    return OpenAIErrorBody(OpenAIError(message=message, type=kind, param=param, code=body.code))


def error_response(path: str, error: RoundhouseError) -> web.Response:
    """Return the answer for an error on this path."""
    response = web.Response(body=msgspec.json.encode(_shaped(path, error)), status=error.status, content_type=_JSON)
    if error.code in NEVER_RETRY_UNCHANGED:
        # OpenAI's SDKs repeat every 5xx twice unless told: a model that does not fit will not fit the third time.
        response.headers["x-should-retry"] = "false"
    return response


def _shaped(path: str, error: RoundhouseError) -> msgspec.Struct:
    if path.startswith(OPENAI_PREFIX):
        return openai_error(error.body, error.status, _param(error))
    if path.startswith(OLLAMA_PREFIX):
        return ollama_error(error.body)
    return error.body


def in_band(error: RoundhouseError) -> bytes:
    """Return the server-sent event that ends a stream which cannot go on."""
    return b"data: " + msgspec.json.encode(openai_error(error.body, error.status)) + b"\n\n"


def from_http(error: web.HTTPException) -> RoundhouseError:
    """Return our error for one that aiohttp raised: no such route, wrong method, body too large."""
    match error:
        case web.HTTPNotFound():
            return NotFound("There is nothing at this address.", code="route_not_found")
        case web.HTTPMethodNotAllowed(method=method, allowed_methods=allowed):
            return MethodNotAllowed(
                f"This address does not take {method}.", hint=f"Use {' or '.join(sorted(allowed))}."
            )
        case web.HTTPRequestEntityTooLarge():
            return TooLarge("The request is larger than this endpoint accepts.")
        case web.HTTPForbidden():
            return Forbidden("Not allowed.")
        case _:
            return BadRequest(error.reason)


def _param(error: RoundhouseError) -> str | None:
    return "model" if error.code in ("model_not_found", "model_required") else None
