"""The hash of a part file, computed while it grows: what is whole from the beginning is read back from memory.

The system still has it there when the hash follows closely, so the disk is read only after a restart.
"""

import hashlib
import threading
from pathlib import Path

from app.hub.download.chunk_map import ChunkMap
from app.hub.download.wire import PIECE_BYTES
from app.hub.repositories.repository import RepoFile


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
                    left = len(self._chunks.chunk_span(index))
                    while left and (count := file.readinto(buffer[: min(left, len(buffer))])):
                        self._hash.update(buffer[:count])
                        left -= count
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
