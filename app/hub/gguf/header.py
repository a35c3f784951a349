"""Read the header of a GGUF file that may be damaged, half downloaded or hostile.

No count, length or offset makes us allocate or loop beyond fixed limits. Numbers, short texts and short lists of
numbers are kept; vocabularies and other long lists are stepped over.
"""

import struct
from collections.abc import Mapping

import msgspec

from app.core.errors import BadRequest
from app.hub.gguf.cursor import Cursor, drop_unprintable
from app.hub.gguf.tables import ARRAY, SCALARS, STRING
from app.hub.gguf.tensors import read_tensors
from app.hub.gguf.values import TensorInfo, Value, corrupt_error
from app.hub.sources import ByteSource

MAGIC = b"GGUF"
VERSIONS = (2, 3)
"""Version 1 (2023) used shorter lengths; llama.cpp no longer reads it either."""

MAX_KEYS = 65_536
MAX_TENSORS = 65_536
"""Fifty times the largest models' tables."""
MAX_KEY_BYTES = 65_535
MAX_TEXT_BYTES = 65_536
MAX_WORD_BYTES = 256
"""Of a token: longer ones are runs of spaces."""
MAX_TEMPLATE_BYTES = 256 * 1024
"""The longest chat templates known are below 40 KiB; what is longer is cut."""
MAX_KEPT_TEXT_BYTES = 2 << 20
"""All texts together; what comes after is stepped over."""
MAX_KEPT_NUMBERS = 65_536
"""Numbers in all lists together; per-layer lists have as many as there are layers."""
MAX_LIST = 4_096
"""A longer list describes the vocabulary, not the architecture."""
MAX_NESTING = 4
MAX_ALIGNMENT = 1 << 20
DEFAULT_ALIGNMENT = 32
"""GGUF's own, where a file states none."""

TEMPLATE = "tokenizer.chat_template"
TOKENS = "tokenizer.ggml.tokens"
_INFILL_MARKS = (b"<|fim_prefix|>", b"<fim_prefix>", b"<fim-prefix>", b"<PRE>", "<\uff5cfim\u2581begin\uff5c>".encode())
"""Tokens by which llama.cpp recognises a model that fills in the middle (llama-vocab.cpp)."""


class GgufHeader(msgspec.Struct, frozen=True):
    """One file's metadata and tensor table. `tokens` is the length of its vocabulary."""

    values: dict[str, Value]
    tensors: list[TensorInfo]
    """Empty where only its sums were asked for."""
    tensor_count: int
    tokens: int
    has_infill_tokens: bool
    file_bytes: int
    data_end: int | None
    """Where the last tensor ends, if every tensor type is known."""
    elements: int = 0
    """Numbers in all tensors."""


def read_header(source: ByteSource, *, with_tensors: bool = True) -> GgufHeader:
    """Return the header, with the single tensors or their sums only.

    Raises BadRequest with code model_corrupt or model_unsupported, and what `source` raises.
    """
    cursor = Cursor(source)
    _check_magic(cursor)
    tensor_count = cursor.read_number("Q")
    key_count = cursor.read_number("Q")
    if key_count > MAX_KEYS or tensor_count > MAX_TENSORS:
        raise corrupt_error("it claims to have more parts than any model")
    reader = _ValueReader()
    for _ in range(key_count):
        reader.read_next(cursor)
    tensors: list[TensorInfo] = []
    table = read_tensors(cursor, tensor_count, tensors if with_tensors else None)
    return GgufHeader(
        values=reader.values,
        tensors=tensors,
        tensor_count=tensor_count,
        tokens=reader.tokens,
        has_infill_tokens=reader.has_infill_tokens,
        file_bytes=cursor.size,
        data_end=_data_end(alignment_of(reader.values), table.end, cursor.position),
        elements=table.elements,
    )


def alignment_of(values: Mapping[str, Value]) -> int:
    """Return what tensors are padded to, in bytes. Raises BadRequest (model_corrupt)."""
    value = values.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(value, int) or not 0 < value <= MAX_ALIGNMENT:
        raise corrupt_error("its alignment is impossible")
    return value


