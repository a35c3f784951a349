"""Write GGUF files with a real description and no weights: what llama.cpp allocates for them is the truth about memory.

The data part is a hole in the file, so a 70B takes some kilobytes of disk. Shapes without a vocabulary of their own get
llama.cpp's tokenizer "none", which needs a count of tokens only.
"""

import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Protocol

from app.hub.gguf.tables import TYPE_SIZES
from tests.gguf_files import ARRAY, FLOAT32, INT32, STRING, UINT64, Typed, packed_text, packed_value, pad_length
from tests.gguf_files import BOOL as BOOLEAN
from tests.gguf_files import Value as GgufValue

Scalar = str | int | float | bool
Value = Scalar | Sequence[Scalar]

UINT32_LIMIT = 1 << 32


class Tensor(Protocol):
    """A line of the tensor table; `type` is ggml's number."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def type(self) -> int: ...


def write_weightless(path: Path, values: Mapping[str, Value], tensors: Sequence[Tensor]) -> Path:
    """Write the file and return its path; its size is what the real file's would be, but for the vocabulary."""
    metadata = with_vocabulary(values, tensors)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    header += b"".join(packed_text(key) + packed_value(give_type(value)) for key, value in metadata.items())
    offset = 0
    for tensor in tensors:
        header += packed_tensor(tensor, offset)
        offset += pad_length(tensor_bytes(tensor))
    with path.open("wb") as file:
        file.write(header.ljust(pad_length(len(header)), b"\0"))
        file.truncate(pad_length(len(header)) + offset)
    return path


def with_vocabulary(values: Mapping[str, Value], tensors: Sequence[Tensor]) -> dict[str, Value]:
    if "tokenizer.ggml.model" in values:
        return dict(values)
    embedding = next(tensor for tensor in tensors if tensor.name == "token_embd.weight")
    architecture = values["general.architecture"]
    size = {f"{architecture}.vocab_size": embedding.shape[1]}
    return {**values, **size, "tokenizer.ggml.model": "none"}


def tensor_bytes(tensor: Tensor) -> int:
    block, size = TYPE_SIZES[tensor.type]
    assert tensor.shape[0] % block == 0, f"{tensor.name}: rows of {tensor.shape[0]} are no multiple of {block}"
    return prod(tensor.shape) // block * size


def packed_tensor(tensor: Tensor, offset: int) -> bytes:
    dimensions = len(tensor.shape)
    shape = struct.pack(f"<I{dimensions}Q", dimensions, *tensor.shape)
    return packed_text(tensor.name) + shape + struct.pack("<IQ", tensor.type, offset)


def give_type(value: Value) -> GgufValue:
    """Give lists and large numbers the GGUF type that llama.cpp expects."""
    if isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        if value < 0:
            return Typed(INT32, value)
        return Typed(UINT64, value) if value >= UINT32_LIMIT else value
    return Typed(ARRAY, value, item_type(value))


def item_type(items: Sequence[Scalar]) -> int:
    kinds = {type(item) for item in items}
    assert len(kinds) == 1, f"a list of {kinds}"
    return {str: STRING, bool: BOOLEAN, int: INT32, float: FLOAT32}[kinds.pop()]
