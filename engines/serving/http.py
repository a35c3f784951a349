"""HTTP/1.1 as far as the gateway speaks it: requests with a length, answers whole or in chunks, connections kept open.

A client that hangs up cancels its request's task, whatever it is waiting for: that is how work nobody wants ends.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from engines.serving.json_text import encode_compact
from engines.serving.refusals import RequestRefused

MOST_HEAD_BYTES = 64 * 1024
MOST_BODY_BYTES = 64 * 1024 * 1024
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]{0,4096}) HTTP/1\.([01])\Z")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}):([^\r\n\x00]*)\Z")
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request with its whole body. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keeps_open: bool


class WorkerConnection(asyncio.Protocol):
    """One client's connection.

    `handle` answers each request by `send_answer`, or by `begin_chunks`, `write_chunk` and `end`.
    """

    def __init__(
        self,
        handle: "Callable[[HttpRequest, WorkerConnection], Awaitable[None]]",
        open_connections: "set[WorkerConnection]",
    ) -> None:
        self._handle = handle
        self._open_connections = open_connections
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._keeps_open = True
        self._has_begun = False

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._task is None

    @property
    def has_begun(self) -> bool:
        """Whether the head of an answer has been sent."""
        return self._has_begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport  # type: ignore[assignment] # a TCP server's, of whatever event loop
        self._open_connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- as asyncio calls it
        """Let go of the request of a client that has gone."""
        self._open_connections.discard(self)
        self._give_up()

    def eof_received(self) -> bool:
        """Take a closed sending side for a client that has gone, as servers do; close."""
        self._give_up()
        return False

    def data_received(self, data: bytes) -> None:
        """Collect what comes, and answer when a request is whole."""
        self._unread += data
        if self._task is None:
            self._answer_next()
        elif len(self._unread) > MOST_HEAD_BYTES and self._transport is not None:
            self._transport.pause_reading()  # a client that sends ahead this much waits

    def send_answer(self, status: int, body: bytes, content_type: str = _JSON) -> None:
        """Send a whole answer."""
        lines = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", self._connection())
        self._write(_head(status, *lines) + body)

    def begin_chunks(self, content_type: str, data: bytes) -> None:
        """Send the head of an answer that comes in chunks, and the first of them with it."""
        self._has_begun = True
        lines = (f"Content-Type: {content_type}", "Cache-Control: no-store", "Transfer-Encoding: chunked")
        self._write(_head(200, *lines, self._connection()) + _chunk(data))

    def write_chunk(self, data: bytes) -> None:
        """Send a chunk; nothing is sent for nothing, which would end the answer."""
        if data:
            self._write(_chunk(data))

    def end_chunks(self, data: bytes) -> None:
        """End an answer that came in chunks with the last of them."""
        self._write(_chunk(data) + b"0\r\n\r\n")

    def send_refusal(self, refusal: RequestRefused) -> None:
        """Send an error instead of an answer."""
        self.send_answer(refusal.status, encode_compact(refusal.document()))

    def close(self) -> None:
        """Hang up once what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _connection(self) -> str:
        return f"Connection: {'keep-alive' if self._keeps_open else 'close'}"

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _answer_next(self) -> None:
        try:
            request = _take_request(self._unread)
        except RequestRefused as refusal:
            self._keeps_open = False
            self.send_refusal(refusal)
            self.close()
            return
        if request is None:
            return
        self._keeps_open, self._has_begun = request.keeps_open, False
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: HttpRequest) -> None:
        try:
            await self._handle(request, self)
        finally:
            self._task = None
            if not self._keeps_open:
                self.close()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._answer_next()


def _take_request(unread: bytearray) -> HttpRequest | None:
    """Take a whole request from what has come; None while there is none. Raises Refused."""
    end = unread.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES)
    if end < 0:
        if len(unread) >= MOST_HEAD_BYTES:
            raise _bad_request("The head is too long.", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return None
    line, *rest = bytes(unread[:end]).split(b"\r\n")
    match = _REQUEST_LINE.match(line)
    if match is None:
        raise _bad_request("This is not an HTTP/1.1 request.")
    headers = _headers(rest)
    size = _body_size(headers)
    if len(unread) < end + 4 + size:
        return None
    body = bytes(unread[end + 4 : end + 4 + size])
    del unread[: end + 4 + size]
    connection_header = headers.get("connection", "").lower()
    keeps_open = connection_header == "keep-alive" or (match[3] == b"1" and connection_header != "close")
    path = match[2].decode().partition("?")[0]
    return HttpRequest(match[1].decode(), path, headers, body, keeps_open)


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER.match(line)
        if match is None:
            raise _bad_request("A header is malformed.")
        name = match[1].decode().lower()
        if name == "content-length" and name in headers:
            raise _bad_request("The length is given twice.")
        headers[name] = match[2].strip(b" \t").decode("latin-1")
    return headers


def _body_size(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise _bad_request("The body must have a length.", HTTPStatus.LENGTH_REQUIRED)
    length_text = headers.get("content-length", "0")
    if not (length_text.isascii() and length_text.isdigit()):
        raise _bad_request("The length is not a number.")
    size = int(length_text[:20])
    if size > MOST_BODY_BYTES:
        raise _bad_request(f"The body is larger than {MOST_BODY_BYTES >> 20} MiB.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return size


def _bad_request(message: str, status: int = HTTPStatus.BAD_REQUEST) -> RequestRefused:
    return RequestRefused(status, message, code="malformed_request")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def _head(status: int, *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *lines, "\r\n")).encode()
