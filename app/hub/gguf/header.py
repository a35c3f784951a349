"""Read the header of a GGUF file that may be damaged, half downloaded or hostile.

No count, length or offset makes us allocate or loop beyond fixed limits. Numbers, short texts and short lists of
numbers are kept; vocabularies and other long lists are stepped over.

The tensor table of a GGUF file, read in one pass.

A library of thousands of models has half a million entries, and its list needs their sums only: an entry becomes a
value of its own only where somebody asks for it.

A position in a GGUF header that never leaves it: nothing a file claims is believed before its size allows it.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

import msgspec

from app.core.capabilities import InfillStyle
from app.core.errors import BadRequest
from app.hub.gguf.tables import ARRAY, SCALARS, STRING, TYPE_SIZES
from app.hub.gguf.values import MAX_NUMBER, TensorInfo, Value, corrupt_error
from app.hub.sources import ByteSource

WINDOW_BYTES = 1 << 20
MAX_ARRAY_ITEMS = 16_777_216
"""Items of all arrays of text together; the largest vocabularies have below a million tokens and merges."""

_U64 = struct.Struct("<Q")
_NUMBERS = {code: struct.Struct("<" + code) for code in "IQ"}


class Cursor:
    """A position in a file that never leaves it, over a window of at most `WINDOW_BYTES`."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.size = source.size
        self._window = b""
        self._start = 0
        self._at = 0
        self._items_left = MAX_ARRAY_ITEMS
        self._reach = min(source.first_bytes, WINDOW_BYTES)

    @property
    def position(self) -> int:
        """Bytes from the start of the file."""
        return self._start + self._at

    def take_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes; the caller has bounded `count`."""
        if len(self._window) - self._at < count:
            self._fill_window(count)
        taken_bytes = self._window[self._at : self._at + count]
        self._at += count
        return taken_bytes

    def look_ahead(self, count: int) -> tuple[bytes, int]:
        """Return the window and where in it we are: `count` bytes follow, or all that the file has left."""
        self._fill_window(min(count, self.size - self.position))
        return self._window, self._at

    def unpack_struct(self, form: struct.Struct) -> tuple[int, ...]:
        """Return the next integers, as `form` says: a tensor table has thousands, so they are read together."""
        if len(self._window) - self._at < form.size:
            self._fill_window(form.size)
        values = form.unpack_from(self._window, self._at)
        self._at += form.size
        return values

    def read_number(self, code: str) -> int:
        """Return the next integer, "I" or "Q" of `struct`."""
        return self.unpack_struct(_NUMBERS[code])[0]

    def skip_bytes(self, count: int) -> None:
        """Step over `count` bytes without reading them."""
        if count > self.size - self.position:
            raise corrupt_error("it ends in the middle of its header")
        target = self._at + count
        if target <= len(self._window):
            self._at = target
        else:
            self._start += target
            self._window, self._at = b"", 0

    def read_text(self, limit: int) -> str:
        """Return the next length-prefixed text. Undecodable bytes are replaced, unprintable characters dropped."""
        (length,) = self.unpack_struct(_U64)
        if length > limit:
            raise corrupt_error("it contains a name of impossible length")
        return drop_unprintable(str(self.take_bytes(length), "utf-8", "replace"))

    def read_beginning(self, limit: int) -> str:
        """Return at most `limit` bytes of the next length-prefixed text, line ends and all, and step over it."""
        length = self.read_number("Q")
        end = self.position + length
        beginning_text = self.take_bytes(min(length, limit)).decode("utf-8", errors="replace")
        self.skip_bytes(end - self.position)
        return beginning_text

    def skip_texts(self, count: int, marks: Sequence[bytes] = ()) -> bool:
        """Step over `count` length-prefixed texts: a vocabulary has hundreds of thousands.

        Returns whether one of `marks` was seen on the way (one cut by the edge of the window is missed).
        """
        self.spend_items(count)
        texts_left, has_mark = count, False
        while texts_left:
            self._fill_window(8)
            window, start = self._window, self._at
            texts_left -= self._skip_texts_in_window(texts_left)
            end = self._at if self._window is window else len(window)
            has_mark = has_mark or any(window.find(mark, start, end) >= 0 for mark in marks)
        return has_mark

    def spend_items(self, count: int) -> None:
        """Count array items that cost a step each, so that no file can keep us busy for long."""
        self._items_left -= count
        if self._items_left < 0:
            raise corrupt_error("its lists are longer than any model needs")

    def _skip_texts_in_window(self, limit: int) -> int:
        window, at, last = self._window, self._at, len(self._window) - 8
        unpack = _U64.unpack_from
        done_count = 0
        while done_count < limit and at <= last:
            at += 8 + unpack(window, at)[0]
            done_count += 1
        self.skip_bytes(at - self._at)
        return done_count

    def _fill_window(self, count: int) -> None:
        """Have `count` bytes in the window from here on. Raises if the file has not as many."""
        if len(self._window) - self._at >= count:
            return
        if count > self.size - self.position:
            raise corrupt_error("it ends in the middle of its header")
        self._start += self._at
        self._at = 0
        self._window = self._source.read_at(self._start, max(count, self._reach))
        self._reach = min(4 * self._reach, WINDOW_BYTES)
        if len(self._window) < count:
            raise corrupt_error("it became shorter while it was read")


def drop_unprintable(text: str) -> str:
    """Return a text without what cannot be shown."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


