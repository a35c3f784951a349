"""Write small GGUF files: headers to be read, and one model with random weights that llama.cpp really runs."""

import itertools
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ALIGNMENT = 32
UINT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 6, 7, 8, 9, 10
INT32 = 5
F32 = 0
F16 = 1


@dataclass(frozen=True)
class Typed:
    """A value with its GGUF type; `item` is the type of an array's items."""

    kind: int
    value: object
    item: int = 0


Value = str | int | bool | float | Typed


def gguf_bytes(values: Mapping[str, Value], tensors: Sequence[tuple[str, Sequence[int], bytes]] = ()) -> bytes:
    """Return a whole file; a tensor is its name, its shape and its data, of 32 bits each or of 16."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    header += b"".join(packed_text(key) + packed_value(value) for key, value in values.items())
    offsets = [0, *itertools.accumulate(pad_length(len(data)) for _, _, data in tensors)]
    for (name, shape, data), offset in zip(tensors, offsets, strict=False):
        header += packed_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", F16 if len(data) == 2 * size_of(shape) else F32, offset)
    body = b"".join(data.ljust(pad_length(len(data)), b"\0") for _, _, data in tensors)
    return header.ljust(pad_length(len(header)), b"\0") + body


def pad_length(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def packed_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed_value(value: Value) -> bytes:
    gguf_value = typed_value(value)
    if gguf_value.kind == ARRAY:
        assert isinstance(gguf_value.value, Sequence)
        items = b"".join(packed_item(gguf_value.item, item) for item in gguf_value.value)
        return struct.pack("<IIQ", ARRAY, gguf_value.item, len(gguf_value.value)) + items
    return struct.pack("<I", gguf_value.kind) + packed_item(gguf_value.kind, gguf_value.value)


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
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
MERGES = ["t h", "h e"]
NORMAL, CONTROL = 1, 3
STRETCH = 4093
_NOISE: dict[int, tuple[random.Random, list[bytes]]] = {}
"""For each seed, where its noise comes from, and what came so far."""


@dataclass(frozen=True)
class TinyLlama:
    """A Llama with random weights: it answers noise, quickly. `values` replaces or adds metadata."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    inner: int = 128
    head_width: int = 16
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
            "llama.attention.key_length": self.head_width,
            "llama.attention.value_length": self.head_width,
            "llama.rope.dimension_count": self.head_width,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "qwen2",
            "tokenizer.ggml.tokens": Typed(ARRAY, words, STRING),
            "tokenizer.ggml.merges": Typed(ARRAY, MERGES, STRING),
            "tokenizer.ggml.token_type": Typed(ARRAY, [*[NORMAL] * (len(words) - 3), *[CONTROL] * 3], INT32),
            "tokenizer.ggml.bos_token_id": words.index("<|endoftext|>"),
            "tokenizer.ggml.eos_token_id": words.index("<|im_end|>"),
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.chat_template": TEMPLATE,
        }

    def tensors(self) -> list[tuple[str, list[int], bytes]]:
        noise = noise_stretches(0)
        words = len(vocabulary())
        return [
            (name, shape, ones(shape) if name.endswith("norm.weight") else weights(shape, noise))
            for name, shape in self.shapes(words)
        ]

    def shapes(self, words: int) -> list[tuple[str, list[int]]]:
        width, inner, heads = self.width, self.inner, self.heads * self.head_width
        blocks = [
            (f"blk.{layer}.{name}.weight", shape)
            for layer in range(self.layers)
            for name, shape in (
                ("attn_norm", [width]),
                ("attn_q", [width, heads]),
                ("attn_k", [width, heads]),
                ("attn_v", [width, heads]),
                ("attn_output", [heads, width]),
                ("ffn_norm", [width]),
                ("ffn_gate", [width, inner]),
                ("ffn_up", [width, inner]),
                ("ffn_down", [inner, width]),
            )
        ]
        outside = [("token_embd.weight", [width, words]), ("output_norm.weight", [width])]
        return [*outside, ("output.weight", [width, words]), *blocks]


def lora_for(model: TinyLlama, path: Path, *, rank: int = 4, wide: int = 0) -> Path:
    """Write a LoRA adapter for a tiny Llama that changes its attention for good; `wide` makes it fit another width."""
    noise = noise_stretches(1)
    width, heads = wide or model.width, model.heads * model.head_width
    values: dict[str, Value] = {
        "general.type": "adapter",
        "general.architecture": "llama",
        "general.name": "Another style",
        "adapter.type": "lora",
        "adapter.lora.alpha": 64.0,
    }
    tensors = [
        (f"blk.{layer}.attn_q.weight.{side}", shape, weights(shape, noise))
        for layer in range(model.layers)
        for side, shape in (("lora_a", [width, rank]), ("lora_b", [rank, heads]))
    ]
    path.write_bytes(gguf_bytes(values, tensors))
    return path


