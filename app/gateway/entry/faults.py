"""How an error looks on the wire: in the shape of the dialect it is an answer in, our own elsewhere.

OpenAI's is below /v1 and LM Studio's /api/v0, LM Studio's own below /api/v1, Ollama's elsewhere below /api; Anthropic's
is for its own routes, and wherever a client names its version.
The sentence is the same everywhere.
"""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from aiohttp import hdrs, web

from app.core.errors import BadRequest, ErrorBody, Forbidden, NotFound, Overloaded, RoundhouseError, TooLarge, UserError
from app.gateway.dialects.anthropic.errors import document, status_of
from app.gateway.dialects.lmstudio.errors import V0_PREFIX, V1_PREFIX, error_document
from app.supervisor.messages import Reason
from engines.api import NEVER_RETRY_UNCHANGED

OPENAI_PREFIX = "/v1/"
OLLAMA_PREFIX = "/api/"
_ANTHROPIC_PREFIX = "/v1/messages"
ANTHROPIC_VERSION = "anthropic-version"
"""The header every client of Anthropic's sends."""
LLAMA_SERVER_PATHS = frozenset(
    {"/infill", "/tokenize", "/detokenize", "/apply-template", "/rerank", "/reranking", "/v2/rerank"}
)
"""llama-server's own routes, and Cohere's, whose errors look like OpenAI's."""
_PARAMS = {
    "model_not_found": "model",
    "model_required": "model",
    "input_required": "input",
    "previous_response_not_found": "previous_response_id",
    "invalid_tools": "tools",
}
"""By our code, the field of a request that is wrong."""
_OF_A_FIELD = frozenset({"invalid_value", "unsupported_parameter"})
_FIELD = re.compile(r"at `\$\.([^`]+)`|^`([\w.\[\]]+)`")
"""Where such a sentence says which field it is about: msgspec's at its end, our own at the beginning."""
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_SERVER_ERROR = 500
_TOO_MANY = 429
_JSON = "application/json"
_MIB = 1024 * 1024


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


def too_large(limit_bytes: int) -> TooLarge:
    """Return the error for a body above `gateway.max_body_mib`."""
    return TooLarge(
        f"The request is larger than {limit_bytes // _MIB} MiB.",
        hint="The setting gateway.max_body_mib is the limit.",
    )


def ollama_error(body: ErrorBody) -> OllamaError:
    """Return the error as Ollama's clients read it."""
    return OllamaError(body.text)


def openai_error(body: ErrorBody, status: int, param: str | None = None) -> OpenAIErrorBody:
    """Return the error as OpenAI's clients read it; the hint follows the sentence, which is all they show."""
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return OpenAIErrorBody(OpenAIError(message=body.text, type=kind, param=param, code=body.code))


def is_anthropic(path: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a request is made in Anthropic's dialect."""
    is_named = path.startswith(OPENAI_PREFIX) and ANTHROPIC_VERSION in headers
    return path.startswith(_ANTHROPIC_PREFIX) or is_named


def error_response(
    path: str, error: RoundhouseError, *, headers: Mapping[str, str] = MappingProxyType({}), request_id: str = ""
) -> web.Response:
    """Return the answer for an error on this path; `headers` are the request's."""
    status = _status(path, error)
    body = _shaped(path, error, status)
    if is_anthropic(path, headers):
        body, status = document(error, request_id or None), status_of(error)
    charset = "utf-8" if isinstance(body, OllamaError) else None  # which Ollama says with every document
    response = web.Response(body=msgspec.json.encode(body), status=status, content_type=_JSON, charset=charset)
    if isinstance(error, Overloaded):
        response.headers[hdrs.RETRY_AFTER] = str(math.ceil(error.retry_s))
    if error.code in NEVER_RETRY_UNCHANGED or error.code == Reason.PAUSED:
        # The SDKs repeat every 5xx twice unless told: a model that does not fit will not fit the third time, and a
        # pause ends when a person says so.
        response.headers["x-should-retry"] = "false"
    return response


def _status(path: str, error: RoundhouseError) -> int:
    """Return the status. OpenAI's clients know 429 for what is busy; Ollama's, and llama-server's, know 503."""
    is_openai = path.startswith((OPENAI_PREFIX, V0_PREFIX, V1_PREFIX))
    return _TOO_MANY if is_openai and isinstance(error, Overloaded) else error.status


def _shaped(path: str, error: RoundhouseError, status: int) -> msgspec.Struct:
    if path.startswith((OPENAI_PREFIX, V0_PREFIX)) or path in LLAMA_SERVER_PATHS:
        return openai_error(error.body, status, _param(error))
    if path.startswith(V1_PREFIX):
        return error_document(error.body, status, _param(error))
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
    if error.code in _PARAMS:
        return _PARAMS[error.code]
    found = _FIELD.search(error.body.sentence) if error.code in _OF_A_FIELD else None
    return found and (found[1] or found[2])
