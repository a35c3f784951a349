"""Read the headers of safetensors files: eight bytes of length, then JSON with type, shape and place of each tensor.

Nothing is believed before the file's size allows it; weights are never touched.
"""

import struct
from math import prod

import msgspec

from app.hub.gguf.values import MAX_NUMBER, corrupt_error
from app.hub.sources import ByteSource

MAX_HEADER_BYTES = 16 << 20
"""The format itself allows 100 MB; shards of the largest models have below one."""
MAX_TENSORS = 262_144
MAX_DIMENSIONS = 8

DTYPE_BITS: dict[str, int] = {
    "F64": 64,
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "I64": 64,
    "I32": 32,
    "I16": 16,
    "I8": 8,
    "U64": 64,
    "U32": 32,
    "U16": 16,
    "U8": 8,
    "BOOL": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
    "C64": 64,
}
"""Bits of one element, as the format's own library has them (safetensors, `Dtype`)."""


class FileTensor(msgspec.Struct, frozen=True):
    """One tensor of a file: how it is stored, which for packed weights is not how many parameters it has."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Elements as stored."""
        return prod(self.shape)


class SafetensorsHeader(msgspec.Struct, frozen=True):
    """One file's tensors. `format` is what its free-form metadata says of itself: "pt", "mlx", or nothing."""

    tensors: list[FileTensor]
    format: str
    file_bytes: int


class _HeaderEntry(msgspec.Struct, gc=False):
    """What stands behind a name; for the name "__metadata__" only `format` matters."""

    dtype: str = ""
    shape: list[int] = []
    data_offsets: tuple[int, int] = (0, 0)
    format: str = ""


_DECODER = msgspec.json.Decoder(dict[str, _HeaderEntry])
"""Typed, so that a header of nested lists is refused at its first one instead of being built up in memory."""


def read_safetensors(source: ByteSource) -> SafetensorsHeader:
    """Return the header. Raises BadRequest (model_corrupt), and what `source` raises."""
    if source.size < 8:  # noqa: PLR2004 -- the length field itself
        raise corrupt_error("it is too short to be a model")
    (length,) = struct.unpack("<Q", source.read_at(0, 8))
    if length > source.size - 8:
        raise corrupt_error("it ends in the middle of its header")
    if length > MAX_HEADER_BYTES:
        raise corrupt_error("its header is longer than any model needs")
    entries = _decode_header(source.read_at(8, length))
    metadata = entries.pop("__metadata__", _HeaderEntry())
    data_bytes = source.size - 8 - length
    tensors = [_check_tensor(name, entry, data_bytes) for name, entry in entries.items()]
    if sum(tensor.bytes for tensor in tensors) > data_bytes:
        raise corrupt_error("its tensors lie on top of each other")
    return SafetensorsHeader(tensors, metadata.format, source.size)


def _decode_header(text: bytes) -> dict[str, _HeaderEntry]:
    try:
        entries = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt_error("its header cannot be read") from error
    if len(entries) > MAX_TENSORS:
        raise corrupt_error("it claims to have more parts than any model")
    return entries


def _check_tensor(name: str, entry: _HeaderEntry, data_bytes: int) -> FileTensor:
    start, end = entry.data_offsets
    if not 0 <= start <= end <= data_bytes:
        raise corrupt_error("a tensor lies outside the file")
    if len(entry.shape) > MAX_DIMENSIONS or any(not 0 <= length <= MAX_NUMBER for length in entry.shape):
        raise corrupt_error("a tensor has an impossible shape")
    bits = DTYPE_BITS.get(entry.dtype)
    elements = prod(entry.shape)
    if elements > MAX_NUMBER or (bits and -(-elements * bits // 8) != end - start):
        raise corrupt_error("a tensor has an impossible size")
    return FileTensor(name, entry.dtype, tuple(entry.shape), end - start)
