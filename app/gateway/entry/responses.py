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

from app.gateway.entry.guard import Guard, cors_headers

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


def own_headers(request: web.Request) -> list[tuple[str, str]]:
    """Return the headers of every response: the request's id and time, and leave for pages we allow to read it."""
    headers = []
    if (request_id := request.get(REQUEST_ID)) is not None:
        took_ms = round((time.perf_counter() - request[ARRIVAL_S]) * 1000)
        headers = [
            ("x-request-id", request_id),
            ("request-id", request_id),
            ("openai-processing-ms", str(took_ms)),
        ]
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and request.app[GUARD].is_allowed(origin):
        headers += cors_headers(origin).items()
    return headers


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add them to a response that aiohttp writes (`on_response_prepare`)."""
    response.headers.update(own_headers(request))


async def send_response(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Send a whole response; return what aiohttp is told. Raises ConnectionError for a client that has gone."""
    body, transport = response.body, request.transport
    if not isinstance(body, bytes) or response.compression:
        return response
    if transport is None or transport.is_closing():
        raise ConnectionResetError
    headers = [(name, value) for name, value in response.headers.items() if name != hdrs.CONTENT_LENGTH]
    headers += ((hdrs.CONTENT_LENGTH, str(len(body))), *own_headers(request))
    keep_alive = bool(request.keep_alive) and response.keep_alive is not False
    head = response_head(request, response.status, headers, keep_alive=keep_alive)
    request.writer.output_size += len(head)  # aiohttp and `middleware` see by it that an answer has begun
    if len(body) > _JOINED_BYTES:
        transport.write(head)
        transport.write(body)
        await request.writer.drain()
    else:
        transport.write(head + body)
    return DirectResponse(response.status, keep_alive=keep_alive)


def response_head(request: web.Request, status: int, headers: Sequence[tuple[str, str]], *, keep_alive: bool) -> bytes:
    """Return a head as HTTP has it. Raises ValueError for a value that would end its line."""
    text = "\n".join([f"{name}: {value}" for name, value in headers])
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
