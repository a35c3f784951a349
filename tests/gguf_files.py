"""Write small GGUF files: headers to be read, and one model with random weights that llama.cpp really runs."""

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

ALIGNMENT = 32
UINT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 6, 7, 8, 9, 10
INT32 = 5
F32 = 0


@dataclass(frozen=True)
class Typed:
    """A value with its GGUF type; `item` is the type of an array's items."""

    kind: int
    value: object
    item: int = 0


Value = str | int | bool | float | Typed


def gguf_bytes(values: Mapping[str, Value], tensors: Sequence[tuple[str, Sequence[int], bytes]] = ()) -> bytes:
    """Return a whole file; a tensor is its name, its shape and its F32 data."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    header += b"".join(packed_text(key) + packed_value(value) for key, value in values.items())
    offsets = [0, *accumulate(padded(len(data)) for _, _, data in tensors)]
    for (name, shape, _), offset in zip(tensors, offsets, strict=False):
        header += packed_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", F32, offset)
    body = b"".join(data.ljust(padded(len(data)), b"\0") for _, _, data in tensors)
    return header.ljust(padded(len(header)), b"\0") + body


def padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def packed_text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def packed_value(value: Value) -> bytes:
    typed = typed_value(value)
    if typed.kind == ARRAY:
        assert isinstance(typed.value, Sequence)
        items = b"".join(packed_item(typed.item, item) for item in typed.value)
        return struct.pack("<IIQ", ARRAY, typed.item, len(typed.value)) + items
    return struct.pack("<I", typed.kind) + packed_item(typed.kind, typed.value)


def packed_item(kind: int, value: object) -> bytes:
    if kind == STRING:
        return packed_text(str(value))
    code = {UINT32: "I", INT32: "i", FLOAT32: "f", BOOL: "?", UINT64: "Q"}[kind]
    return struct.pack("<" + code, value)


def typed_value(value: Value) -> Typed:
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(BOOL, value)
    if isinstance(value, int):
        return Typed(UINT32, value)
    return Typed(FLOAT32, value) if isinstance(value, float) else Typed(STRING, value)


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
WORD_KINDS = [2, 3, 3, 4, 3]


@dataclass(frozen=True)
class TinyLlama:
    """A Llama with random weights: it answers noise, quickly. `values` replaces or adds metadata."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    inner: int = 128
    name: str = "Tiny Random"
    values: Mapping[str, Value] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.content())
        return path

    def content(self) -> bytes:
        return gguf_bytes({**self.metadata(), **self.values}, self.tensors())

    def metadata(self) -> dict[str, Value]:
        words = vocabulary()
        return {
            "general.architecture": "llama",
            "general.name": self.name,
            "general.size_label": "0.1M",
            "general.file_type": 0,
            "llama.context_length": 2048,
            "llama.embedding_length": self.width,
            "llama.block_count": self.layers,
            "llama.feed_forward_length": self.inner,
            "llama.attention.head_count": self.heads,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.dimension_count": self.width // self.heads,
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": Typed(ARRAY, words, STRING),
            "tokenizer.ggml.scores": Typed(ARRAY, [0.0] * len(words), FLOAT32),
            "tokenizer.ggml.token_type": Typed(ARRAY, [*WORD_KINDS, *[6] * 256, *[1] * (len(words) - 261)], INT32),
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.chat_template": TEMPLATE,
        }

    def tensors(self) -> list[tuple[str, list[int], bytes]]:
        noise = random.Random(0)  # noqa: S311 -- weights, not secrets
        words = len(vocabulary())
        return [
            (name, shape, ones(shape) if name.endswith("norm.weight") else weights(shape, noise))
            for name, shape in self.shapes(words)
        ]

    def shapes(self, words: int) -> list[tuple[str, list[int]]]:
        width, inner = self.width, self.inner
        blocks = [
            (f"blk.{layer}.{name}.weight", shape)
            for layer in range(self.layers)
            for name, shape in (
                ("attn_norm", [width]),
                ("attn_q", [width, width]),
                ("attn_k", [width, width]),
                ("attn_v", [width, width]),
                ("attn_output", [width, width]),
                ("ffn_norm", [width]),
                ("ffn_gate", [width, inner]),
                ("ffn_up", [width, inner]),
                ("ffn_down", [inner, width]),
            )
        ]
        outside = [("token_embd.weight", [width, words]), ("output_norm.weight", [width])]
        return [*outside, ("output.weight", [width, words]), *blocks]


def vocabulary() -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,?!\u2581"
    return [*WORDS, *(f"<0x{byte:02X}>" for byte in range(256)), *letters]


def size_of(shape: Sequence[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def ones(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<{size_of(shape)}f", *[1.0] * size_of(shape))


def weights(shape: Sequence[int], noise: random.Random) -> bytes:
    return struct.pack(f"<{size_of(shape)}f", *(noise.gauss(0, 0.05) for _ in range(size_of(shape))))
