"""A file's bytes from Hugging Face's Xet storage, by way of `hf_xet`: another source for the same transfer.

`hf_xet` is asked for ranges only; what is missing, what is kept and whether it is right is decided as for plain HTTP.
It cannot be left alone with that. Measured with 1.8: a stream whose storage refuses (401, 404, 5xx) ends early without
a word, wrong bytes pass, and one that waits can be neither cancelled nor hurried. So the storage is asked by us first,
which also tells to whom `hf_xet` will connect; a stream that ends early is one that broke; and a thread that gets
nothing is left behind until this process ends.

What the hub and its Xet storage say of a file: leave to read it, and from where its bytes are fetched.

`hf_xet` asks all this too, and keeps to itself what it hears, and whom it calls. So it is asked by us before: what is
refused is known by its status, no address is taken that is not safe, and every host passes the door.
https://huggingface.co/docs/xet/auth and /api
"""

import contextlib
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from app.config.environment import quieten_xet
from app.core.errors import NotFound, RoundhouseError, Unauthorized, Unavailable
from app.hub.download.wire import ByteStream, DownloadStopped, StreamInterrupted
from app.hub.repositories.ranges import HubBusy, RemoteHost
from app.network.egress import EgressCall, egress_gate

_HASH = re.compile(r"[0-9a-f]{64}")
_MAX_ANSWER_BYTES = 1 << 20
"""A token and an address have at most 64,000 characters each."""
_PORTS = {"http": 80, "https": 443}


class XetFailed(Unavailable):
    """Nothing comes from Xet just now; plain HTTP may."""

    default_code = "xet_failed"


class ReadGrant(msgspec.Struct, frozen=True, rename="camel"):
    """What the hub gives to whoever may read a repository: where its content is, and a token for there."""

    access_token: str
    cas_url: str
    exp: int
    """Unix seconds."""


class _FetchPlace(msgspec.Struct, frozen=True):
    url: str


class _FetchPlan(msgspec.Struct, frozen=True):
    """From where bytes are fetched, by xorb: in the first version's words, or in the second's."""

    fetch_info: dict[str, list[_FetchPlace]] = {}
    xorbs: dict[str, list[_FetchPlace]] = {}

    @property
    def urls(self) -> list[str]:
        """Every address. They are signed: whoever has one may read."""
        return [place.url for places in (*self.fetch_info.values(), *self.xorbs.values()) for place in places]


class XetFile(NamedTuple):
    """A file as Xet has it, and where the hub gives leave to read it."""

    hash: str
    size: int
    address: str


def xet_hash(remote: RemoteHost, url: str) -> str:
    """Return the name that Xet has for what the hub serves at `url`; empty where it is kept otherwise."""
    try:
        header = remote.read_headers(url).get("X-Xet-Hash", "")
    except RoundhouseError:  # plain HTTP will say it
        return ""
    return header if _HASH.fullmatch(header) else ""


def grant_address(endpoint: str, repository: str, commit: str) -> str:
    """Return where the hub gives a token for reading a commit's content."""
    return f"{endpoint.rstrip('/')}/api/models/{repository}/xet-read-token/{quote(commit, safe='')}"


def request_grant(remote: RemoteHost, xet_file: XetFile) -> ReadGrant:
    """Return leave to read a file. Raises StreamInterrupted, or XetFailed when it is no use."""
    with _translate_refusals():
        grant = msgspec.json.decode(remote.read_small_file(xet_file.address, _MAX_ANSWER_BYTES), type=ReadGrant)
        remote.check_address(grant.cas_url)
        return grant


def note_calls(remote: RemoteHost, xet_file: XetFile, grant: ReadGrant, start: int) -> list[EgressCall]:
    """Note whom `hf_xet` will call for the bytes from `start` on; the last of them sends the bytes.

    Raises StreamInterrupted, or XetFailed when it is no use.
    """
    with _translate_refusals():
        urls = _read_fetch_plan(remote, xet_file, grant, start).urls
        for url in urls:
            remote.check_address(url)
    parts = [urlsplit(url) for url in (grant.cas_url, *urls)]
    places = dict.fromkeys((part.hostname or "", part.port or _PORTS.get(part.scheme, 0)) for part in parts)
    return [egress_gate.note_call(host, port, remote.purpose) for host, port in places]


def _read_fetch_plan(remote: RemoteHost, xet_file: XetFile, grant: ReadGrant, start: int) -> _FetchPlan:
    headers = {"Authorization": f"Bearer {grant.access_token}", "Range": f"bytes={start}-{start}"}
    base = grant.cas_url.rstrip("/")
    urls = [f"{base}/{version}/reconstructions/{xet_file.hash}" for version in ("v2", "v1")]
    try:
        answer = remote.read_small_file(urls[0], _MAX_ANSWER_BYTES, headers)
    except NotFound:  # `hf_xet` goes back to the first version too
        answer = remote.read_small_file(urls[1], _MAX_ANSWER_BYTES, headers)
    return msgspec.json.decode(answer, type=_FetchPlan)


@contextlib.contextmanager
def _translate_refusals() -> Iterator[None]:
    """Sort what goes wrong into what another try may mend, and what none does."""
    try:
        yield
    except msgspec.DecodeError:
        raise XetFailed("The answer of the hub or its storage about Xet could not be understood.") from None
    except HubBusy as busy:  # plain HTTP may go on meanwhile
        raise XetFailed(str(busy)) from busy
    except (Unavailable, Unauthorized) as error:  # a token ends; another may do
        raise StreamInterrupted(XetFailed(f"Xet storage cannot be read. {error}")) from error
    except RoundhouseError as error:
        raise XetFailed("Xet storage refuses the download.") from error


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
        """Open the bytes from `start` up to `end`. Raises StreamInterrupted, or XetFailed when it is no use."""
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
        self._requests, self._pieces = Semaphore(0), SimpleQueue[bytes | Exception]()
        self._is_left = False
        Thread(target=self._read_ahead, name="xet", daemon=True).start()

    def next_piece(self, stop: Event) -> bytes:
        """Return what comes next, nothing at the end. Raises XetFailed after `PATIENCE_S`, Interrupted, Stopped."""
        self._requests.release()
        ends_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_at:
            if stop.is_set():
                raise DownloadStopped
            with contextlib.suppress(Empty):
                piece = self._pieces.get(timeout=_LOOK_S)
                if isinstance(piece, Exception):  # what it says may quote an address that is a secret
                    raise StreamInterrupted(_xet_fault()) from None
                return piece
        raise XetFailed("Xet storage is sending almost no data.")

    def close(self) -> None:
        """Let the thread go."""
        self._is_left = True
        self._requests.release()

    def _read_ahead(self) -> None:
        try:
            for piece in self._begin():
                if not self._hand_over(piece):
                    return
            self._hand_over(b"")
        except Exception as error:  # noqa: BLE001 -- handed to who asks
            self._hand_over(error)

    def _hand_over(self, piece: bytes | Exception) -> bool:
        self._requests.acquire()
        if not self._is_left:
            self._pieces.put(piece)
        return not self._is_left


class _XetStream:
    """A stream of what a hand takes."""

    def __init__(self, reader: _PieceReader, is_wanted: Callable[[], bool], call: EgressCall) -> None:
        self._reader, self._is_wanted, self._call = reader, is_wanted, call
        self._rest = memoryview(b"")

    def read_pieces(self, count: int, stop: Event) -> Iterator[memoryview]:
        """Yield the next `count` bytes. Raises StreamInterrupted, DownloadStopped, or XetFailed when it is no use."""
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
