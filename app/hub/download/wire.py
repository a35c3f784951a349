"""One stream of bytes from a hub: asked for by range, and checked to be the range that was asked for.

Everything that can go wrong on the way is one of two things: `Interrupted`, which another try may mend, or an error of
ours that it cannot. `Source` is what a transfer needs of any way to get at a file's bytes; `Wire` is plain HTTP.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from io import BufferedReader
from threading import Event, Lock
from typing import Protocol

from app.core.connections import Purpose
from app.core.errors import BadRequest, RoundhouseError, Unavailable
from app.hub.repositories.ranges import Budget, Busy, Remote

PIECE_BYTES = 512 << 10
"""Read and written at once, at most."""
SLOW_AFTER_S, SLOWEST_BYTES_PER_S = 20.0, 1024
"""A stream slower than this for so long is asked for anew: other servers of the hub may be quicker."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,16})-(\d{1,16})/(\d{1,16})$")
_PARTIAL = 206
_UNENDING = 1 << 62


class Interrupted(Exception):
    """The stream broke, or did not come. `wait_s` is what the server asked for, `error` what is said in the end."""

    def __init__(self, error: RoundhouseError, wait_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.wait_s = error, wait_s


class NoRanges(Exception):
    """The server sends whole files only."""


class Changed(Exception):
    """The file is not the one it was when the download began."""


class Stopped(Exception):
    """Somebody wants the download to end."""


class Throttle:
    """A limit on bytes per second for all streams together; 0 is none."""

    def __init__(self, bytes_per_s: float = 0.0) -> None:
        self.bytes_per_s = bytes_per_s
        self._lock = Lock()
        self._free_at = 0.0

    def took(self, count: int, stop: Event) -> None:
        """Wait until so many bytes are within the limit."""
        if self.bytes_per_s <= 0:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self.bytes_per_s
            pause = self._free_at - now
        stop.wait(max(0.0, pause))


class Stream(Protocol):
    """Bytes of a file as they come, from the position that was asked for."""

    def pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield the next `count` bytes; each piece is valid until the next. Raises Interrupted or Stopped."""
        ...


class Source(Protocol):
    """Where one file is, and how it is read."""

    def stream(self, start: int, end: int) -> contextlib.AbstractContextManager[Stream]:
        """Open the bytes from `start` up to `end`. Raises Interrupted, NoRanges, Changed, or what no try can mend."""
        ...

    def forget(self) -> None:
        """Take the file as it is from now on."""
        ...


class Wire:
    """Where one file is, and how it is read. `size` is what the hub said of it."""

    def __init__(self, remote: Remote, url: str, *, size: int) -> None:
        self._remote, self._url, self._size = remote, url, size
        self._etag = ""

    @contextlib.contextmanager
    def stream(self, start: int, end: int) -> Iterator[Stream]:
        """Open the bytes from `start` up to `end`. Raises Interrupted, NoRanges, Changed, or what no try can mend."""
        try:
            answer = self._remote.get(self._url, {"Range": f"bytes={start}-{end - 1}"})
        except Busy as busy:
            raise Interrupted(busy, busy.retry_s) from None
        except Unavailable as error:
            raise Interrupted(error) from None
        except BadRequest as error:
            raise (Changed() if error.code == "model_corrupt" else error) from None
        with answer:
            self._check(answer, start, end)
            yield _Answer(answer)

    def forget(self) -> None:
        """Take the file as it is from now on."""
        self._etag = ""

    def _check(self, answer: HTTPResponse, start: int, end: int) -> None:
        if answer.status != _PARTIAL:
            if (start, end) != (0, self._size):
                raise NoRanges
            if answer.length not in {None, self._size}:
                raise Changed
            return
        said = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        if said is not None and int(said[3]) != self._size:
            raise Changed
        if said is None or int(said[1]) != start or int(said[2]) != end - 1:
            raise Interrupted(Unavailable("The server sent a different part than requested.", code="hub_unreachable"))
        etag = answer.headers.get("ETag", "")
        if answer.length is not None and answer.length != end - start:
            raise Interrupted(broke())
        if self._etag and etag and etag != self._etag:
            raise Changed
        self._etag = self._etag or etag


def untiring(endpoint: str, purpose: Purpose, *, token: str = "") -> Remote:
    """Return an endpoint for whole files: reading one may cost what it costs."""
    budget = Budget(max_bytes=_UNENDING, max_requests=_UNENDING, deadline_s=float("inf"))
    return Remote(endpoint, purpose, token=token, budget=budget)


class _Answer:
    """A stream that is an answer's body."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield the next `count` bytes; each piece is valid until the next. Raises Interrupted or Stopped."""
        buffer = memoryview(bytearray(min(PIECE_BYTES, count)))
        waited_s, received = 0.0, 0
        while received < count:
            if stop.is_set():
                raise Stopped
            before = time.monotonic()
            try:
                got = _read_into(self._answer, buffer[: min(len(buffer), count - received)])
            except (OSError, HTTPException) as error:
                raise Interrupted(broke()) from error
            waited_s, received = waited_s + time.monotonic() - before, received + got
            if not got:
                raise Interrupted(broke())
            yield buffer[:got]
            if waited_s > SLOW_AFTER_S and received < min(count, SLOWEST_BYTES_PER_S * waited_s):
                raise Interrupted(
                    Unavailable("The server is sending almost no data.", hint="Try again.", code="hub_slow")
                )


def _read_into(answer: HTTPResponse, room: memoryview) -> int:
    """Read what has come, into memory that is there: new memory for every piece costs as much as receiving it."""
    if not answer.chunked and isinstance(answer.fp, BufferedReader):
        return answer.fp.readinto1(room)  # the caller counts: HTTPResponse would wait until the room is full
    piece = answer.read1(len(room))
    room[: len(piece)] = piece
    return len(piece)


def broke() -> Unavailable:
    """Return what is said of a connection that ended too early."""
    return Unavailable("The connection broke.", hint="Try again.", code="hub_unreachable")
