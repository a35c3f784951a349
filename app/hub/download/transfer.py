"""One file from the hub into the cache: streams in parallel, tried again as long as it helps, checked, then named.

A chunk that was written is never asked for again, whatever happens in between. A file whose hash is wrong is fetched
once more from the start; a second time it is an error, and nothing is left that could be mistaken for the file.

The hash of a part file, computed while it grows: what is whole from the beginning is read back from memory.

The system still has it there when the hash follows closely, so the disk is read only after a restart.

Which stream fetches which chunk: long runs, so that a stream asks once and reads on, and none is fetched twice.

A stream takes the first chunk of a run and goes on through it. When all runs are taken, the next stream takes the
second half of the longest one; whoever is reading the first half stops where the other began.
"""

import hashlib
import math
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Protocol

from app.core.errors import EnvironmentFault, write_fault
from app.hub.download.chunk_map import ChunkMap, PartContent
from app.hub.download.wire import (
    PIECE_BYTES,
    ByteStream,
    DownloadStopped,
    FileChanged,
    NoRanges,
    StreamInterrupted,
    StreamSource,
    Throttle,
)
from app.hub.repositories.repository import RepoFile


class Regions:
    """The chunks that are missing, given out one at a time. Thread-safe."""

    def __init__(self, missing_chunks: Iterable[int]) -> None:
        self._free = set(missing_chunks)
        self._taken_indexes: set[int] = set()
        self._lock = threading.Lock()

    def take_run(self) -> range | None:
        """Return a run of chunks to ask for; the first of them is taken. None when nobody is needed any more."""
        with self._lock:
            runs = self._free_runs()
            if not runs:
                return None
            run = max(runs, key=len)
            start = run.start
            if start - 1 in self._taken_indexes and len(run) > 1:
                start += len(run) // 2
            return self._mark_taken(range(start, run.stop))

    def go_on(self, index: int) -> bool:
        """Note that a chunk is done, and tell whether its stream should read the next one too."""
        with self._lock:
            self._taken_indexes.discard(index)
            if index + 1 not in self._free:
                return False
            self._mark_taken(range(index + 1, index + 2))
            return True

    def give_back(self, index: int) -> None:
        """Put back a chunk whose stream broke."""
        with self._lock:
            if index in self._taken_indexes:
                self._taken_indexes.discard(index)
                self._free.add(index)

    def _mark_taken(self, run: range) -> range:
        self._free.discard(run.start)
        self._taken_indexes.add(run.start)
        return run

    def _free_runs(self) -> list[range]:
        runs: list[range] = []
        for index in sorted(self._free):
            if runs and runs[-1].stop == index:
                runs[-1] = range(runs[-1].start, index + 1)
            else:
                runs.append(range(index, index + 1))
        return runs


CHUNK_BYTES = 8 << 20
"""What is fetched again at most, for each stream, after a kill."""
STREAMS = 4
WIDEN_AFTER_S = 0.3
ENOUGH_BYTES_PER_S = 250e6
"""A line that carries this much in one stream gains nothing from more: they would only get in each other's way."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LONGEST_WAIT_S = 300.0
"""What a server may ask us to wait before we say so instead."""
FRUITLESS_TRIES = 8
"""So many in a row without a byte: with the pauses, about two minutes."""
_LOOK_S = 0.25
ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferDeps:
    """What a transfer works with. `progress` is told how many bytes were written, from several threads."""

    progress: Callable[[int], None]
    stop: threading.Event = field(default_factory=threading.Event)
    throttle: Throttle = field(default_factory=Throttle)
    streams: int = STREAMS
    chunk_bytes: int = CHUNK_BYTES
    tries: int = FRUITLESS_TRIES
    """In a row without a byte."""
    most_breaks: float = math.inf
    """Of streams, whatever they brought."""
    attempts: int = ATTEMPTS
    """At a file whose hash turns out wrong."""
    keeps_earlier: bool = False
    """Whether a file that is wrong in the end loses only the chunks that came now: another source goes on with it."""
    first_pause_s: float = FIRST_PAUSE_S
    widen_after_s: float = WIDEN_AFTER_S


class BlobFolder(Protocol):
    """Where files are kept: the hub's cache, or any other folder."""

    def blob_path(self, file: RepoFile) -> Path:
        """Return where a file's content is once it is whole and right."""

    def part_path(self, file: RepoFile) -> Path:
        """Return where it grows."""


