"""Well-known models in miniature: their widths, heads, norms and attention, with fewer layers and words.

Weights are random, which take as long as trained ones; what is written is noise and repeats itself sooner than what a
trained model writes, so what drafts from earlier text looks better than it is.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from app.hub.shapes import find_shape
from app.hub.synthetic import F32, Q4_0, SyntheticTensor, Value, build_vocabulary, tokenizer_metadata, write_tensors

CONTEXT = 4096
_FILLERS = 4_000
"""Words beside bytes; these models have 128,000 and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miniature:
    """A well-known model, and how many of its layers are kept."""

    name: str
    original: str
    layers: int


MINIATURES = (
    Miniature(name="mini-qwen3", original="Qwen3 0.6B", layers=4),
    Miniature(name="mini-gemma3", original="Gemma 3 270M", layers=6),
    Miniature(name="mini-llama3", original="Llama 3.2 1B", layers=2),
)
"""One of each architecture; each reads 16 to 70 MB for a token."""


def write_miniature(path: Path, miniature: Miniature) -> int:
    """Write a miniature in Q4_0, and return its size in bytes. Raises KeyError for a model that is not well known."""
    shape = find_shape(miniature.original)
    if shape is None:
        raise KeyError(miniature.original)
    words = build_vocabulary(_FILLERS)
    changes = {"block_count": miniature.layers, "vocab_size": len(words), "context_length": CONTEXT}
    values = {**shape.values, **{f"{shape.architecture}.{key}": value for key, value in changes.items()}}
    small = msgspec.structs.replace(shape, name=miniature.name, values=values)
    tensors = [
        SyntheticTensor(outline.name, tuple(outline.shape), F32 if len(outline.shape) == 1 else Q4_0)
        for outline in small.list_outlines()
    ]
    metadata = cast("dict[str, Value]", small.build_metadata())  # lists of these three are of whole numbers or words
    return write_tensors(path, {**metadata, "general.file_type": 2, **tokenizer_metadata(words)}, tensors)
