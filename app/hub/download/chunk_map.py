"""Which chunks of a part file are there, kept beside it so that a killed download goes on where it was.

One line of JSON says what is being fetched; then comes one byte per chunk. A chunk is marked once its bytes were handed
to the system, which outlives this process, and marked again once they are on the disk, which outlives the computer's
power. What was only handed over before the last start of the computer is fetched again.
"""

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from app.core.errors import write_fault

SYNC_S = 5.0
"""What a power cut costs at most, in download time."""
_MISSING, _WRITTEN, _ON_DISK = 0, 1, 2
_SLACK_S = 60.0
"""Clocks are put right after a start."""


class PartContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a part file will be. A map for anything else is of no use."""

    version: int = 1
    size: int
    chunk_bytes: int
    etag: str = ""
    """As the hub's own description has it."""

    @property
    def chunk_count(self) -> int:
        """How many chunks there are."""
        return -(-self.size // self.chunk_bytes)


class ChunkMap:
    """The marks of one part file. Thread-safe."""

    def __init__(self, part: Path, content: PartContent) -> None:
        self.content = content
        self._part, self._file = part, part.with_suffix(".map")
        self._lock = threading.Lock()
        self._unsynced_chunks: list[int] = []
        self._synced_at = time.monotonic()
        self._marks = bytearray(content.chunk_count)
        self._head = msgspec.json.encode(content) + b"\n"
        self._open_map()

    @property
    def chunks_to_fetch(self) -> list[int]:
        """The chunks that have to be fetched."""
        with self._lock:
            return [index for index, mark in enumerate(self._marks) if mark == _MISSING]

    def chunk_span(self, index: int) -> range:
        """Return the positions of a chunk's bytes in the file."""
        start = index * self.content.chunk_bytes
        return range(start, min(start + self.content.chunk_bytes, self.content.size))

    def has_chunk(self, index: int) -> bool:
        """Tell whether a chunk has been written."""
        return self._marks[index] != _MISSING

    def mark_chunk(self, index: int, file_handle: int) -> None:
        """Note that a chunk was written through the file handle `written`. Raises StorageFault."""
        try:
            with self._lock:
                self._set_mark(index, _WRITTEN)
                self._unsynced_chunks.append(index)
                if time.monotonic() - self._synced_at < SYNC_S:
                    return
                settled_chunks, self._unsynced_chunks, self._synced_at = self._unsynced_chunks, [], time.monotonic()
            os.fsync(file_handle)
            with self._lock:
                for synced_index in settled_chunks:
                    self._set_mark(synced_index, _ON_DISK)
        except OSError as error:
            raise write_fault("the download", error) from error

    def clear_chunks(self, indexes: Iterable[int]) -> None:
        """Forget chunks: what was fetched is wrong. Raises StorageFault."""
        with self._lock:
            for index in indexes:
                self._marks[index] = _MISSING
            self._unsynced_chunks = [index for index in self._unsynced_chunks if self._marks[index] != _MISSING]
            self._write_map()

    @property
    def all_chunks(self) -> range:
        """Every chunk, whether it is there or not."""
        return range(self.content.chunk_count)

    def delete_map(self) -> None:
        """End the map; the file it was for is whole."""
        self._handle.close()
        self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file; the marks stay."""
        self._handle.close()

    def _set_mark(self, index: int, mark: int) -> None:
        self._marks[index] = mark
        self._handle.seek(len(self._head) + index)
        self._handle.write(bytes([mark]))

    def _open_map(self) -> None:
        try:
            self._part.parent.mkdir(parents=True, exist_ok=True)
            self._take_over()
            is_new = not self._file.exists()
            self._handle = self._file.open("r+b" if not is_new else "w+b", buffering=0)
            if is_new:
                self._write_map()
            if not self._part.exists() or self._part.stat().st_size != self.content.size:
                self._marks = bytearray(self.content.chunk_count)
                self._write_map()
                with self._part.open("ab") as part:
                    part.truncate(self.content.size)
        except OSError as error:
            raise write_fault("the download", error) from error

    def _take_over(self) -> None:
        """Take the marks an earlier run left, as far as they can be trusted."""
        try:
            kept_content, written_at = self._file.read_bytes(), self._file.stat().st_mtime
        except FileNotFoundError:
            return
        import psutil  # noqa: PLC0415 -- a tenth of what a download imports, and most begin anew

        is_older = written_at < psutil.boot_time() - _SLACK_S
        marks = kept_content[len(self._head) :]
        if (
            not kept_content.startswith(self._head)
            or len(marks) != self.content.chunk_count
            or max(marks, default=0) > _ON_DISK
        ):
            self._file.unlink()
            return
        trusted_marks = {_ON_DISK} if is_older else {_WRITTEN, _ON_DISK}
        self._marks = bytearray(mark if mark in trusted_marks else _MISSING for mark in marks)

    def _write_map(self) -> None:
        self._handle.seek(0)
        self._handle.write(self._head + bytes(self._marks))
        self._handle.truncate(len(self._head) + len(self._marks))


def bytes_written(part: Path) -> int:
    """Return how much of a part file is there by its map; 0 for one that cannot be gone on with."""
    try:
        head, separator, marks = part.with_suffix(".map").read_bytes().partition(b"\n")
        content = msgspec.json.decode(head, type=PartContent)
    except (OSError, msgspec.DecodeError):
        return 0
    if not separator or len(marks) != content.chunk_count or not part.exists():
        return 0
    present_count = sum(mark != _MISSING for mark in marks)
    is_short = bool(marks) and marks[-1] != _MISSING
    return present_count * content.chunk_bytes - (content.chunk_count * content.chunk_bytes - content.size) * is_short
