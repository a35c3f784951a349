"""The tensor table of a GGUF file, read in one pass.

A library of thousands of models has half a million entries, and its list needs their sums only: an entry becomes a
value of its own only where somebody asks for it.
"""

import struct
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from app.hub.gguf.cursor import Cursor, drop_unprintable
from app.hub.gguf.tables import TYPE_SIZES
from app.hub.gguf.values import MAX_NUMBER, TensorInfo, corrupt_error

MAX_NAME_BYTES = 256
"""llama.cpp itself takes 63 (GGML_MAX_NAME)."""
MAX_DIMENSIONS = 8
_LENGTH, _COUNT = struct.Struct("<Q"), struct.Struct("<I")
_REST = tuple(struct.Struct(f"<{dimensions}QIQ") for dimensions in range(MAX_DIMENSIONS + 1))
"""What follows a tensor's name and the number of its dimensions: those, its type, and where its data begins."""
_LONGEST = _LENGTH.size + MAX_NAME_BYTES + _COUNT.size + _REST[MAX_DIMENSIONS].size
_NO_SIZE = (1, 0)

_Entry = tuple[bytes, list[int], int, int]
"""Name, shape, type and offset of a tensor."""


class TensorSums(NamedTuple):
    """What a table says in all: numbers in all tensors, and where the last one ends; None once a type is unknown."""

    elements: int
    end: int | None


def read_tensors(cursor: Cursor, count: int, kept: list[TensorInfo] | None = None) -> TensorSums:
    """Step over a table and return its sums; its entries are added to `kept`, if they are wanted."""
    total, end, is_known = 0, 0, True
    for name, shape, kind, offset in _iter_entries(cursor, count):
        if kept is not None:
            kept.append(TensorInfo(drop_unprintable(str(name, "utf-8", "replace")), tuple(shape), kind))
        elements = prod(shape)
        total += elements
        if total > MAX_NUMBER or offset > MAX_NUMBER:
            raise corrupt_error("a tensor has an impossible size")
        block, size = TYPE_SIZES.get(kind, _NO_SIZE)
        is_known = is_known and size > 0
        end = max(end, offset + -(-elements // block) * size)
    return TensorSums(total, end if is_known else None)


def _iter_entries(cursor: Cursor, count: int) -> Iterator[_Entry]:
    window, at = cursor.look_ahead(_LONGEST)
    window_start = at
    for _ in range(count):
        if at > len(window) - _LONGEST:  # the next entry might go beyond it
            cursor.skip_bytes(at - window_start)
            window, at = cursor.look_ahead(_LONGEST)
            window_start = at
        try:
            entry, at = _parse_entry(window, at)
        except struct.error:
            raise corrupt_error("it ends in the middle of its header") from None
        yield entry
    cursor.skip_bytes(at - window_start)


def _parse_entry(window: bytes, at: int) -> tuple[_Entry, int]:
    """Return the entry there, and where the next one is. Raises struct.error where the window ends within it."""
    (length,) = _LENGTH.unpack_from(window, at)
    if length > MAX_NAME_BYTES:
        raise corrupt_error("it contains a name of impossible length")
    name_end = at + _LENGTH.size + length
    (dimensions,) = _COUNT.unpack_from(window, name_end)
    if dimensions > MAX_DIMENSIONS:
        raise corrupt_error("a tensor has an impossible shape")
    rest = _REST[dimensions]
    *shape, kind, offset = rest.unpack_from(window, name_end + _COUNT.size)
    return (window[at + _LENGTH.size : name_end], shape, kind, offset), name_end + _COUNT.size + rest.size
