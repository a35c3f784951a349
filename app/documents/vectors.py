"""Vectors of passages: one file, 8 bits for each number, all of them compared with that of a question.

Passage n has the n-th place. Nothing is built, so nothing can be half built: a place counts once the database says so,
and is written before. Comparing all of a million takes less than a tenth of a second, and no memory but what the system
has of the file; graphs are quicker and take hours to build (docs/internals/documents.md).
"""

import heapq
import math
import mmap
import os
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import simsimd

_LARGEST = 127
"""Of a signed byte. Only the direction of a vector counts, so each uses the whole range."""
_BLOCK = 1024
"""Vectors compared at a time: the interpreter goes on between them, and other threads with it."""


def quantise(vector: Sequence[float]) -> bytes:
    """Return a vector in 8 bits for each number. Raises ValueError for what has no direction."""
    largest = max(map(abs, vector), default=0.0)
    if not largest or not math.isfinite(largest):
        raise ValueError("the vector has no direction")
    scale = _LARGEST / largest
    return array("b", [round(number * scale) for number in vector]).tobytes()


class VectorFile:
    """The vectors of one index, each `dimensions` bytes long."""

    def __init__(self, path: Path, dimensions: int) -> None:
        self._path, self._dimensions = path, dimensions

    def write(self, vectors: Mapping[int, bytes]) -> None:
        """Put vectors into their places, safe on the disk when it returns. Raises OSError."""
        self._path.touch(mode=0o600)
        with self._path.open("r+b") as file:
            for place, vector in sorted(vectors.items()):
                file.seek(place * self._dimensions)
                file.write(vector)
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Delete the file; one that somebody still reads is deleted the next time."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def nearest(self, vector: bytes, count: int) -> list[int]:
        """Return the places of the `count` vectors that are nearest, the nearest first; empty places are never near."""
        if len(vector) != self._dimensions or not self._path.exists() or not self._path.stat().st_size:
            return []
        with (
            self._path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as vectors,
        ):
            return [place for _, place in self._scan(vectors, vector, count)]

    def _scan(self, vectors: memoryview, vector: bytes, count: int) -> list[tuple[float, int]]:
        size = self._dimensions
        question = memoryview(vector).cast("b", shape=[1, size])
        best: list[tuple[float, int]] = []
        limit = 1.0  # at a right angle; also what a place of zeros has
        for first in range(0, len(vectors) // size, _BLOCK):
            distances = _distances(question, vectors[first * size : (first + _BLOCK) * size], size)
            if min(distances) < limit:
                near = [(distance, first + at) for at, distance in enumerate(distances) if distance < limit]
                best = heapq.nsmallest(count, best + near)
                limit = best[-1][0] if len(best) == count else limit
        return best


def _distances(question: memoryview, block: memoryview, size: int) -> "memoryview[float]":
    rows = len(block) // size
    with block[: rows * size].cast("b", shape=[rows, size]) as matrix:
        distances: Any = simsimd.cdist(question, matrix, metric="cosine")  # its stub does not say that it is a buffer
    return memoryview(distances).cast("B").cast("d")
