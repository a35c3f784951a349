"""Read the header of a GGUF file that may be damaged, half downloaded or hostile.

Nothing a file claims is believed before it is compared with the file's size: no count, length or offset makes us
allocate or loop beyond fixed limits. Only the few facts the product needs are kept; the rest is stepped over.
"""

import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from app.core.errors import BadRequest, NotFound
from app.hub.gguf_tables import ARRAY, FILE_TYPES, POOLING_RANK, SCALARS, STRING, TYPE_SIZES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
"""Version 1 (2023) used shorter lengths; llama.cpp no longer reads it either."""

MAX_KEYS = 65_536
MAX_TENSORS = 262_144
MAX_KEY_BYTES = 65_535
MAX_KEPT_BYTES = 65_536
"""Longest text that is kept: names. Templates are only noticed."""
MAX_NESTING = 4
MAX_ARRAY_ITEMS = 16_777_216
"""Items of all arrays of text together; the largest vocabularies have below a million tokens and merges."""
MAX_DIMENSIONS = 8
MAX_ALIGNMENT = 1 << 20
MAX_NUMBER = (1 << 53) - 1
"""The largest whole number JSON readers agree on; no model, file or offset comes near."""
WINDOW_BYTES = 1 << 20

_KEPT_SUFFIXES = (".context_length", ".pooling_type")
_KEPT = frozenset(
    {
        "general.architecture",
        "general.type",
        "general.name",
        "general.size_label",
        "general.file_type",
        "general.alignment",
        "split.count",
    }
)
_TEMPLATE = "tokenizer.chat_template"

Scalar = str | int | float | bool


class GgufFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one GGUF file says of itself. `kind` is `general.type`: "model", "adapter", "mmproj", ... or empty."""

    architecture: str
    kind: str
    name: str
    size_label: str
    quantization: str
    trained_context: int | None
    parameters: int
    has_chat_template: bool
    embeds: bool
    reranks: bool
    tensor_count: int
    split_count: int
    file_bytes: int
    data_end: int | None
    """Where the last tensor ends, if every tensor type is known."""

    @property
    def missing_bytes(self) -> int:
        """How much of the file is not there: an interrupted download, usually."""
        return 0 if self.data_end is None else max(0, self.data_end - self.file_bytes)


def read_gguf(path: Path) -> GgufFacts:
    """Return what the file's header says.

    Raises NotFound (model_not_found), or BadRequest with code model_corrupt, model_unsupported or model_unreadable.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for ever
            raise BadRequest(f"{path.name} is not a file.", code="model_unreadable")
        with path.open("rb") as file:
            return _read(_Cursor(file, status.st_size))
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", code="model_not_found") from None
    except OSError as error:
        raise BadRequest(f"{path.name} cannot be read: {error.strerror or error}.", code="model_unreadable") from error


class _Cursor:
    """A position in a file that never leaves it, over a window of at most `WINDOW_BYTES`."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self._window = b""
        self._start = 0
        self._at = 0
        self._items_left = MAX_ARRAY_ITEMS

    @property
    def position(self) -> int:
        """Bytes from the start of the file."""
        return self._start + self._at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; the caller has bounded `count`."""
        self._fill(count)
        taken = self._window[self._at : self._at + count]
        self._at += count
        return taken

    def number(self, code: str) -> int:
        """Return the next integer of a `struct` code."""
        (value,) = struct.unpack("<" + code, self.take(struct.calcsize(code)))
        return int(value)

    def skip(self, count: int) -> None:
        """Step over `count` bytes without reading them."""
        if count > self.size - self.position:
            raise _corrupt("it ends in the middle of its header")
        target = self._at + count
        if target <= len(self._window):
            self._at = target
        else:
            self._start += target
            self._window, self._at = b"", 0

    def text(self, limit: int) -> str:
        """Return the next length-prefixed text. Undecodable bytes are replaced, unprintable characters dropped."""
        length = self.number("Q")
        if length > limit:
            raise _corrupt("it contains a name of impossible length")
        decoded = self.take(length).decode("utf-8", errors="replace")
        return "".join(character for character in decoded if character.isprintable())

    def skip_texts(self, count: int) -> None:
        """Step over `count` length-prefixed texts: a vocabulary has hundreds of thousands."""
        self.spend(count)
        left = count
        while left:
            self._fill(8)
            left -= self._skip_texts_in_window(left)

    def spend(self, count: int) -> None:
        """Count array items that cost a step each, so that no file can keep us busy for long."""
        self._items_left -= count
        if self._items_left < 0:
            raise _corrupt("its lists are longer than any model needs")

    def _skip_texts_in_window(self, limit: int) -> int:
        window, at, last = self._window, self._at, len(self._window) - 8
        unpack = _U64.unpack_from
        done = 0
        while done < limit and at <= last:
            at += 8 + unpack(window, at)[0]
            done += 1
        self.skip(at - self._at)
        return done

    def _fill(self, count: int) -> None:
        """Have `count` bytes in the window from here on. Raises if the file has not as many."""
        if len(self._window) - self._at >= count:
            return
        if count > self.size - self.position:
            raise _corrupt("it ends in the middle of its header")
        self._start += self._at
        self._at = 0
        self._file.seek(self._start)
        self._window = self._file.read(max(count, WINDOW_BYTES))
        if len(self._window) < count:
            raise _corrupt("it became shorter while it was read")


_U64 = struct.Struct("<Q")


def _corrupt(what: str) -> BadRequest:
    return BadRequest(
        f"The model file is damaged or incomplete: {what}.",
        hint="Download it again; an interrupted download is the usual cause.",
        code="model_corrupt",
    )