def projector_for(model: TinyLlama, path: Path) -> Path:
    """Write an image encoder of made-up weights for a tiny Llama: 32 pixels square become 16 tokens."""
    noise = noise_stretches(2)
    wide, inner, patch, layers = 32, 64, 8, 2
    values: dict[str, Value] = {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "clip.has_vision_encoder": True,
        "clip.projector_type": "mlp",
        "clip.use_gelu": True,
        "clip.vision.image_size": 4 * patch,
        "clip.vision.patch_size": patch,
        "clip.vision.embedding_length": wide,
        "clip.vision.feed_forward_length": inner,
        "clip.vision.block_count": layers,
        "clip.vision.attention.head_count": 2,
        "clip.vision.attention.layer_norm_epsilon": 1e-5,
        "clip.vision.projection_dim": model.width,
        "clip.vision.image_mean": Typed(ARRAY, [0.5] * 3, FLOAT32),
        "clip.vision.image_std": Typed(ARRAY, [0.5] * 3, FLOAT32),
    }
    square, narrow = [wide, wide], [wide]
    shapes = [("v.patch_embd.weight", [patch, patch, 3, wide]), ("v.position_embd.weight", [wide, 16])]
    for number, shape in ((0, [wide, model.width]), (2, [model.width, model.width])):
        shapes += [(f"mm.{number}.weight", shape), (f"mm.{number}.bias", [model.width])]
    parts = [(name, square) for name in ("attn_q", "attn_k", "attn_v", "attn_out")]
    parts += [("ffn_up", [wide, inner]), ("ffn_down", [inner, wide]), ("ln1", narrow), ("ln2", narrow)]
    for layer in range(layers):
        for name, shape in parts:
            shapes += [(f"v.blk.{layer}.{name}.weight", shape), (f"v.blk.{layer}.{name}.bias", [shape[-1]])]
    path.write_bytes(gguf_bytes(values, [(name, shape, weights(shape, noise)) for name, shape in shapes]))
    return path


def sound_projector_for(model: TinyLlama, path: Path) -> Path:
    """Write a sound encoder of made-up weights, of Ultravox's form, for a tiny Llama: 30 s become 375 tokens."""
    noise = noise_stretches(3)
    wide, inner, bands, layers, stack = 32, 64, 80, 1, 4
    values: dict[str, Value] = {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "clip.has_audio_encoder": True,
        "clip.projector_type": "ultravox",
        "clip.use_gelu": True,
        "clip.audio.embedding_length": wide,
        "clip.audio.feed_forward_length": inner,
        "clip.audio.block_count": layers,
        "clip.audio.attention.head_count": 2,
        "clip.audio.attention.layer_norm_epsilon": 1e-5,
        "clip.audio.projection_dim": model.width,
        "clip.audio.num_mel_bins": bands,
        "clip.audio.projector.stack_factor": stack,
    }
    shapes = [
        ("a.conv1d.1.weight", [3, bands, wide]),
        ("a.conv1d.1.bias", [1, wide]),
        ("a.conv1d.2.weight", [3, wide, wide]),
        ("a.conv1d.2.bias", [1, wide]),
        ("a.position_embd.weight", [wide, 1500]),
        ("a.post_ln.weight", [wide]),
        ("a.post_ln.bias", [wide]),
        ("mm.a.mlp.1.weight", [wide * stack, 2 * wide]),
        ("mm.a.mlp.2.weight", [wide, model.width]),
        ("mm.a.norm_pre.weight", [wide * stack]),
        ("mm.a.norm_mid.weight", [wide]),
    ]
    parts = [(name, [wide, wide]) for name in ("attn_q", "attn_k", "attn_v", "attn_out")]
    parts += [("ffn_up", [wide, inner]), ("ffn_down", [inner, wide]), ("ln1", [wide]), ("ln2", [wide])]
    for layer in range(layers):
        for name, shape in parts:
            shapes.append((f"a.blk.{layer}.{name}.weight", shape))
            if name != "attn_k":  # Whisper has none there
                shapes.append((f"a.blk.{layer}.{name}.bias", [shape[-1]]))
    path.write_bytes(gguf_bytes(values, [(name, shape, _sound_weights(name, shape, noise)) for name, shape in shapes]))
    return path


def _sound_weights(name: str, shape: Sequence[int], noise: Iterator[bytes]) -> bytes:
    """Return noise that lets a sound through: norms that change nothing, and sums as large as words' vectors.

    llama.cpp wants weights of convolutions with 16 bits each.
    """
    if name.endswith(("norm_pre.weight", "norm_mid.weight", "ln.weight", "ln1.weight", "ln2.weight")):
        return ones(shape)
    factor = {"mm.a.mlp.2.weight": 20.0, "a.position_embd.weight": 0.1}.get(name, 4.0)
    values = [factor * value for value in struct.unpack(f"<{size_of(shape)}f", weights(shape, noise))]
    return struct.pack(f"<{len(values)}{'e' if name.startswith('a.conv1d') and 'weight' in name else 'f'}", *values)


def vocabulary() -> list[str]:
    """Return the 256 bytes as GPT-2 writes them, two merges, and the marks of the chat template."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(byte if byte in printable else next(others)) for byte in range(256)]
    return [*letters, *(merge.replace(" ", "") for merge in MERGES), *SPECIAL]


def size_of(shape: Sequence[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def ones(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<{size_of(shape)}f", *[1.0] * size_of(shape))


def weights(shape: Sequence[int], noise: Iterator[bytes]) -> bytes:
    """Return noise; a long tensor repeats a short stretch of it, which is quicker than drawing millions."""
    count = size_of(shape)
    return (next(noise) * -(-count // STRETCH))[: 4 * count]


def noise_stretches(seed: int) -> Iterator[bytes]:
    """Yield stretches of noise, the same for a seed each time: they are drawn once, as a hundred files write models."""
    source, stretches = _NOISE.setdefault(seed, (random.Random(seed), []))  # noqa: S311 -- weights, not secrets
    for number in itertools.count():
        if number == len(stretches):
            stretches.append(struct.pack(f"<{STRETCH}f", *(source.gauss(0, 0.05) for _ in range(STRETCH))))
        yield stretches[number]