def _check_magic(cursor: Cursor) -> None:
    if cursor.size == 0:
        raise corrupt_error("it is empty")
    if cursor.take_bytes(min(4, cursor.size)) != MAGIC:
        raise corrupt_error("it is not a GGUF file")
    version = cursor.read_number("I")
    if version and not version & 0xFFFF:
        raise BadRequest("The model file was written for big-endian computers.", code="model_unsupported")
    if version not in VERSIONS:
        raise BadRequest(
            f"The model file has GGUF version {version}; this version of Roundhouse reads 2 and 3.",
            hint="Look for another upload of the model, or for a newer Roundhouse.",
            code="model_unsupported",
        )


class _ValueReader:
    """The values kept so far, and how much more may be."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.tokens = 0
        self.has_infill_tokens = False
        self._text_left = MAX_KEPT_TEXT_BYTES
        self._numbers_left = MAX_KEPT_NUMBERS

    def read_next(self, cursor: Cursor) -> None:
        """Read one key and its value, or step over the value."""
        key = cursor.read_text(MAX_KEY_BYTES)
        kind = cursor.read_number("I")
        if kind == STRING:
            self._read_text(cursor, key)
        elif kind == ARRAY:
            self._read_array(cursor, key)
        else:
            self.values[key] = _read_scalar(cursor, kind)

    def _read_text(self, cursor: Cursor, key: str) -> None:
        if key.startswith(TEMPLATE):
            text = cursor.read_beginning(min(MAX_TEMPLATE_BYTES, self._text_left))
        else:
            text = drop_unprintable(cursor.read_beginning(min(MAX_TEXT_BYTES, self._text_left)))
        self._text_left -= len(text)
        self.values[key] = text

    def _read_array(self, cursor: Cursor, key: str) -> None:
        kind = cursor.read_number("I")
        count = cursor.read_number("Q")
        if kind == STRING and key == TOKENS:
            self.has_infill_tokens = cursor.skip_texts(count, _INFILL_MARKS)
            self.tokens = count
        elif kind in SCALARS and count <= min(MAX_LIST, self._numbers_left):
            self._numbers_left -= count
            size = struct.calcsize(SCALARS[kind])
            self.values[key] = list(struct.unpack(f"<{count}{SCALARS[kind]}", cursor.take_bytes(count * size)))
        else:
            _skip_items(cursor, kind, count, 1)


def texts_under(source: ByteSource, key: str) -> list[str]:
    """Return the list of texts a file has under a key, each cut at `MAX_WORD_BYTES`; none if it has none.

    Raises as `read_header` does. A vocabulary of 150,000 tokens takes 0.2 s, which is why no header is read like this.
    """
    cursor = Cursor(source)
    _check_magic(cursor)
    cursor.read_number("Q")
    for _ in range(min(cursor.read_number("Q"), MAX_KEYS)):
        is_wanted = cursor.read_text(MAX_KEY_BYTES) == key
        kind = cursor.read_number("I")
        if kind != ARRAY:
            _skip_items(cursor, kind, 1, 1)
            continue
        item, count = cursor.read_number("I"), cursor.read_number("Q")
        if is_wanted and item == STRING:
            cursor.spend_items(count)
            return [cursor.read_beginning(MAX_WORD_BYTES) for _ in range(count)]
        _skip_items(cursor, item, count, 1)
    return []


def _read_scalar(cursor: Cursor, kind: int) -> int | float | bool:
    code = _scalar_code(kind)
    value: int | float | bool = struct.unpack("<" + code, cursor.take_bytes(struct.calcsize(code)))[0]
    return value


def _skip_items(cursor: Cursor, kind: int, count: int, depth: int) -> None:
    if kind == STRING:
        cursor.skip_texts(count)
    elif kind == ARRAY:
        cursor.spend_items(count)
        for _ in range(count):
            _skip_array(cursor, depth + 1)
    else:
        cursor.skip_bytes(count * struct.calcsize(_scalar_code(kind)))


def _skip_array(cursor: Cursor, depth: int) -> None:
    if depth > MAX_NESTING:
        raise corrupt_error("its lists are nested too deeply")
    kind = cursor.read_number("I")
    _skip_items(cursor, kind, cursor.read_number("Q"), depth)


def _scalar_code(kind: int) -> str:
    try:
        return SCALARS[kind]
    except KeyError:
        raise corrupt_error("it contains a value of unknown type") from None


def _data_end(alignment: int, end: int | None, header_end: int) -> int | None:
    return None if end is None else -(-header_end // alignment) * alignment + end