def fetch_blob(cache: BlobFolder, file: RepoFile, source: StreamSource, deps: TransferDeps) -> None:
    """Bring a file's content to its place on the shelf. Raises DownloadStopped, or what no further try can mend."""
    blob, part = cache.blob_path(file), cache.part_path(file)
    if blob.exists():
        return
    chunks = ChunkMap(part, PartContent(size=file.size, chunk_bytes=deps.chunk_bytes, etag=file.etag))
    suspects = chunks.chunks_to_fetch if deps.keeps_earlier else chunks.all_chunks
    try:
        for _attempt in range(deps.attempts):
            streams = _FileStreams(chunks, part, source, deps)
            if _fetch_once(chunks, part, file, streams):
                part.replace(blob)
                chunks.delete_map()
                return
            streams.start_over(suspects)
    except OSError as error:
        raise write_fault("the download", error) from error
    finally:
        chunks.close()
    if not deps.keeps_earlier:
        part.unlink(missing_ok=True)
        chunks.delete_map()
    raise EnvironmentFault(
        f"{file.path} arrived damaged{' twice' if deps.attempts > 1 else ''}.",
        hint="The server or something in between changes it. Try another network or mirror.",
        code="checksum_mismatch",
    )


def _fetch_once(chunks: ChunkMap, part: Path, file: RepoFile, streams: "_FileStreams") -> bool:
    """Fetch what is missing; return whether the whole is right."""
    follower = HashFollower(part, chunks, file)
    try:
        streams.fetch_all(follower.notify_chunk)
        return follower.wait_for_digest() == file.etag or not file.etag
    except FileChanged:
        return False
    finally:
        follower.give_up()


