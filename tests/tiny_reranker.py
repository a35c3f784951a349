"""A reranker of the real architecture, a BERT with a classifier, whose weights are random: it ranks by noise.

A Llama that only says that it ranks is none: llama.cpp gives the same text another score in each place of a request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase, digits

from app.hub.gguf.tables import POOLING_RANK
from tests.gguf_files import (
    ARRAY,
    CONTROL,
    INT32,
    NORMAL,
    STRING,
    Typed,
    Value,
    gguf_bytes,
    noise_stretches,
    ones,
    weights,
)

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*ascii_lowercase, *digits, *".,-:?!#"]


@dataclass(frozen=True)
class TinyReranker:
    """A model that reads `context` tokens of a question and a text together; a token is a letter."""

    context: int = 512
    width: int = 32
    layers: int = 2
    heads: int = 2
    inner: int = 64

    def write(self, path: Path) -> Path:
        path.write_bytes(gguf_bytes(self.metadata(), list(self.tensors())))
        return path

    def metadata(self) -> dict[str, Value]:
        words = self.words()
        kinds = [*[CONTROL] * len(MARKS), *[NORMAL] * (len(words) - len(MARKS))]
        return {
            "general.architecture": "bert",
            "general.name": "Tiny Reranker",
            "general.file_type": 0,
            "bert.context_length": self.context,
            "bert.embedding_length": self.width,
            "bert.feed_forward_length": self.inner,
            "bert.block_count": self.layers,
            "bert.attention.head_count": self.heads,
            "bert.attention.layer_norm_epsilon": 1e-12,
            "bert.attention.causal": False,
            "bert.pooling_type": POOLING_RANK,
            "tokenizer.ggml.model": "bert",
            "tokenizer.ggml.token_type_count": 2,
            "tokenizer.ggml.tokens": Typed(ARRAY, words, STRING),
            "tokenizer.ggml.token_type": Typed(ARRAY, kinds, INT32),
            "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.ggml.unknown_token_id": 1,
            "tokenizer.ggml.bos_token_id": 2,
            "tokenizer.ggml.eos_token_id": 3,
            "tokenizer.ggml.seperator_token_id": 3,  # as the format spells it
            "tokenizer.ggml.mask_token_id": 4,
        }

    def words(self) -> list[str]:
        return [*MARKS, *(f"\u2581{letter}" for letter in LETTERS), *LETTERS]

    def tensors(self) -> Iterator[tuple[str, list[int], bytes]]:
        noise = noise_stretches(0)
        for name, shape in self.shapes():
            yield name, shape, ones(shape) if name.endswith("norm.weight") else weights(shape, noise)

    def shapes(self) -> Iterator[tuple[str, list[int]]]:
        width, inner = self.width, self.inner
        yield "token_embd.weight", [width, len(self.words())]
        yield "position_embd.weight", [width, self.context]
        yield "token_types.weight", [width, 2]
        yield from _norm("token_embd_norm", width)
        for layer in range(self.layers):
            block = f"blk.{layer}"
            for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                yield from _linear(f"{block}.{name}", width, width)
            yield from _norm(f"{block}.attn_output_norm", width)
            yield from _linear(f"{block}.ffn_up", width, inner)
            yield from _linear(f"{block}.ffn_down", inner, width)
            yield from _norm(f"{block}.layer_output_norm", width)
        yield from _linear("cls", width, width)
        yield from _linear("cls.output", width, 1)


def _linear(name: str, width: int, height: int) -> list[tuple[str, list[int]]]:
    return [(f"{name}.weight", [width, height]), (f"{name}.bias", [height])]


def _norm(name: str, width: int) -> list[tuple[str, list[int]]]:
    return [(f"{name}.weight", [width]), (f"{name}.bias", [width])]
