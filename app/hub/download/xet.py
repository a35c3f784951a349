"""A file's bytes from Hugging Face's Xet storage, by way of `hf_xet`: another source for the same transfer.

`hf_xet` is asked for ranges only; what is missing, what is kept and whether it is right is decided as for plain HTTP.
It cannot be left alone with that. Measured with 1.8: a stream whose storage refuses (401, 404, 5xx) ends early without
a word, wrong bytes pass, and one that waits can be neither cancelled nor hurried. So the storage is asked by us first,
which also tells to whom `hf_xet` will connect; a stream that ends early is one that broke; and a thread that gets
nothing is left behind until this process ends.
"""

import contextlib
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any, NamedTuple

from app.config.environment import quieten_xet
from app.hub.download.cas import ReadGrant, XetFailed, XetFile, note_calls, request_grant
from app.hub.download.wire import ByteStream, DownloadStopped, StreamInterrupted
from app.hub.repositories.ranges import RemoteHost
from app.network.egress import EgressCall

TRIES = 2
"""In a row without a byte, before plain HTTP goes on: it knows more ways out."""
PATIENCE_S = 15.0
"""How long a block may take. On a line where it takes longer, plain HTTP loses less and shows more."""
BLOCK_BYTES = 8 << 20
_SETTINGS: Mapping[str, object] = {
    "telemetry.enabled": False,
    # What is asked for at once is held at once, packed and unpacked: with the 256 MB it asks for by itself, half a GB.
    "reconstruction.min_reconstruction_fetch_size": BLOCK_BYTES,
    "reconstruction.max_reconstruction_fetch_size": BLOCK_BYTES,
    "reconstruction.download_buffer_size": 2 * BLOCK_BYTES,
    "reconstruction.download_buffer_perfile_size": BLOCK_BYTES,
    "reconstruction.download_buffer_limit": 2 * BLOCK_BYTES,
    "reconstruction.min_prefetch_buffer": 2 * BLOCK_BYTES,
    "client.ac_max_download_concurrency": 4,
    "client.connect_timeout": "10s",
    "client.read_timeout": "15s",
    # Trying again is ours: six minutes of silence, which it takes by itself, look like a program that hangs.
    "client.retry_max_attempts": 1,
    "client.retry_base_delay": "200ms",
}
_LOOK_S = 0.25


class XetLibrary(NamedTuple):
    """`hf_xet`, which has no types, and a session of it."""

    module: Any
    session: Any


def load_library(folder: Path) -> XetLibrary | None:
    """Return `hf_xet` with `folder` for its own files; None where there is none, or where it is no use.

    It knows the proxies of the environment, and not those of macOS's or Windows's own settings.
    """
    if urllib.request.getproxies() != urllib.request.getproxies_environment():
        return None
    quieten_xet(folder)
    try:
        import hf_xet  # noqa: PLC0415 -- 10 MB, and it reads the environment when it is loaded

        return XetLibrary(hf_xet, hf_xet.XetSession(config=hf_xet.XetConfig().with_config(dict(_SETTINGS))))
    except Exception:  # noqa: BLE001 -- not installed, not for this system, or a version that has other settings
        return None


class XetSource:
    """Where one file is in Xet. `is_wanted` is asked before each piece; False ends it."""

    def __init__(
        self, library: XetLibrary, remote: RemoteHost, xet_file: XetFile, *, is_wanted: Callable[[], bool]
    ) -> None:
        self._library, self._remote, self._xet_file = library, remote, xet_file
        self._is_wanted = is_wanted
        self._grant: ReadGrant | None = None

    @contextlib.contextmanager
    def open_stream(self, start: int, end: int) -> Iterator[ByteStream]:
        """Open the bytes from `start` up to `end`. Raises Interrupted, or XetFailed when it is no use."""
        try:
            self._grant = grant = self._grant or request_grant(self._remote, self._xet_file)
            call = note_calls(self._remote, self._xet_file, grant, start)[-1]
            with contextlib.closing(_PieceReader(lambda: self._open_pieces(grant, start, end))) as reader:
                yield _XetStream(reader, self._is_wanted, call)
        except StreamInterrupted:  # a token that has ended is one of the reasons, and may look like any other
            self._grant = None
            raise

    def forget_version(self) -> None:
        """Take the file as it is from now on."""
        self._grant = None

    def _open_pieces(self, grant: ReadGrant, start: int, end: int) -> Iterator[bytes]:
        group = self._library.session.new_download_stream_group(
            endpoint=grant.cas_url, token=grant.access_token, token_expiry_unix_secs=grant.exp
        )
        info = self._library.module.XetFileInfo(self._xet_file.hash, self._xet_file.size)
        yield from group.download_stream(info, start=start, end=end)


class _PieceReader:
    """Takes pieces in a thread of its own, one ahead of who asks: whoever waits for it need not wait for ever."""

    def __init__(self, begin: Callable[[], Iterator[bytes]]) -> None:
        self._begin = begin
        self._asked, self._came = Semaphore(0), SimpleQueue[bytes | Exception]()
        self._is_left = False
        Thread(target=self._read_ahead, name="xet", daemon=True).start()

    def next_piece(self, stop: Event) -> bytes:
        """Return what comes next, nothing at the end. Raises XetFailed after `PATIENCE_S`, Interrupted, Stopped."""
        self._asked.release()
        ends_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_at:
            if stop.is_set():
                raise DownloadStopped
            with contextlib.suppress(Empty):
                piece = self._came.get(timeout=_LOOK_S)
                if isinstance(piece, Exception):  # what it says may quote an address that is a secret
                    raise StreamInterrupted(_xet_fault()) from None
                return piece
        raise XetFailed("Xet storage is sending almost no data.")

    def close(self) -> None:
        """Let the thread go."""
        self._is_left = True
        self._asked.release()

    def _read_ahead(self) -> None:
        try:
            for piece in self._begin():
                if not self._hand_over(piece):
                    return
            self._hand_over(b"")
        except Exception as error:  # noqa: BLE001 -- handed to who asks
            self._hand_over(error)

    def _hand_over(self, piece: bytes | Exception) -> bool:
        self._asked.acquire()
        if not self._is_left:
            self._came.put(piece)
        return not self._is_left


class _XetStream:
    """A stream of what a hand takes."""

    def __init__(self, reader: _PieceReader, is_wanted: Callable[[], bool], call: EgressCall) -> None:
        self._reader, self._is_wanted, self._call = reader, is_wanted, call
        self._rest = memoryview(b"")

    def read_pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield the next `count` bytes. Raises Interrupted, Stopped, or XetFailed when it is no use."""
        while count:
            if not self._is_wanted():
                raise XetFailed("A speed limit was set.")
            if not self._rest:
                self._rest = memoryview(self._reader.next_piece(stop))
                self._call.count_received(len(self._rest))
            if not self._rest:
                raise StreamInterrupted(_xet_fault())
            piece, self._rest = self._rest[:count], self._rest[count:]
            count -= len(piece)
            yield piece


def _xet_fault() -> XetFailed:
    return XetFailed("Xet storage closed the connection.")
