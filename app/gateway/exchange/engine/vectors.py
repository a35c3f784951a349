"""Vectors as engines make them, whatever dialect they are wanted in: the request for them, and their answer."""

import math
from collections.abc import Sequence

import msgspec

from app.gateway.exchange.engine.answers import decode_reply


class _EmbeddingRow(msgspec.Struct, frozen=True):
    embedding: list[float]
    index: int = 0


class _EmbeddingUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None


class EngineVectors(msgspec.Struct, frozen=True):
    """An engine's answer."""

    data: list[_EmbeddingRow]
    usage: _EmbeddingUsage | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens read; 0 if the engine does not say."""
        return (self.usage.prompt_tokens if self.usage else None) or 0


Input = str | list[int]
"""A text, or its tokens."""


def encode_embeddings_request(texts: Sequence[Input], *, model: str) -> bytes:
    """Return the request for the engine."""
    return msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})


def read_vectors(body: bytes) -> EngineVectors:
    """Return the vectors in the order of the texts. Raises EngineFailed for what cannot be read."""
    reply = decode_reply(body, EngineVectors)
    return EngineVectors(sorted(reply.data, key=lambda row: row.index), reply.usage)


def join_vectors(answers: Sequence[EngineVectors]) -> EngineVectors:
    """Return several answers as one."""
    count = sum(answer.prompt_tokens for answer in answers)
    return EngineVectors([row for answer in answers for row in answer.data], _EmbeddingUsage(count))


def normalise_vector(vector: Sequence[float], dimensions: int | None = None) -> list[float]:
    """Return the vector's first `dimensions`, scaled to length 1; one of zeros stays so."""
    components = vector[:dimensions] if dimensions else vector
    length = math.sqrt(math.fsum(value * value for value in components))
    return [value / length for value in components] if length else list(components)
