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
from app.hub.download.cas import Grant, Kept, XetFailed, calls, granted
from app.hub.download.wire import Interrupted, Stopped, Stream
from app.hub.repositories.ranges import Remote
from app.network.door import Call

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


class Library(NamedTuple):
    """`hf_xet`, which has no types, and a session of it."""

    module: Any
    session: Any


def load(folder: Path) -> Library | None:
    """Return `hf_xet` with `folder` for its own files; None where there is none, or where it is no use.

    It knows the proxies of the environment, and not those of macOS's or Windows's own settings.
    """
    if urllib.request.getproxies() != urllib.request.getproxies_environment():
        return None
    quieten_xet(folder)
    try:
        import hf_xet  # noqa: PLC0415 -- 10 MB, and it reads the environment when it is loaded

        return Library(hf_xet, hf_xet.XetSession(config=hf_xet.XetConfig().with_config(dict(_SETTINGS))))
    except Exception:  # noqa: BLE001 -- not installed, not for this system, or a version that has other settings
        return None


class XetSource:
    """Where one file is in Xet. `is_wanted` is asked before each piece; False ends it."""

    def __init__(self, library: Library, remote: Remote, kept: Kept, *, is_wanted: Callable[[], bool]) -> None:
        self._library, self._remote, self._kept = library, remote, kept
        self._is_wanted = is_wanted
        self._grant: Grant | None = None

    @contextlib.contextmanager
    def stream(self, start: int, end: int) -> Iterator[Stream]:
        """Open the bytes from `start` up to `end`. Raises Interrupted, or XetFailed when it is no use."""
        try:
            self._grant = grant = self._grant or granted(self._remote, self._kept)
            called = calls(self._remote, self._kept, grant, start)[-1]
            with contextlib.closing(_Hand(lambda: self._begun(grant, start, end))) as hand:
                yield _Received(hand, self._is_wanted, called)
        except Interrupted:  # a token that has ended is one of the reasons, and may look like any other
            self._grant = None
            raise

    def forget(self) -> None:
        """Take the file as it is from now on."""
        self._grant = None

    def _begun(self, grant: Grant, start: int, end: int) -> Iterator[bytes]:
        group = self._library.session.new_download_stream_group(
            endpoint=grant.cas_url, token=grant.access_token, token_expiry_unix_secs=grant.exp
        )
        info = self._library.module.XetFileInfo(self._kept.hash, self._kept.size)
        yield from group.download_stream(info, start=start, end=end)


class _Hand:
    """Takes pieces in a thread of its own, one ahead of who asks: whoever waits for it need not wait for ever."""

    def __init__(self, begin: Callable[[], Iterator[bytes]]) -> None:
        self._begin = begin
        self._asked, self._came = Semaphore(0), SimpleQueue[bytes | Exception]()
        self._is_left = False
        Thread(target=self._take, name="xet", daemon=True).start()

    def piece(self, stop: Event) -> bytes:
        """Return what comes next, nothing at the end. Raises XetFailed after `PATIENCE_S`, Interrupted, Stopped."""
        self._asked.release()
        ends_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_at:
            if stop.is_set():
                raise Stopped
            with contextlib.suppress(Empty):
                came = self._came.get(timeout=_LOOK_S)
                if isinstance(came, Exception):  # what it says may quote an address that is a secret
                    raise Interrupted(_broke()) from None
                return came
        raise XetFailed("Xet storage is sending almost no data.")

    def close(self) -> None:
        """Let the thread go."""
        self._is_left = True
        self._asked.release()

    def _take(self) -> None:
        try:
            for piece in self._begin():
                if not self._is_handed(piece):
                    return
            self._is_handed(b"")
        except Exception as error:  # noqa: BLE001 -- handed to who asks
            self._is_handed(error)

    def _is_handed(self, came: bytes | Exception) -> bool:
        self._asked.acquire()
        if not self._is_left:
            self._came.put(came)
        return not self._is_left


class _Received:
    """A stream of what a hand takes."""

    def __init__(self, hand: _Hand, is_wanted: Callable[[], bool], called: Call) -> None:
        self._hand, self._is_wanted, self._called = hand, is_wanted, called
        self._rest = memoryview(b"")

    def pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield the next `count` bytes. Raises Interrupted, Stopped, or XetFailed when it is no use."""
        while count:
            if not self._is_wanted():
                raise XetFailed("A speed limit was set.")
            if not self._rest:
                self._rest = memoryview(self._hand.piece(stop))
                self._called.received(len(self._rest))
            if not self._rest:
                raise Interrupted(_broke())
            piece, self._rest = self._rest[:count], self._rest[count:]
            count -= len(piece)
            yield piece


def _broke() -> XetFailed:
    return XetFailed("Xet storage closed the connection.")
