"""Vectors of passages: one file, 8 bits for each number, all of them compared with that of a question.

Passage n has the n-th place. Nothing is built, so nothing can be half built: a place counts once the database says so,
and is written before. Comparing all of a million takes about a tenth of a second, and no memory but what the system has
of the file; graphs are quicker and take hours to build (docs/internals/documents.md).
"""

import heapq
import math
import os
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any

_LARGEST = 127
"""Of a signed byte. Only the direction of a vector counts, so each uses the whole range."""
_EXPONENT_FROM_HALF, _NEGATIVE = 0x3F, 0x80
"""The last byte of a 32 bit number from 1/2 to below 2, and what that of a negative one is at least."""
_BLOCK = 2048
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
        if len(vector) != self._dimensions:
            return []
        question = memoryview(vector).cast("b", shape=[1, self._dimensions])
        nearest = _Nearest(count)
        try:
            with self._path.open("rb") as file:
                for first, block in _blocks_of(file, self._dimensions):
                    nearest.add(first, _distances(question, block, self._dimensions))
        except FileNotFoundError:
            return []
        return nearest.places()


class _Nearest:
    """The nearest so far."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._far_first: list[tuple[float, int]] = []
        """A heap, of distances with another sign."""
        self._limit = 1.0  # at a right angle; also what a place of zeros has

    def add(self, first: int, distances: memoryview) -> None:
        """Take those of a block that are near enough; its places begin with `first`."""
        heap = self._far_first
        for at, distance in _below(distances, self._limit):
            if len(heap) < self._count:
                heapq.heappush(heap, (-distance, -first - at))
            else:
                heapq.heappushpop(heap, (-distance, -first - at))
        if len(heap) == self._count:
            self._limit = -heap[0][0]

    def places(self) -> list[int]:
        """Return their places, the nearest first."""
        return [-place for _, place in sorted(self._far_first, reverse=True)]


def _blocks_of(file: BufferedReader, size: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the vectors of a file some at a time, in one place of memory, with the number of the first.

    To map the file would make its pages this process's own for each question, which takes longer than to copy them.
    """
    room = memoryview(bytearray(_BLOCK * size))
    first = 0
    while length := file.readinto(room) // size:
        yield first, room[: length * size]
        first += length


def _distances(question: memoryview, block: memoryview, size: int) -> memoryview:
    """Return the bytes of a distance, in 32 bits, for each vector of a block."""
    import simsimd  # noqa: PLC0415 -- the gateway starts without it

    with block.cast("b", shape=[len(block) // size, size]) as matrix:
        distances: Any = simsimd.cdist(question, matrix, metric="cosine", out_dtype="float32")  # a buffer
    return memoryview(distances).cast("B")


def _below(distances: memoryview, limit: float) -> Iterator[tuple[int, float]]:
    """Yield the places of the distances below a limit, at most 1, with the distances.

    Hardly any are, and to make a number of each would take half as long as to compare the vectors. So the two bytes
    that say most are looked at first, of all of them at once: the last has the sign and seven bits of the exponent, the
    one before it the eighth and the mantissa's first. (Systems that SimSIMD is made for put the last byte last.)
    """
    numbers, whole = distances.cast("f"), distances.tobytes()
    *_, mantissa, exponent = struct.pack("<f", limit)
    if exponent == _EXPONENT_FROM_HALF:
        near = {
            *_places_of(whole[3::4], _exponents_to(exponent - 1)),
            *_places_of(whole[2::4], _mantissas_to(min(mantissa, _LARGEST))),
        }
    else:
        near = {*_places_of(whole[3::4], _exponents_to(exponent))}
    yield from ((at, numbers[at]) for at in sorted(near) if numbers[at] < limit)


@cache
def _exponents_to(most: int) -> bytes:
    """Return the table that marks the last bytes of numbers that are this small, or negative by rounding."""
    return bytes(byte <= most or byte >= _NEGATIVE for byte in range(256))


@cache
def _mantissas_to(most: int) -> bytes:
    return bytes(byte <= most for byte in range(256))


def _places_of(values: bytes, table: bytes) -> Iterator[int]:
    """Yield the places of the bytes that a table marks."""
    marks = values.translate(table)
    at = marks.find(1)
    while at >= 0:
        yield at
        at = marks.find(1, at + 1)
