"""What every request passes through: a name for it, the guard, its key, CORS, and errors in the right shape.

Nothing raised below gets out as a traceback: errors of ours say their sentence, anything else is a bug, with a request
id that finds it in the log.

Who makes a request, told from its head: which program, from where, in which dialect.
"""

import logging
import random
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.typedefs import Handler

from app.config.profiles import REQUEST_PROFILE
from app.core.api import PREFIX
from app.core.errors import Bug, EnvironmentFault, Forbidden, RoundhouseError, is_disk_full, write_fault
from app.core.profiles import PROFILE_HEADER
from app.core.requests import Peer
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.record import DialectName
from app.gateway.dialects.registry import dialect_of
from app.gateway.entry.access import Access
from app.gateway.entry.bodies import ACCEPTED_ENCODINGS, UnsupportedEncoding
from app.gateway.entry.faults import error_response, from_http
from app.gateway.entry.guard import Guard, preflight_headers
from app.gateway.entry.responses import ARRIVAL_S, GUARD, REQUEST_ID, send_response
from app.gateway.exchange.engine.error_document import parse_refusal
from app.gateway.exchange.observer import (
    BODY_BYTES,
    OBSERVATION,
    Caller,
    ExchangeOutcome,
    Observation,
    Observers,
    RequestStopped,
)
from app.gateway.loading.requested_model import KEY_MODELS
from app.supervisor.lease import CLIENT

log = logging.getLogger(__name__)


_CLIENT_ERROR = 400
_CHALLENGE = 'Bearer realm="Roundhouse"'
_BREAKS_OFF = frozenset({408, 413})
"""Answered before the body was read: the connection cannot be used again."""


class Entry:
    """The way in. Belongs to the application it is made for."""

    def __init__(self, guard: Guard, access: Access, observers: Observers) -> None:
        self._guard, self._access, self._observers = guard, access, observers

    @web.middleware
    async def answer_routed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let the handler answer that aiohttp's router found."""
        resource = request.match_info.route.resource
        return await self.answer_request(request, handler, request.path if resource is None else resource.canonical)

    async def answer_request(self, request: web.Request, handler: Handler, path: str) -> web.StreamResponse:
        """Let the handler answer, or say what is wrong. `path` is the route's, however its address was written."""
        request_id = f"req_{random.getrandbits(96):024x}"
        request[REQUEST_ID], request[ARRIVAL_S] = request_id, time.perf_counter()
        REQUEST_PROFILE.set(request.headers.get(PROFILE_HEADER))  # a connection's next request has the same context
        KEY_MODELS.set(())
        if request.method != hdrs.METH_POST or path.startswith(PREFIX):  # no model is asked anything
            return await self._call_handler(request, handler, path)
        keeps_bodies = self._observers.keep_bodies() or self._observers.traces_contents
        caller = caller_of(request, request_id, keeps_bodies=keeps_bodies)
        request[OBSERVATION] = observation = Observation(caller, self._observers, request.task)
        if self._observers.begin_trace is not None:
            observation.trace = self._observers.begin_trace(request.headers)
        CLIENT.set(f"{caller.client} {request.remote}")
        try:
            response = await self._call_handler(request, handler, path)
            observation.status = status = response.status
            if not isinstance(response, web.Response):
                return response
            if status >= _CLIENT_ERROR and isinstance(response.body, bytes):
                observation.error = observation.error or parse_refusal(response.body, status).text
                observation.kept_answer = response.body[:BODY_BYTES] if caller.keeps_bodies else b""
            return await send_response(request, response)
        finally:
            observation.end()

    async def _call_handler(self, request: web.Request, handler: Handler, path: str) -> web.StreamResponse:
        has_key = False
        try:
            self._guard.check_request(request)
            if request.method == hdrs.METH_OPTIONS and _is_preflight(request.headers):
                return web.Response(status=204, headers=preflight_headers(request.headers))
            has_key = self._access.check_access(request, path)
            return await handler(request)
        except RoundhouseError as error:
            if isinstance(error, RequestStopped) and request.writer.output_size:
                raise ConnectionResetError from error  # half an answer has gone out: closing the connection says it
            return _refusal_response(request, error)
        except web.HTTPException as error:
            if error.status < _CLIENT_ERROR:
                raise
            response = _refusal_response(request, from_http(error, request))
            if hdrs.ALLOW in error.headers:
                response.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
            return response
        except Exception as error:
            if request.transport is None or request.writer.output_size:
                # The client has gone, or has read half an answer: aiohttp closes the connection, which says it plainly.
                raise
            return _refusal_response(request, _report_full_disk(error) or _report_bug(request, error))
        finally:
            if has_key:
                self._access.holders.remove_request(request)


ENTRY = web.AppKey("entry", Entry)


