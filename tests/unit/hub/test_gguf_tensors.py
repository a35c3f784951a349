import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.hub.gguf import header
from app.hub.gguf.header import MAX_DIMENSIONS, MAX_NAME_BYTES, Cursor, TensorSums, read_tensors
from app.hub.gguf.tables import TYPE_SIZES
from app.hub.gguf.values import MAX_NUMBER, TensorInfo
from tests.gguf_files import packed_text

Entry = tuple[str, tuple[int, ...], int, int]
"""Name, shape, type and offset."""


class Bytes:
    def __init__(self, content: bytes, first_bytes: int = 1 << 20) -> None:
        self._content, self.size, self.first_bytes = content, len(content), first_bytes

    def read_at(self, offset: int, count: int) -> bytes:
        return self._content[offset : offset + count]


def pack_entry(entry: Entry) -> bytes:
    name, shape, kind, offset = entry
    numbers = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    return packed_text(name) + numbers


NORM: Entry = ("norm.weight", (64,), 0, 0)
MATRIX: Entry = ("blk.0.attn_q.weight", (64, 96), 8, 256)
EXPERTS: Entry = ("blk.0.ffn_up_exps.weight", (32, 64, 8), 2, 256 + 6528)
TABLE = b"".join(map(pack_entry, (NORM, MATRIX, EXPERTS)))
ELEMENTS = 64 + 64 * 96 + 32 * 64 * 8
END = EXPERTS[3] + 32 * 64 * 8 // 32 * 18


def test_sums_and_entries_say_the_same() -> None:
    kept_tensors: list[TensorInfo] = []
    assert read_tensors(Cursor(Bytes(TABLE)), 3) == TensorSums(ELEMENTS, END)
    assert read_tensors(Cursor(Bytes(TABLE)), 3, kept_tensors) == TensorSums(ELEMENTS, END)
    assert kept_tensors == [TensorInfo(name, shape, kind) for name, shape, kind, _ in (NORM, MATRIX, EXPERTS)]
    assert sum(tensor.elements for tensor in kept_tensors) == ELEMENTS


def test_what_follows_the_table_is_read_from_its_end() -> None:
    cursor = Cursor(Bytes(TABLE + b"rest"))
    read_tensors(cursor, 3)
    assert cursor.position == len(TABLE)
    assert cursor.take_bytes(4) == b"rest"


@pytest.mark.parametrize("window", [1, 17, 90, 400, 700])
def test_entries_across_the_edge_of_a_window_are_read_whole(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(header, "WINDOW_BYTES", window)
    table = TABLE * 40
    for first in (1, window, 3 * window):
        kept_tensors: list[TensorInfo] = []
        sums = read_tensors(Cursor(Bytes(table + bytes(5), first)), 120, kept_tensors)
        assert sums == TensorSums(40 * ELEMENTS, END)
        assert [tensor.name for tensor in kept_tensors[-3:]] == [NORM[0], MATRIX[0], EXPERTS[0]]


def test_no_tensors_end_where_the_header_does() -> None:
    assert read_tensors(Cursor(Bytes(b"")), 0) == TensorSums(0, 0)


def test_the_last_to_end_counts_not_the_last_in_the_table() -> None:
    table = b"".join(map(pack_entry, (EXPERTS, MATRIX, NORM)))
    assert read_tensors(Cursor(Bytes(table)), 3) == TensorSums(ELEMENTS, END)


def test_an_unknown_type_leaves_the_end_unknown() -> None:
    unknown = max(TYPE_SIZES) + 1
    table = pack_entry(NORM) + pack_entry(("odd", (7,), unknown, 256))
    assert read_tensors(Cursor(Bytes(table)), 2) == TensorSums(64 + 7, None)


@given(st.integers(0, len(TABLE) - 1))
def test_a_table_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(BadRequest, match="ends in the middle"):
        read_tensors(Cursor(Bytes(TABLE[:length])), 3)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("n" * (MAX_NAME_BYTES + 1), (1,), 0, 0), "impossible length"),
        (("n", (1,) * (MAX_DIMENSIONS + 1), 0, 0), "impossible shape"),
        (("n", (1 << 40, 1 << 40), 0, 0), "impossible size"),
        (("n", (1,), 0, MAX_NUMBER + 1), "impossible size"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(entry: Entry, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read_tensors(Cursor(Bytes(pack_entry(entry) + bytes(400))), 1)


def test_names_are_shown_without_what_cannot_be() -> None:
    kept_tensors: list[TensorInfo] = []
    read_tensors(Cursor(Bytes(pack_entry(("a\x1b[31m\n", (1,), 0, 0)))), 1, kept_tensors)
    assert kept_tensors[0].name == "a[31m"