def _read(cursor: _Cursor) -> GgufFacts:
    _check_magic(cursor)
    tensor_count = cursor.number("Q")
    key_count = cursor.number("Q")
    if key_count > MAX_KEYS or tensor_count > MAX_TENSORS:
        raise _corrupt("it claims to have more parts than any model")
    values = _read_values(cursor, key_count)
    tensors = _read_tensors(cursor, tensor_count)
    return _facts(values, tensors, cursor)


def _check_magic(cursor: _Cursor) -> None:
    if cursor.size == 0:
        raise _corrupt("it is empty")
    if cursor.take(min(4, cursor.size)) != MAGIC:
        raise _corrupt("it is not a GGUF file")
    version = cursor.number("I")
    if version and not version & 0xFFFF:
        raise BadRequest("The model file was written for big-endian computers.", code="model_unsupported")
    if version not in VERSIONS:
        raise BadRequest(
            f"The model file has GGUF version {version}; this version of Roundhouse reads 2 and 3.",
            hint="Look for another upload of the model, or for a newer Roundhouse.",
            code="model_unsupported",
        )


def _read_values(cursor: _Cursor, count: int) -> dict[str, Scalar]:
    kept: dict[str, Scalar] = {}
    for _ in range(count):
        key = cursor.text(MAX_KEY_BYTES)
        kind = cursor.number("I")
        if key == _TEMPLATE and kind == STRING:
            length = cursor.number("Q")
            cursor.skip(length)
            kept[key] = length > 0
        elif (key in _KEPT or key.endswith(_KEPT_SUFFIXES)) and kind != ARRAY:
            kept[key] = _read_scalar(cursor, kind)
        else:
            _skip_value(cursor, kind, 0)
    return kept


def _read_scalar(cursor: _Cursor, kind: int) -> Scalar:
    if kind == STRING:
        return cursor.text(MAX_KEPT_BYTES)
    code = _scalar_code(kind)
    value: Scalar = struct.unpack("<" + code, cursor.take(struct.calcsize(code)))[0]
    return value


def _skip_value(cursor: _Cursor, kind: int, depth: int) -> None:
    if kind == STRING:
        cursor.skip(cursor.number("Q"))
    elif kind == ARRAY:
        _skip_array(cursor, depth + 1)
    else:
        cursor.skip(struct.calcsize(_scalar_code(kind)))


def _skip_array(cursor: _Cursor, depth: int) -> None:
    if depth > MAX_NESTING:
        raise _corrupt("its lists are nested too deeply")
    kind = cursor.number("I")
    count = cursor.number("Q")
    if kind == STRING:
        cursor.skip_texts(count)
    elif kind == ARRAY:
        cursor.spend(count)
        for _ in range(count):
            _skip_array(cursor, depth + 1)
    else:
        cursor.skip(count * struct.calcsize(_scalar_code(kind)))


def _scalar_code(kind: int) -> str:
    try:
        return SCALARS[kind]
    except KeyError:
        raise _corrupt("it contains a value of unknown type") from None


class _Tensors(msgspec.Struct):
    """Sums over all tensors. `end` is relative to the data section; None once a type is unknown."""

    count: int = 0
    parameters: int = 0
    end: int | None = 0


def _read_tensors(cursor: _Cursor, count: int) -> _Tensors:
    tensors = _Tensors(count=count)
    for _ in range(count):
        cursor.text(MAX_KEY_BYTES)
        dimensions = cursor.number("I")
        if dimensions > MAX_DIMENSIONS:
            raise _corrupt("a tensor has an impossible shape")
        elements = 1
        for _dimension in range(dimensions):
            elements *= cursor.number("Q")
        kind = cursor.number("I")
        offset = cursor.number("Q")
        tensors.parameters += elements
        if max(tensors.parameters, offset) > MAX_NUMBER:
            raise _corrupt("a tensor has an impossible size")
        tensors.end = _further(tensors.end, kind, elements, offset)
    return tensors


def _further(end: int | None, kind: int, elements: int, offset: int) -> int | None:
    if end is None or kind not in TYPE_SIZES:
        return None
    block, size = TYPE_SIZES[kind]
    return max(end, offset + -(-elements // block) * size)


def _facts(values: Mapping[str, Scalar], tensors: _Tensors, cursor: _Cursor) -> GgufFacts:
    architecture = _text(values, "general.architecture")
    if not architecture:
        raise _corrupt("it does not say what kind of model it is")
    pooling = _integer(values, f"{architecture}.pooling_type")
    return GgufFacts(
        architecture=architecture,
        kind=_text(values, "general.type"),
        name=_text(values, "general.name").strip(),
        size_label=_text(values, "general.size_label"),
        quantization=FILE_TYPES.get(_integer(values, "general.file_type", default=-1), ""),
        trained_context=_integer(values, f"{architecture}.context_length") or None,
        parameters=tensors.parameters,
        has_chat_template=values.get(_TEMPLATE) is True,
        embeds=0 < pooling < POOLING_RANK,
        reranks=pooling == POOLING_RANK,
        tensor_count=tensors.count,
        split_count=_integer(values, "split.count"),
        file_bytes=cursor.size,
        data_end=_data_end(values, tensors, cursor.position),
    )


def _data_end(values: Mapping[str, Scalar], tensors: _Tensors, header_end: int) -> int | None:
    if tensors.end is None:
        return None
    alignment = _integer(values, "general.alignment", default=32)
    if not 0 < alignment <= MAX_ALIGNMENT:
        raise _corrupt("its alignment is impossible")
    return -(-header_end // alignment) * alignment + tensors.end


def _text(values: Mapping[str, Scalar], key: str) -> str:
    value = values.get(key, "")
    return value if isinstance(value, str) else ""


def _integer(values: Mapping[str, Scalar], key: str, *, default: int = 0) -> int:
    """Return a number that is not negative and that a reader of our JSON can hold; anything else is the default."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER else default
