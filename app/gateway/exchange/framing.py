"""How an HTTP/1.1 answer is framed: its head, and where its body ends. Pure; fed with bytes however they are cut.

An engine is believed as little as any peer: heads and size lines are bounded, and what is no HTTP raises ValueError.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

MOST_HEAD_BYTES = 64 * 1024
"""Of all header lines together, as aiohttp's own bound."""
_MOST_SIZE_LINE = 1024
"""A chunk's size with its extensions, which nobody here reads."""
_MOST_TRAILER_BYTES = 16 * 1024
_END_OF_LINE, _END_OF_HEAD = b"\r\n", b"\r\n\r\n"
_NO_BODY = frozenset({204, 304})
_FIRST_FINAL = 200
"""A lower status is of an interim answer."""
_STATUS_LINE = re.compile(r"HTTP/1\.(\d) (\d{3})(?: |$)")
_MOST_SIZE_DIGITS = 8
_NO_SIZE_LINE = b"-"
"""What no chunk begins with."""


class AnswerHead(NamedTuple):
    """The status line and the headers, by lower-case name; of a repeated one the last."""

    status: int
    headers: Mapping[str, str]
    may_stay_open: bool = True
    """Whether the connection can be used again once the body has come."""


def read_head(data: bytes) -> tuple[AnswerHead, bytes] | None:
    """Return the head that some bytes begin with and what follows it, None while it is not whole. Raises ValueError.

    Interim answers (100 Continue) are passed over.
    """
    while (end := data.find(_END_OF_HEAD)) >= 0:
        head, data = _parse_head(data[:end]), data[end + len(_END_OF_HEAD) :]
        if head.status >= _FIRST_FINAL:
            return head, data
    if len(data) > MOST_HEAD_BYTES:
        raise ValueError("a head without end")
    return None


