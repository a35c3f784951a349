"""Clients that cost next to nothing, so that what is measured is the proxy: bytes on a socket, counted.

They read HTTP's framing as far as counting takes: a head, a body of known length or in chunks. Anything that does not
end as it should is not whole, and says so.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from tests.bench.load import BenchRoute, BenchTarget

C = TypeVar("C", bound=asyncio.Protocol)

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"
_END_OF_LINE = b"\r\n"
_OK = b"HTTP/1.1 200 "


class ChunkReader:
    """Takes HTTP's chunks apart, wherever the network cut them."""

    def __init__(self) -> None:
        self.is_over = False
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the payload of every chunk that is there whole by now."""
        data = self._rest + data
        payload, at = b"", 0
        while (line := data.find(_END_OF_LINE, at)) >= 0:
            size = int(data[at:line], 16)
            end = line + 2 + size
            if len(data) < end + 2:
                break
            payload += data[line + 2 : end]
            at = end + 2
            if not size:
                self.is_over = True
                break
        self._rest = data[at:]
        return payload


class TokenCounter:
    """Counts what is in every token's event, wherever the proxy cut the stream."""

    def __init__(self, token: bytes) -> None:
        self._token, self._tail = token, b""

    def feed(self, payload: bytes) -> int:
        """Return how many more there are."""
        text = self._tail + payload
        self._tail = text[-(len(self._token) - 1) :]
        return text.count(self._token)


class StreamClient(asyncio.Protocol):
    """One request and its streamed answer. Times are those of `time.perf_counter`."""

    def __init__(self, token: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.tokens = 0
        """How many have come."""
        self.sent_at = self.first_at = self.last_at = 0.0
        self.gaps_s: list[float] = []
        self.first_token: asyncio.Future[None] = loop.create_future()
        """Done with the first token, or when there will be none."""
        self.end: asyncio.Future[None] = loop.create_future()
        self._head, self._body, self._count = b"", ChunkReader(), TokenCounter(token)
        self._is_in_body = False
        self._transport: asyncio.Transport

    @property
    def is_whole(self) -> bool:
        """Whether the answer ended in good order."""
        return self._body.is_over

    def check_begun(self) -> None:
        """Raise RuntimeError if the answer ended before its first token."""
        if not self.tokens:
            raise RuntimeError(f"a stream was answered with {self._head[:200]!r}")

    def send(self, request: bytes) -> None:
        """Send the request."""
        self.sent_at = time.perf_counter()
        self._transport.write(request)

    def close(self) -> None:
        """Go away, whatever is still to come."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = transport  # type: ignore[assignment]  # of TCP, which is this one

    def data_received(self, data: bytes) -> None:
        """Count the tokens in it, and note when they came."""
        if not self._is_in_body:
            data = self._after_head(data)
        tokens = self._count.feed(self._body.feed(data)) if data else 0
        if tokens:
            self._note(tokens, time.perf_counter())
        if self._body.is_over:
            self._settle_waiters()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 -- asyncio's
        """Answer whoever waits."""
        self._settle_waiters()

    def _note(self, tokens: int, now: float) -> None:
        if self.tokens:
            self.gaps_s.append(now - self.last_at)
        else:
            self.first_at = now
            self.first_token.set_result(None)
        self.tokens += tokens
        self.last_at = now

    def _after_head(self, data: bytes) -> bytes:
        self._head += data
        head, is_over, rest = self._head.partition(_END_OF_HEAD)
        if not is_over:
            return b""
        if not head.startswith(_OK) or not _CHUNKED.search(head):
            self._transport.abort()
            return b""
        self._is_in_body = True
        return rest

    def _settle_waiters(self) -> None:
        for waiter in (self.first_token, self.end):
            if not waiter.done():
                waiter.set_result(None)


class RepeatClient(asyncio.Protocol):
    """Asks the same again and again on one connection, until told to stop; the answers are whole."""

    def __init__(self, request: bytes) -> None:
        self.answers = 0
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request, self._answer, self._is_stopping = request, b"", False
        self._transport: asyncio.Transport

    def stop(self) -> None:
        """Ask no more; `end` is done with the last answer."""
        self._is_stopping = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        self._transport = transport  # type: ignore[assignment]  # of TCP, which is this one
        transport.write(self._request)  # type: ignore[attr-defined]  # as above

    def data_received(self, data: bytes) -> None:
        """Ask again once the answer is whole."""
        self._answer += data
        if not is_whole(self._answer):
            return
        if not self._answer.startswith(_OK):
            self._transport.abort()
            return
        self._answer = b""
        self.answers += 1
        if self._is_stopping:
            self._transport.close()
        else:
            self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 -- asyncio's
        """Settle: in good order only where no answer was due."""
        if self._is_stopping and not self._answer:
            self.end.set_result(None)
        else:
            self.end.set_exception(RuntimeError(f"an answer was {self._answer[:200]!r}"))


def is_whole(answer: bytes) -> bool:
    """Tell whether an answer is there to its end."""
    head, is_over, body = answer.partition(_END_OF_HEAD)
    length = _LENGTH.search(head)
    if length is None:
        return bool(is_over) and body.endswith(b"0\r\n\r\n")
    return bool(is_over) and len(body) >= int(length[1])


def request_to(target: BenchTarget, route: BenchRoute, *, stream: bool = True) -> bytes:
    """Return a request's bytes."""
    body = msgspec.json.encode({"model": "guide", **route.body, "stream": stream})
    return (
        f"POST {route.path} HTTP/1.1\r\nHost: {urlsplit(target.url).netloc}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {target.key}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def connect(target: BenchTarget, client: Callable[[], C]) -> C:
    """Return a client with a connection to the target."""
    host, _, port = urlsplit(target.url).netloc.partition(":")
    _, protocol = await asyncio.get_running_loop().create_connection(client, host, int(port))
    return protocol
