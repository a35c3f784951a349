"""Write a response's head and body straight to the client's transport: whole answers, and how streams begin.

aiohttp's own way makes a header table, calls hooks and encodes for every response, which takes longer than all else
that is done for a short answer. What is not written here (files, event streams of the window) goes that way.
"""

import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.http import SERVER_SOFTWARE

from app.gateway.dialects.registry import dialect_of
from app.gateway.entry.guard import Guard, cors_headers
from app.gateway.entry.key_limits import KEY_USE, KeyUse

GUARD = web.AppKey("guard", Guard)
REQUEST_ID = web.RequestKey("request_id", str)
ARRIVAL_S = web.RequestKey("arrived", float)
"""`time.perf_counter()` when the request's head had been read."""

_PHRASES: Mapping[int, str] = {status.value: status.phrase for status in HTTPStatus}
_JOINED_BYTES = 64 * 1024
"""A larger body is not copied to stand behind its head."""


class DirectResponse(web.StreamResponse):
    """A response whose bytes are with the client's transport: aiohttp has only to go on with the connection."""

    keep_alive = False
    """Whether the connection takes another request."""

    def __init__(self, status: int, *, keep_alive: bool) -> None:
        super().__init__(status=status)
        self.keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing."""


@lru_cache(maxsize=64)
def direct_response(status: int, *, keep_alive: bool) -> DirectResponse:
    """Return a response of these values. It has nothing of its own, so all of them are one."""
    return DirectResponse(status, keep_alive=keep_alive)


def own_headers(request: web.Request) -> list[tuple[str, str]]:
    """Return the headers of every response: the request's id and time, and leave for pages we allow to read it."""
    request_id, took_s = request[REQUEST_ID], time.perf_counter() - request[ARRIVAL_S]
    headers = [
        ("x-request-id", request_id),
        ("request-id", request_id),
        ("openai-processing-ms", str(round(took_s * 1000))),
    ]
    if (use := request.get(KEY_USE)) is not None:
        headers += _rate_headers(request, use)
    return headers + _leave_to_read(request) if hdrs.ORIGIN in request.headers else headers


def _rate_headers(request: web.Request, use: KeyUse) -> list[tuple[str, str]]:
    """Return how the limits of the request's key stand, in the words of its dialect, if that has some."""
    word = dialect_of(request.path, request.headers).rate_headers
    return [] if word is None else [header for state in use.rate_states() for header in word(state)]


def _leave_to_read(request: web.Request) -> list[tuple[str, str]]:
    origin = request.headers[hdrs.ORIGIN]
    return list(cors_headers(origin).items()) if request.app[GUARD].is_allowed(origin) else []


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add them to a response that aiohttp writes (`on_response_prepare`)."""
    if REQUEST_ID in request:
        response.headers.update(own_headers(request))
    elif hdrs.ORIGIN in request.headers:  # refused by aiohttp itself
        response.headers.update(_leave_to_read(request))


async def send_response(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Send a whole response; return what aiohttp is told. Raises as `send_whole` does."""
    body = response.body
    if not isinstance(body, bytes) or response.compression:
        return response
    headers = [(name, value) for name, value in response.headers.items() if name != hdrs.CONTENT_LENGTH]
    return await send_whole(request, response.status, headers, body, closes=response.keep_alive is False)


async def send_whole(
    request: web.Request, status: int, headers: Sequence[tuple[str, str]], body: bytes, *, closes: bool = False
) -> web.StreamResponse:
    """Send a head and its body; return what aiohttp is told. `headers` are those beside every response's own.

    Raises ConnectionError for a client that has gone, ValueError as `response_head` does.
    """
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError
    keep_alive = bool(request.keep_alive) and not closes
    all_headers = [*headers, (hdrs.CONTENT_LENGTH, str(len(body))), *own_headers(request)]
    head = response_head(request, status, all_headers, keep_alive=keep_alive)
    request.writer.output_size += len(head)  # aiohttp and `middleware` see by it that an answer has begun
    if len(body) > _JOINED_BYTES:
        transport.write(head)
        transport.write(body)
        await request.writer.drain()
    else:
        transport.write(head + body)
    return direct_response(status, keep_alive=keep_alive)


def response_head(request: web.Request, status: int, headers: Sequence[tuple[str, str]], *, keep_alive: bool) -> bytes:
    """Return a head as HTTP has it. Raises ValueError for a value that would end its line."""
    text = "\n".join(map(": ".join, headers))
    if text.count("\n") >= len(headers) or "\r" in text or "\0" in text:
        raise ValueError("a header's value has a control character")
    first, last = _status_line(status, request.version, keep_alive), _last_lines(int(time.time()))
    return f"{first}{text}\n{last}".replace("\n", "\r\n").encode("utf-8", "surrogateescape")


@lru_cache(maxsize=64)
def _status_line(status: int, version: HttpVersion, keep_alive: bool) -> str:  # noqa: FBT001 -- a key of the cache
    """Return the status line, and whether the connection stays, where that is not understood."""
    line = f"HTTP/{version.major}.{version.minor} {status} {_PHRASES.get(status, '')}\n"
    if keep_alive and version == HttpVersion10:
        return f"{line}Connection: keep-alive\n"
    return f"{line}Connection: close\n" if not keep_alive and version == HttpVersion11 else line


@lru_cache(maxsize=1)
def _last_lines(now_s: int) -> str:
    return f"Date: {formatdate(now_s, usegmt=True)}\nServer: {SERVER_SOFTWARE}\n\n"