class _FileStreams:
    """The threads that fetch one file."""

    def __init__(self, chunks: ChunkMap, part: Path, source: StreamSource, deps: TransferDeps) -> None:
        self._chunks, self._part, self._source, self._deps = chunks, part, source, deps
        self._regions = Regions(chunks.chunks_to_fetch)
        self._failure: Exception | None = None
        self._fruitless = self._breaks = 0
        self._received_bytes = 0
        self._begun_bytes: dict[int, int] = {}
        """Bytes of chunks that came since this process began."""
        self._is_whole = False
        """The server knows no ranges: one stream, from the start."""

    def fetch_all(self, on_chunk: Callable[[], None]) -> None:
        """Fetch every missing chunk. Raises FileChanged, DownloadStopped, or an error of ours."""
        threads: list[threading.Thread] = []
        most = min(self._deps.streams, len(self._chunks.chunks_to_fetch))
        while not threads or (len(threads) < most and self._would_help(threads)):
            threads.append(threading.Thread(target=self._run_stream, args=(on_chunk,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if self._is_whole:
            self._failure = None
            self._read_whole(on_chunk)
        if self._failure is not None:
            self._uncount_begun()
            raise self._failure

    def _would_help(self, threads: list[threading.Thread]) -> bool:
        """Watch for a while and tell whether another stream would help; not once nothing is left to do."""
        while self._failure is None and (alive := [thread for thread in threads if thread.is_alive()]):
            before = self._received_bytes
            alive[0].join(self._deps.widen_after_s)
            if self._received_bytes - before <= ENOUGH_BYTES_PER_S * self._deps.widen_after_s:
                return True
        return False

    def _run_stream(self, on_chunk: Callable[[], None]) -> None:
        try:
            with self._part.open("r+b", buffering=0) as out:
                while self._failure is None and (run := self._regions.take_run()):
                    self._read_run(run, out, on_chunk)
        except OSError as error:
            self._failure = write_fault("the download", error)
        except NoRanges as error:
            self._is_whole, self._failure = True, error
        except Exception as error:  # noqa: BLE001 -- raised again by whoever waits for the threads
            self._failure = self._failure or error

    def _read_run(self, run: range, out: FileIO, on_chunk: Callable[[], None]) -> None:
        index = run.start
        start = self._chunks.chunk_span(index).start + self._begun_bytes.get(index, 0)
        try:
            with self._source.open_stream(start, self._chunks.chunk_span(run.stop - 1).stop) as answer:
                while True:
                    self._write_chunk(index, answer, out)
                    on_chunk()
                    if self._failure is not None or not self._regions.go_on(index):
                        return
                    index += 1
        except StreamInterrupted as interruption:
            self._regions.give_back(index)
            self._pause_or_raise(interruption)

    def _write_chunk(self, index: int, answer: ByteStream, out: FileIO) -> None:
        """Write the rest of a chunk. What came of it before the stream broke is not asked for again."""
        span = self._chunks.chunk_span(index)
        begun_bytes = self._begun_bytes.get(index, 0)
        out.seek(span.start + begun_bytes)
        for piece in answer.read_pieces(len(span) - begun_bytes, self._deps.stop):
            _write_all(out, piece)
            begun_bytes += len(piece)
            self._begun_bytes[index], self._fruitless = begun_bytes, 0
            self._received_bytes += len(piece)
            self._deps.progress(len(piece))
            self._deps.throttle.wait_for_share(len(piece), self._deps.stop)
        self._chunks.mark_chunk(index, out.fileno())

    def _read_whole(self, on_chunk: Callable[[], None]) -> None:
        size = self._chunks.content.size
        while True:
            self.start_over(self._chunks.all_chunks)
            try:
                with self._source.open_stream(0, size) as answer, self._part.open("r+b", buffering=0) as out:
                    for index in range(self._chunks.content.chunk_count):
                        self._write_chunk(index, answer, out)
                        on_chunk()
                    return
            except StreamInterrupted as interruption:
                self._pause_or_raise(interruption)

    def start_over(self, indexes: Sequence[int]) -> None:
        """Start over: what is there of these chunks so far counts for nothing, and is not counted twice."""
        self._uncount_begun()
        present = [index for index in indexes if self._chunks.has_chunk(index)]
        self._deps.progress(-sum(len(self._chunks.chunk_span(index)) for index in present))
        self._chunks.clear_chunks(indexes)
        self._source.forget_version()

    def _uncount_begun(self) -> None:
        """Whoever goes on from here begins these chunks again."""
        self._deps.progress(
            -sum(count for index, count in self._begun_bytes.items() if not self._chunks.has_chunk(index))
        )
        self._begun_bytes.clear()

    def _pause_or_raise(self, interruption: StreamInterrupted) -> None:
        """Wait before the next try, longer each time nothing came. Raises when it is no use, or somebody ends it."""
        self._fruitless, self._breaks = self._fruitless + 1, self._breaks + 1
        is_over = self._fruitless > self._deps.tries or self._breaks > self._deps.most_breaks
        if is_over or interruption.wait_s > LONGEST_WAIT_S:
            raise interruption.error
        longest = min(LONGEST_PAUSE_S, self._deps.first_pause_s * 2 ** (self._fruitless - 1))
        pause = max(interruption.wait_s, longest * random.uniform(0.5, 1.0))  # noqa: S311 -- so that streams spread out
        while pause > 0 and self._failure is None:
            if self._deps.stop.wait(min(pause, _LOOK_S)):
                raise DownloadStopped
            pause -= _LOOK_S


def _write_all(out: FileIO, piece: memoryview) -> None:
    """Write all of it: a full disk takes a part, and only says so the next time."""
    while piece:
        piece = piece[out.write(piece) :]


class HashFollower:
    """Hashes chunks in their order as they get there, in a thread of its own."""

    def __init__(self, part: Path, chunks: ChunkMap, file: RepoFile) -> None:
        self._part, self._chunks = part, chunks
        self._hash = hash_of(file)
        self._news = threading.Condition()
        self._is_over = False
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._hash_chunks, name="hash", daemon=True)
        self._thread.start()

    def notify_chunk(self) -> None:
        """Tell it that a chunk is there."""
        with self._news:
            self._news.notify()

    def wait_for_digest(self) -> str:
        """Return the hash once every chunk is there; waits. Raises OSError."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._hash.hexdigest()

    def give_up(self) -> None:
        """End the thread: nobody wants the hash any more."""
        with self._news:
            self._is_over = True
            self._news.notify()
        self._thread.join()

    def _hash_chunks(self) -> None:
        buffer = memoryview(bytearray(PIECE_BYTES))
        try:
            with self._part.open("rb", buffering=0) as file:
                for index in range(self._chunks.content.chunk_count):
                    if not self._wait_for(index):
                        return
                    bytes_left = len(self._chunks.chunk_span(index))
                    while bytes_left and (count := file.readinto(buffer[: min(bytes_left, len(buffer))])):
                        self._hash.update(buffer[:count])
                        bytes_left -= count
        except OSError as error:
            self._error = error

    def _wait_for(self, index: int) -> bool:
        with self._news:
            self._news.wait_for(lambda: self._is_over or self._chunks.has_chunk(index))
            return not self._is_over


def hash_of(file: RepoFile) -> "hashlib._Hash":
    """Return the hash a file is checked with: SHA-256 of a large file, git's hash of a small one, begun."""
    if file.sha256 or not file.oid:
        return hashlib.sha256()
    digest = hashlib.sha1(usedforsecurity=False)  # git's name for a file, not a signature
    digest.update(f"blob {file.size}\0".encode())
    return digest
