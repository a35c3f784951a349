"""Write a model of any size with random weights: what a calibration runs, since weights do not change the speed.

A Llama in Q4_K, Q4_0 or Q8_0 with a vocabulary of bytes; llama.cpp loads and runs it like any other and answers noise.
The same seed gives the same file, byte for byte. Only the standard library is used, and nothing is kept in memory.
"""

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import BinaryIO

import msgspec

from app.hub.gguf.tables import TYPE_SIZES

F32, Q4_0, Q8_0, Q4_K = 0, 2, 8, 12
"""ggml's numbers of the tensor types written."""
_TYPES = {"Q4_0": (Q4_0, 2), "Q8_0": (Q8_0, 7), "Q4_K_S": (Q4_K, 14)}
"""Quantisation -> ggml type and llama.cpp's file type."""
_SCALES = {Q4_0: (0.01,), Q8_0: (0.001,), Q4_K: (0.0002, 0.0015)}
"""The half floats a block begins with: small, so that what random layers pass on stays finite."""
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_CODES = {_UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}
_ALIGNMENT = 32
_STRETCH_BLOCKS = 8_191
"""So many random blocks are repeated: a prime, so that no two rows of a matrix begin with the same ones."""
_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_NORMAL, _CONTROL = 1, 3
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

Value = str | int | float | bool | list[str] | list[int]


class SyntheticShape(msgspec.Struct, frozen=True, kw_only=True):
    """A Llama's widths, multiples of 256. The default has 541 million parameters: 305 MB, half a second to write."""

    layers: int = 12
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 8
    feed_forward: int = 5632
    quantization: str = "Q4_K_S"
    """Of the kind that most people run: old GPUs unpack K-quants more slowly than others."""

    @property
    def head_width(self) -> int:
        """Numbers per head."""
        return self.hidden // self.heads


CALIBRATION = SyntheticShape()
"""The shape a calibration runs beside the Guide: large enough that reading it, not starting kernels, takes the time."""


class SyntheticTensor(msgspec.Struct, frozen=True):
    """One tensor; `type` is ggml's number of one of the types written here."""

    name: str
    shape: tuple[int, ...]
    type: int

    @property
    def size_bytes(self) -> int:
        """Bytes it takes in the file."""
        block, size = TYPE_SIZES[self.type]
        return self.shape[0] // block * size * prod(self.shape[1:])


def write_synthetic(path: Path, shape: SyntheticShape = CALIBRATION, *, seed: int = 0) -> int:
    """Write the model to `path` and return its size in bytes. Raises OSError; a half-written file is removed."""
    return write_tensors(path, _build_metadata(shape), list(_list_tensors(shape)), seed=seed)


def write_tensors(
    path: Path, metadata: Mapping[str, Value], tensors: Sequence[SyntheticTensor], *, seed: int = 0
) -> int:
    """Write a model of any tensors with random weights, and return its size in bytes. Raises as `write_synthetic`."""
    stretches = {kind: _weight_stretch(kind, seed) for kind in {tensor.type for tensor in tensors}}
    try:
        with path.open("wb") as file:
            file.write(_build_header(metadata, tensors))
            for tensor in tensors:
                _write_tensor(file, tensor.size_bytes, stretches[tensor.type])
            return file.tell()
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _list_tensors(shape: SyntheticShape) -> Iterator[SyntheticTensor]:
    kind, _ = _TYPES[shape.quantization]
    hidden_size, inner = shape.hidden, shape.feed_forward
    keys = shape.kv_heads * shape.head_width
    words = len(build_vocabulary())
    yield SyntheticTensor("token_embd.weight", (hidden_size, words), kind)
    yield SyntheticTensor("output_norm.weight", (hidden_size,), F32)
    yield SyntheticTensor("output.weight", (hidden_size, words), kind)
    for layer in range(shape.layers):
        for name, sizes in (
            ("attn_norm", (hidden_size,)),
            ("attn_q", (hidden_size, hidden_size)),
            ("attn_k", (hidden_size, keys)),
            ("attn_v", (hidden_size, keys)),
            ("attn_output", (hidden_size, hidden_size)),
            ("ffn_norm", (hidden_size,)),
            ("ffn_gate", (hidden_size, inner)),
            ("ffn_up", (hidden_size, inner)),
            ("ffn_down", (inner, hidden_size)),
        ):
            yield SyntheticTensor(f"blk.{layer}.{name}.weight", sizes, kind if len(sizes) > 1 else F32)