async def send_continue(request: web.Request) -> None:
    """Tell a client that waits for it that it may send its body, unless it comes under a foreign name or page.

    This comes before `Entry.answer_request`, which then says why. Another expectation than this one is passed over.
    """
    if request.headers.get(hdrs.EXPECT, "").lower() != "100-continue" or request.version < HttpVersion11:
        return
    try:
        request.app[GUARD].check_request(request)
    except Forbidden:
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer itself has not begun


def _is_preflight(headers: Mapping[str, str]) -> bool:
    return hdrs.ORIGIN in headers and hdrs.ACCESS_CONTROL_REQUEST_METHOD in headers


def _refusal_response(request: web.Request, error: RoundhouseError) -> web.Response:
    if (observation := request.get(OBSERVATION)) is not None:
        if observation.outcome is ExchangeOutcome.CLIENT_GONE:
            observation.note_failure(error)
        observation.error = error.body.text
    if isinstance(error, EnvironmentFault):
        log.error(str(error), extra={"code": error.code, "request": request[REQUEST_ID], "path": request.path})
    response = error_response(request.path, error, headers=request.headers, request_id=request[REQUEST_ID])
    if response.status == web.HTTPUnauthorized.status_code:
        response.headers[hdrs.WWW_AUTHENTICATE] = _CHALLENGE
    if isinstance(error, UnsupportedEncoding):
        response.headers[hdrs.ACCEPT_ENCODING] = ACCEPTED_ENCODINGS
    if response.status in _BREAKS_OFF:
        response.force_close()
    return response


def _report_full_disk(error: Exception) -> RoundhouseError | None:
    return write_fault("something", error) if isinstance(error, OSError) and is_disk_full(error) else None


def _report_bug(request: web.Request, error: Exception) -> Bug:
    log.error("A request failed", exc_info=error, extra={"request": request[REQUEST_ID], "path": request.path})
    return Bug(
        "Roundhouse could not answer because of a bug.",
        hint=f"Please report it with the log's entry for {request[REQUEST_ID]}.",
    )


_LONGEST_CLIENT = 60
_LONGEST_USER_AGENT = 512
"""Characters that are looked at; browsers' have less than 300."""
_LONGEST_PATH = 200
"""What tells a dialect stands before that."""
_LOOPBACK = ("127.", "::1")
_BROWSER = frozenset(
    {"Mozilla", "AppleWebKit", "Chrome", "Safari", "Gecko", "Firefox", "Version", "Mobile", "Electron"}
)
_PRODUCT = re.compile(r"([^\s/()]+)(?:/(\S+))?")
_COMMENT = re.compile(r"\([^()]*\)")


def caller_of(request: web.Request, request_id: str, *, keeps_bodies: bool) -> Caller:
    """Return who makes a request."""
    product = client_product(request.headers.get(hdrs.USER_AGENT, "")[:_LONGEST_USER_AGENT])
    is_here = (request.remote or "").startswith(_LOOPBACK) and hdrs.VIA not in request.headers
    return Caller(
        id=request_id,
        client=product.name,
        client_version=product.version,
        peer=Peer.THIS_COMPUTER if is_here else Peer.NETWORK,
        dialect=_dialect_name(request.path[:_LONGEST_PATH], is_named=ANTHROPIC_DIALECT.header in request.headers),
        path=request.path,
        keeps_bodies=keeps_bodies,
    )


@lru_cache(maxsize=256)
def _dialect_name(path: str, *, is_named: bool) -> DialectName:
    return dialect_of(path, {ANTHROPIC_DIALECT.header: ""} if is_named else {}).name


class ClientProduct(NamedTuple):
    """A program, over all its versions, and the version."""

    name: str
    version: str = ""


@lru_cache(maxsize=256)
def client_product(user_agent: str) -> ClientProduct:
    """Return the product a User-Agent names: "claude-cli" for "claude-cli/2.1 (external)", "OpenAI/Python" as it is.

    A browser's names come before that of what is built on it, so there the last one counts that is no browser's.
    """
    text = "".join(letter for letter in _COMMENT.sub(" ", user_agent) if letter.isprintable())
    products = [_split_version(*parts) for parts in _PRODUCT.findall(text)]
    if not products:
        return ClientProduct("unknown")
    first, own = products[0], [product for product in products if product.name not in _BROWSER]
    if first.name in _BROWSER:
        first = own[-1] if own else ClientProduct("browser")
    elif not first.version and len(products) > 1 and _is_version(products[1].name):  # "OpenAI/Python 3.52.0"
        first = first._replace(version=products[1].name)
    return ClientProduct(first.name[:_LONGEST_CLIENT], first.version[:_LONGEST_CLIENT])


def _split_version(name: str, rest: str) -> ClientProduct:
    """Return a product and its version, which may come after a further part: "ai-sdk/openai-compatible/3.0.37"."""
    parts = [part for part in rest.split("/") if part]
    words = [part for part in parts if not _is_version(part)]
    return ClientProduct("/".join([name, *words]), next(filter(_is_version, parts), ""))


def _is_version(word: str) -> bool:
    return word.lstrip("vV")[:1].isdigit()