MAGIC = b"GGUF"
VERSIONS = (2, 3)
"""Version 1 (2023) used shorter lengths; llama.cpp no longer reads it either."""

MAX_KEYS = 65_536
MAX_TENSORS = 65_536
"""Fifty times the largest models' tables."""
MAX_KEY_BYTES = 1_024
"""The longest known have 60. Together they are bounded as texts are: thousands of long ones would fill the memory."""
MAX_TEXT_BYTES = 65_536
MAX_WORD_BYTES = 256
"""Of a token: longer ones are runs of spaces."""
MAX_TEMPLATE_BYTES = 256 * 1024
"""The longest chat templates known are below 40 KiB; what is longer is cut."""
MAX_KEPT_TEXT_BYTES = 2 << 20
"""All texts together, and all keys; of texts what comes after is stepped over."""
MAX_KEPT_TEMPLATE_BYTES = 1 << 20
"""All templates together: what runs in the engine may not be hidden behind other texts, so that more is refused."""
MAX_TOKENS = 4_194_304
"""Sixteen times the largest vocabulary."""
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
INFILL_MARKS: Mapping[str, InfillStyle] = {
    "<|fim_prefix|>": InfillStyle.QWEN,
    "<fim_prefix>": InfillStyle.STARCODER,
    "<fim-prefix>": InfillStyle.GRANITE,
    "<PRE>": InfillStyle.CODE_LLAMA,
    "<\uff5cfim\u2581begin\uff5c>": InfillStyle.DEEPSEEK,
    "<|code_prefix|>": InfillStyle.GLM,
}
"""Tokens by which llama.cpp recognises a model that fills in the middle (llama-vocab.cpp), and whose they are."""
_MARK_BYTES = tuple(mark.encode() for mark in INFILL_MARKS)


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
        self._text_left = self._keys_left = MAX_KEPT_TEXT_BYTES
        self._template_left = MAX_KEPT_TEMPLATE_BYTES
        self._numbers_left = MAX_KEPT_NUMBERS

    def read_next(self, cursor: Cursor) -> None:
        """Read one key and its value, or step over the value."""
        key = cursor.read_text(MAX_KEY_BYTES)
        self._keys_left -= len(key)
        if self._keys_left < 0:
            raise corrupt_error("it has more to say of itself than any model")
        kind = cursor.read_number("I")
        if kind == STRING:
            self._read_text(cursor, key)
        elif kind == ARRAY:
            self._read_array(cursor, key)
        else:
            self.values[key] = _read_scalar(cursor, kind)

    def _read_text(self, cursor: Cursor, key: str) -> None:
        if key.startswith(TEMPLATE):
            text = cursor.read_beginning(MAX_TEMPLATE_BYTES)
            self._template_left -= len(text)
            if self._template_left < 0:
                raise corrupt_error("its chat templates are longer than any model's")
        else:
            text = drop_unprintable(cursor.read_beginning(min(MAX_TEXT_BYTES, self._text_left)))
            self._text_left -= len(text)
        self.values[key] = text

    def _read_array(self, cursor: Cursor, key: str) -> None:
        kind = cursor.read_number("I")
        count = cursor.read_number("Q")
        if kind == STRING and key == TOKENS:
            if count > MAX_TOKENS:
                raise corrupt_error("its vocabulary is larger than any model's")
            self.has_infill_tokens = cursor.skip_texts(count, _MARK_BYTES)
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


def read_tensors(cursor: Cursor, count: int, kept_tensors: list[TensorInfo] | None = None) -> TensorSums:
    """Step over a table and return its sums; its entries are added to `kept`, if they are wanted."""
    total, end, is_known = 0, 0, True
    for name, shape, kind, offset in _iter_entries(cursor, count):
        if kept_tensors is not None:
            kept_tensors.append(TensorInfo(drop_unprintable(str(name, "utf-8", "replace")), tuple(shape), kind))
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