def _write_tensor(file: BinaryIO, remaining_bytes: int, stretch: bytes) -> None:
    while remaining_bytes > 0:
        remaining_bytes -= file.write(stretch[:remaining_bytes])
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))


def _weight_stretch(kind: int, seed: int) -> bytes:
    """Return a run of weights: ones for a norm, else blocks of one scale and random whole numbers."""
    if kind == F32:
        return struct.pack("<f", 1.0) * 4096
    noise = random.Random(seed)  # noqa: S311 -- weights, not secrets
    _, size = TYPE_SIZES[kind]
    scales = b"".join(struct.pack("<e", scale) for scale in _SCALES[kind])
    width = size - len(scales)
    blocks = memoryview(noise.randbytes(_STRETCH_BLOCKS * width))
    return b"".join(scales + blocks[start : start + width] for start in range(0, len(blocks), width))


def _build_metadata(shape: SyntheticShape) -> dict[str, Value]:
    return {
        "general.architecture": "llama",
        "general.name": "Calibration",
        "general.file_type": _TYPES[shape.quantization][1],
        "llama.context_length": 4096,
        "llama.embedding_length": shape.hidden,
        "llama.block_count": shape.layers,
        "llama.feed_forward_length": shape.feed_forward,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": shape.head_width,
        **tokenizer_metadata(build_vocabulary()),
    }


def tokenizer_metadata(words: list[str]) -> dict[str, Value]:
    """Return the keys of a tokeniser of bytes with a chat template."""
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.merges": ["t h"],
        "tokenizer.ggml.token_type": [*[_NORMAL] * (len(words) - len(_SPECIAL)), *[_CONTROL] * len(_SPECIAL)],
        "tokenizer.ggml.bos_token_id": words.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": words.index("<|im_end|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": _TEMPLATE,
    }


def build_vocabulary(fillers: int = 0) -> list[str]:
    """Return the 256 bytes as GPT-2 writes them, one merge, `fillers` words, and the marks of the chat template."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(byte if byte in printable else next(others)) for byte in range(256)]
    return [*letters, "th", *(f"<filler{number}>" for number in range(fillers)), *_SPECIAL]


def _build_header(values: Mapping[str, Value], tensors: Sequence[SyntheticTensor]) -> bytes:
    offsets = [0, *accumulate(_pad_length(tensor.size_bytes) for tensor in tensors)]
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    parts += [_encode_text(key) + _encode_value(value) for key, value in values.items()]
    for tensor, offset in zip(tensors, offsets, strict=False):
        sizes = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        parts.append(_encode_text(tensor.name) + sizes + struct.pack("<IQ", tensor.type, offset))
    header = b"".join(parts)
    return header.ljust(_pad_length(len(header)), b"\0")


def _pad_length(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _encode_text(text: str) -> bytes:
    encoded_text = text.encode()
    return struct.pack("<Q", len(encoded_text)) + encoded_text


def _encode_value(value: Value) -> bytes:
    if isinstance(value, list):
        item = _STRING if isinstance(value[0], str) else _INT32  # llama.cpp insists on INT32 for kinds of tokens
        return struct.pack("<IIQ", _ARRAY, item, len(value)) + b"".join(_pack_value(item, entry) for entry in value)
    kind = _value_kind(value)
    return struct.pack("<I", kind) + _pack_value(kind, value)


def _value_kind(value: str | float) -> int:
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, str):
        return _STRING
    return _UINT32 if isinstance(value, int) else _FLOAT32


def _pack_value(kind: int, value: str | float) -> bytes:
    return _encode_text(value) if isinstance(value, str) else struct.pack(_CODES[kind], value)
