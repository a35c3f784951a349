"""Embeddings: OpenAI's route of the engine, Ollama's shapes. `/api/embed` gives vectors of length 1."""

import math
from collections.abc import Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.ollama.wire import value_of
from app.gateway.exchange.engine.answers import understood


class _Vector(msgspec.Struct, frozen=True):
    embedding: list[float]
    index: int = 0


class _Counts(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None


class Vectors(msgspec.Struct, frozen=True):
    """An engine's answer."""

    data: list[_Vector]
    usage: _Counts | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens read; 0 if the engine does not say."""
        return (self.usage.prompt_tokens if self.usage else None) or 0


def read_input(raw: msgspec.Raw) -> list[str]:
    """Return the texts to embed; an empty one alone is none. Raises BadRequest, as Ollama words it."""
    value = value_of(raw)
    if value is None or value == "":
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("invalid input type", code="invalid_value")
    return texts


Input = str | list[int]
"""A text, or its tokens."""


def body_for(texts: Sequence[Input], *, model: str) -> bytes:
    """Return the request for the engine."""
    return msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})


def first_tokens(marked: Sequence[int], plain: Sequence[int], *, context: int) -> list[int]:
    """Return as many tokens of a text as fit, with the marks that `marked` has around `plain`, the text alone."""
    count = len(plain)
    starts = (at for at in range(len(marked) - count + 1) if marked[at : at + count] == plain)
    first = next(starts, None)
    if first is None:
        return list(marked[:context])
    before, after = marked[:first], marked[first + count :]
    return [*before, *plain[: context - len(before) - len(after)], *after]


def read_vectors(body: bytes) -> Vectors:
    """Return the vectors in the order of the texts. Raises EngineFailed for what cannot be read."""
    said = understood(body, Vectors)
    return Vectors(sorted(said.data, key=lambda one: one.index), said.usage)


def joined(answers: Sequence[Vectors]) -> Vectors:
    """Return several answers as one."""
    count = sum(answer.prompt_tokens for answer in answers)
    return Vectors([one for answer in answers for one in answer.data], _Counts(count))


def normalised(vector: Sequence[float], dimensions: int | None = None) -> list[float]:
    """Return the vector's first `dimensions`, scaled to length 1; one of zeros stays so."""
    kept = vector[:dimensions] if dimensions else vector
    length = math.sqrt(math.fsum(value * value for value in kept))
    return [value / length for value in kept] if length else list(kept)