@lru_cache(maxsize=64)
def _parse_head(data: bytes) -> AnswerHead:
    """Return the head in some bytes. Those of an engine's streams are alike: it is remembered. Raises ValueError."""
    first, *lines = data.decode("latin-1").split("\r\n")
    status = _STATUS_LINE.match(first)
    if status is None:
        raise ValueError(f"no HTTP: {first[:80]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("a header line without a colon")
        headers[name.lower()] = value.strip(" \t")
    stays = status[1] == "1" and "close" not in headers.get("connection", "").lower()
    return AnswerHead(int(status[2]), MappingProxyType(headers), stays)


class Body(Protocol):
    """Takes a body's bytes out of their frame."""

    is_over: bool
    is_between_chunks: bool
    """Whether a chunk begins with the next byte."""
    surplus: bytes
    """What came after the end: nothing, from an engine that knows HTTP."""

    def feed(self, data: bytes) -> bytes:
        """Return the payload in some bytes of the connection."""

    def ends_with_connection(self) -> bool:
        """Tell whether a connection that ends now leaves a whole body behind."""


def body_of(head: AnswerHead) -> Body:
    """Return what reads the body that follows a head (RFC 9112, 6.3). Raises ValueError."""
    if head.status in _NO_BODY:
        return CountedBody(0)
    if transfer_coding := head.headers.get("transfer-encoding", ""):
        if transfer_coding.lower() != "chunked":
            raise ValueError(f"an unknown transfer coding {transfer_coding[:40]!r}")
        return ChunkedBody()
    length = head.headers.get("content-length")
    if length is None:
        return BodyUntilClose()
    if not (length.isascii() and length.isdecimal()):
        raise ValueError("a length that is no number")
    return CountedBody(int(length))


class CountedBody:
    """A body of as many bytes as its head says."""

    __slots__ = ("_remaining_bytes", "is_over", "surplus")
    is_between_chunks = False

    def __init__(self, length: int) -> None:
        self._remaining_bytes, self.is_over, self.surplus = length, length == 0, b""

    def feed(self, data: bytes) -> bytes:
        """Return the payload in some bytes."""
        if len(data) > self._remaining_bytes:
            data, self.surplus = data[: self._remaining_bytes], data[self._remaining_bytes :]
        self._remaining_bytes -= len(data)
        self.is_over = not self._remaining_bytes
        return data

    def ends_with_connection(self) -> bool:
        """Tell whether it is whole."""
        return self.is_over


class BodyUntilClose:
    """A body that ends when the connection does."""

    __slots__ = ("is_over", "surplus")
    is_between_chunks = False

    def __init__(self) -> None:
        self.is_over, self.surplus = False, b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes."""
        return data

    def ends_with_connection(self) -> bool:
        """Tell that it is whole now."""
        return True


class ChunkedBody:
    """A body in chunks, each with its size before it."""

    __slots__ = ("_in_trailers", "_remaining_bytes", "_rest", "is_between_chunks", "is_over", "surplus")

    def __init__(self) -> None:
        self.is_over, self.surplus, self.is_between_chunks = False, b"", True
        self._remaining_bytes = 0
        """Bytes still to come of the chunk being read, its line end included."""
        self._rest = b""
        """A size line, or a trailer, of which the end is still to come."""
        self._in_trailers = False

    def feed(self, data: bytes) -> bytes:
        """Return the payload in some bytes. Raises ValueError for what is no chunk."""
        if self.is_between_chunks and data.startswith(line := size_line(len(data))) and data.endswith(_END_OF_LINE):
            return data[len(line) : -2]  # engines nearly always write one whole chunk at a time
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, payload = 0, list[bytes]()
        while at < len(data) and not self.is_over:
            if self._remaining_bytes:
                at = self._take_chunk(data, at, payload)
                continue
            end = data.find(_END_OF_LINE, at)
            if end < 0:
                self._keep_rest(data[at:])
                break
            line, at = data[at:end], end + 2
            if self._in_trailers:
                self.is_over = not line
            elif size := _chunk_size(line):
                self._remaining_bytes = size + 2
            else:
                self._in_trailers = True
        else:
            self.surplus = data[at:]
        self.is_between_chunks = not (self._remaining_bytes or self._rest or self._in_trailers)
        return payload[0] if len(payload) == 1 else b"".join(payload)

    def ends_with_connection(self) -> bool:
        """Tell whether it is whole."""
        return self.is_over

    def _take_chunk(self, data: bytes, at: int, payload: list[bytes]) -> int:
        """Move on in a chunk; the last two bytes of `_left` are its line end."""
        end = min(at + self._remaining_bytes, len(data))
        text = min(end, at + max(0, self._remaining_bytes - 2))
        if text > at:
            payload.append(data[at:text])
        line_end = _END_OF_LINE[2 - self._remaining_bytes :] if self._remaining_bytes < 2 else _END_OF_LINE  # noqa: PLR2004 -- bytes of it
        if not line_end.startswith(data[text:end]):
            raise ValueError("a chunk longer than its size")
        self._remaining_bytes -= end - at
        return end

    def _keep_rest(self, rest: bytes) -> None:
        if len(rest) > (_MOST_TRAILER_BYTES if self._in_trailers else _MOST_SIZE_LINE):
            raise ValueError("a line without end between chunks")
        self._rest = rest


@lru_cache(maxsize=4096)
def size_line(frame_bytes: int) -> bytes:
    """Return how a chunk without extensions begins that takes so many bytes with its frame: its size, in small letters.

    That is the line of one size only. Where no chunk takes so many, it is what none begins with.
    """
    for digits in range(1, _MOST_SIZE_DIGITS + 1):
        size = frame_bytes - digits - len(_END_OF_LINE) * 2
        if size > 0 and len(f"{size:x}") == digits:
            return b"%x\r\n" % size
    return _NO_SIZE_LINE


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise ValueError("a chunk without a size")
    return int(digits, 16)
