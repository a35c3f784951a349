"""One stream of bytes from a hub: asked for by range, and checked to be the range that was asked for.

Everything that can go wrong on the way is one of two things: `StreamInterrupted`, which another try may mend, or an
error of ours that it cannot. `StreamSource` is what a transfer needs of any way to get at a file's bytes; `HttpSource`
is plain HTTP.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from io import BufferedReader
from threading import Event, Lock
from typing import NamedTuple, Protocol
from urllib.request import OpenerDirector

from app.core.connections import Purpose
from app.core.errors import BadRequest, RoundhouseError, Unavailable
from app.hub.repositories.ranges import HubBusy, ReadBudget, RemoteHost

PIECE_BYTES = 512 << 10
"""Read and written at once, at most."""
SLOW_AFTER_S, SLOWEST_BYTES_PER_S = 20.0, 1024
"""A stream slower than this for so long is asked for anew: other servers of the hub may be quicker."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,16})-(\d{1,16})/(\d{1,16})$")
_PARTIAL = 206
_UNENDING = 1 << 62


class StreamInterrupted(Exception):
    """The stream broke, or did not come. `wait_s` is what the server asked for, `error` what is said in the end."""

    def __init__(self, error: RoundhouseError, wait_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.wait_s = error, wait_s


class NoRanges(Exception):
    """The server sends whole files only."""


class FileChanged(Exception):
    """The file is not the one it was when the download began."""


class DownloadStopped(Exception):
    """Somebody wants the download to end."""


class Throttle:
    """A limit on bytes per second for all streams together; 0 is none."""

    def __init__(self, bytes_per_s: float = 0.0) -> None:
        self.bytes_per_s = bytes_per_s
        self._lock = Lock()
        self._free_at = 0.0

    def wait_for_share(self, count: int, stop: Event) -> None:
        """Wait until so many bytes are within the limit."""
        if (pause_s := self.take_share(count)) > 0:
            stop.wait(pause_s)

    def take_share(self, count: int) -> float:
        """Take so many bytes of the limit, and return the seconds until they are within it."""
        if self.bytes_per_s <= 0:
            return 0.0
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self.bytes_per_s
            return self._free_at - now


class ByteStream(Protocol):
    """Bytes of a file as they come, from the position that was asked for."""

    def read_pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield `count` bytes, each piece valid until the next. Raises StreamInterrupted or DownloadStopped."""
        ...


class StreamSource(Protocol):
    """Where one file is, and how it is read."""

    def open_stream(self, start: int, end: int) -> contextlib.AbstractContextManager[ByteStream]:
        """Open bytes `start` to `end`. Raises StreamInterrupted, NoRanges, FileChanged, or what no try can mend."""
        ...

    def forget_version(self) -> None:
        """Take the file as it is from now on."""
        ...


class LowestPace(NamedTuple):
    """How slow a stream may be, and whether a slower one is not to be tried again."""

    bytes_per_s: float
    is_final: bool = False


class HttpSource:
    """Where one file is, and how it is read. `size` is what the hub said of it.

    A stream slower than `pace` for long is taken for one that broke, or for one that no further try can mend.
    """

    def __init__(self, remote: RemoteHost, url: str, *, size: int, pace: LowestPace | None = None) -> None:
        self._remote, self._url, self._size, self._pace = remote, url, size, pace or LowestPace(SLOWEST_BYTES_PER_S)
        self._etag = ""

    @contextlib.contextmanager
    def open_stream(self, start: int, end: int) -> Iterator[ByteStream]:
        """Open bytes `start` to `end`. Raises StreamInterrupted, NoRanges, FileChanged, or what no try can mend."""
        try:
            answer = self._remote.open_address(self._url, {"Range": f"bytes={start}-{end - 1}"})
        except HubBusy as busy:
            raise StreamInterrupted(busy, busy.retry_s) from None
        except Unavailable as error:
            raise StreamInterrupted(error) from None
        except BadRequest as error:
            raise (FileChanged() if error.code == "model_corrupt" else error) from None
        with answer:
            self._check_answer(answer, start, end)
            yield _AnswerBody(answer, self._pace)

    def forget_version(self) -> None:
        """Take the file as it is from now on."""
        self._etag = ""

    def _check_answer(self, answer: HTTPResponse, start: int, end: int) -> None:
        if answer.status != _PARTIAL:
            if (start, end) != (0, self._size):
                raise NoRanges
            if answer.length not in {None, self._size}:
                raise FileChanged
            return
        content_range = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        if content_range is not None and int(content_range[3]) != self._size:
            raise FileChanged
        if content_range is None or int(content_range[1]) != start or int(content_range[2]) != end - 1:
            raise StreamInterrupted(
                Unavailable("The server sent a different part than requested.", code="hub_unreachable")
            )
        etag = answer.headers.get("ETag", "")
        if answer.length is not None and answer.length != end - start:
            raise StreamInterrupted(connection_fault())
        if self._etag and etag and etag != self._etag:
            raise FileChanged
        self._etag = self._etag or etag


def remote_without_limit(
    endpoint: str, purpose: Purpose, *, token: str = "", opener: OpenerDirector | None = None
) -> RemoteHost:
    """Return an endpoint for whole files: reading one may cost what it costs."""
    budget = ReadBudget(max_bytes=_UNENDING, max_requests=_UNENDING, deadline_s=float("inf"))
    return RemoteHost(endpoint, purpose, token=token, budget=budget, opener=opener)


class _AnswerBody:
    """A stream that is an answer's body."""

    def __init__(self, answer: HTTPResponse, pace: LowestPace | None = None) -> None:
        self._answer, self._pace = answer, pace or LowestPace(SLOWEST_BYTES_PER_S)

    def read_pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield `count` bytes, each piece valid until the next. Raises StreamInterrupted or DownloadStopped."""
        buffer = memoryview(bytearray(min(PIECE_BYTES, count)))
        waited_s, received_bytes = 0.0, 0
        while received_bytes < count:
            if stop.is_set():
                raise DownloadStopped
            before = time.monotonic()
            try:
                count_read = _read_into(self._answer, buffer[: min(len(buffer), count - received_bytes)])
            except (OSError, HTTPException) as error:
                raise StreamInterrupted(connection_fault()) from error
            waited_s, received_bytes = waited_s + time.monotonic() - before, received_bytes + count_read
            if not count_read:
                raise StreamInterrupted(connection_fault())
            yield buffer[:count_read]
            if waited_s > SLOW_AFTER_S and received_bytes < min(count, self._pace.bytes_per_s * waited_s):
                slow = Unavailable("The server is sending almost no data.", hint="Try again.", code="hub_slow")
                raise slow if self._pace.is_final else StreamInterrupted(slow)


def _read_into(answer: HTTPResponse, room: memoryview) -> int:
    """Read what has come, into memory that is there: new memory for every piece costs as much as receiving it."""
    if not answer.chunked and isinstance(answer.fp, BufferedReader):
        return answer.fp.readinto1(room)  # the caller counts: HTTPResponse would wait until the room is full
    piece = answer.read1(len(room))
    room[: len(piece)] = piece
    return len(piece)


def connection_fault() -> Unavailable:
    """Return what is said of a connection that ended too early."""
    return Unavailable("The connection broke.", hint="Try again.", code="hub_unreachable")
