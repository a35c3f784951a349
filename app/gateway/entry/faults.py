"""How an error looks on the wire: in the shape of the dialect it is an answer in, our own elsewhere.

Which address was meant by one at which there is nothing. Pure.

Most are an address of ours without its beginning (`/chat`), with it twice (`/v1/v1/models`), or misspelt.
"""

import math
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from types import MappingProxyType

import msgspec
from aiohttp import hdrs, web

from app.core.api import PREFIX
from app.core.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    Overloaded,
    RoundhouseError,
    TooLarge,
    TooManyRequests,
    UserError,
)
from app.gateway.canonical.events import failure_event
from app.gateway.dialects.openai.record import UNVERSIONED
from app.gateway.dialects.registry import dialect_of
from app.gateway.entry.key_limits import RateLimitExceeded
from app.supervisor.messages import TurnAwayReason
from engines.api import NEVER_RETRY_UNCHANGED

_JSON = "application/json"
_MIB = 1024 * 1024
_LONGEST_PATH = 200
"""Characters of an address that are told again."""


class MethodNotAllowed(UserError):
    """The route exists for other methods."""

    default_code = "method_not_allowed"
    status = 405


class RequestTimeout(UserError):
    """The request did not arrive in time."""

    default_code = "request_timeout"
    status = 408


def too_large(limit_bytes: int) -> TooLarge:
    """Return the error for a body above `gateway.max_body_mib`."""
    return TooLarge(
        f"The request is larger than {limit_bytes // _MIB} MiB.",
        hint="The limit is the setting gateway.max_body_mib.",
    )


def error_response(
    path: str, error: RoundhouseError, *, headers: Mapping[str, str] = MappingProxyType({}), request_id: str = ""
) -> web.Response:
    """Return the answer for an error on this path; `headers` are the request's."""
    dialect = dialect_of(path, headers)
    status = dialect.status_of(error)
    document = dialect.error_document(msgspec.structs.replace(failure_event(error), status=status), request_id or None)
    body = msgspec.json.encode(document)
    response = web.Response(body=body, status=status, content_type=_JSON, charset=dialect.charset)
    if wait := _retry_after(error):
        response.headers[hdrs.RETRY_AFTER] = wait
    if _is_retry_useless(error):
        # The SDKs repeat every 5xx twice unless told: a model that does not fit will not fit the third time, and a
        # pause ends when a person says so. They wait a minute at most for a limit that holds longer.
        response.headers["x-should-retry"] = "false"
    return response


def _is_retry_useless(error: RoundhouseError) -> bool:
    if isinstance(error, RateLimitExceeded):
        return not error.is_soon
    return error.code in NEVER_RETRY_UNCHANGED or error.code == TurnAwayReason.PAUSED


def _retry_after(error: RoundhouseError) -> str:
    if isinstance(error, Overloaded):
        return str(math.ceil(error.retry_s))
    return error.retry_after if isinstance(error, TooManyRequests) else ""


def from_http(error: web.HTTPException, request: web.Request) -> RoundhouseError:
    """Return our error for one that aiohttp raised: no such route, wrong method, body too large."""
    match error:
        case web.HTTPNotFound():
            return _nothing_at(request)
        case web.HTTPMethodNotAllowed(method=method, allowed_methods=allowed_methods):
            return MethodNotAllowed(
                f"This address does not accept {method}.", hint=f"Use {' or '.join(sorted(allowed_methods))}."
            )
        case web.HTTPRequestEntityTooLarge():
            return TooLarge("The request is larger than this endpoint accepts.")
        case web.HTTPForbidden():
            return Forbidden("Not allowed.")
        case _:
            return BadRequest(error.reason)


def _nothing_at(request: web.Request) -> NotFound:
    path = request.path.encode(errors="backslashreplace").decode()
    is_own = path.startswith(PREFIX)
    known_paths = {
        resource.canonical
        for resource in request.app.router.resources()
        if isinstance(resource, web.PlainResource) and resource.canonical.startswith(PREFIX) == is_own
    }
    meant_path = nearest_route(path, known_paths - UNVERSIONED)
    hint = f"Did you mean {meant_path}?" if meant_path else ""
    return NotFound(f"There is nothing at {path[:_LONGEST_PATH]}.", hint=hint, code="route_not_found")


_ALIKE = 0.8
"""Of all letters; by trial: a letter or two left out or wrong is above, another vendor's address below."""
_LONGEST = 200
"""Characters; no address of ours is half as long, and comparing takes time by the square."""


def nearest_route(path: str, known_paths: Collection[str]) -> str:
    """Return the known address that was most likely meant; "" if none is like it."""
    path = path.rstrip("/")
    if not path or len(path) > _LONGEST:
        return ""
    longer_paths = [address for address in known_paths if path.count("/") > 1 and address.startswith(f"{path}/")]
    nested_paths = [address for address in known_paths if address.endswith(path) or path.endswith(address)]
    best = max(
        longer_paths or nested_paths or known_paths,
        key=lambda address: (_route_likeness(path, address), address),
        default="",
    )
    return best if longer_paths or nested_paths or _route_likeness(path, best) >= _ALIKE else ""


def _route_likeness(path: str, address: str) -> float:
    return SequenceMatcher(None, path, address, autojunk=False).ratio()
