"""Embeddings with fewer `dimensions` than the model makes: llama.cpp ignores the wish, so vectors are cut here.

As OpenAI does it: the first components, scaled to length 1 again. Models trained for it (Matryoshka) lose little.
"""

import base64
import math
import struct
from collections.abc import Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.openai.form import OpenAI

_FLOAT_BYTES = 4


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that the engine does not heed."""

    dimensions: int | None = None
    encoding_format: msgspec.Raw = msgspec.Raw()


class _Row(msgspec.Struct, frozen=True):
    embedding: str | list[float]
    index: int = 0
    object: str = "embedding"


class _Reply(msgspec.Struct, frozen=True):
    data: list[_Row]
    model: str
    usage: dict[str, int]
    object: str = "list"


class Vectors(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.relay.form.Form` for one request with `dimensions`."""

    dimensions: int

    def whole(self, body: bytes) -> bytes:
        """Return the answer with shorter vectors. Raises BadRequest if the model's are shorter still."""
        reply = msgspec.json.decode(body, type=_Reply)
        rows = [msgspec.structs.replace(row, embedding=self._cut(row.embedding)) for row in reply.data]
        return msgspec.json.encode(msgspec.structs.replace(reply, data=rows))

    def _cut(self, vector: str | list[float]) -> str | list[float]:
        if isinstance(vector, str):
            raw = base64.b64decode(vector)
            numbers = struct.unpack(f"<{len(raw) // _FLOAT_BYTES}f", raw)
            return base64.b64encode(struct.pack(f"<{self.dimensions}f", *self._first(numbers))).decode()
        return self._first(vector)

    def _first(self, vector: Sequence[float]) -> list[float]:
        if self.dimensions > len(vector):
            raise BadRequest(
                f"This model's vectors have {len(vector)} dimensions, fewer than {self.dimensions}.",
                code="invalid_value",
            )
        first = vector[: self.dimensions]
        length = math.sqrt(sum(number * number for number in first)) or 1.0
        return [number / length for number in first]


def checked(asked: Asked) -> int | None:
    """Return how many dimensions are asked for, None for all. Raises BadRequest."""
    if asked.dimensions is not None and asked.dimensions < 1:
        raise BadRequest("`dimensions` is at least 1.", code="invalid_value")
    return asked.dimensions


def for_engine(body: bytes, asked: Asked) -> bytes:
    """Return the body an engine is sent: llama.cpp refuses an `encoding_format` that is null."""
    if bytes(asked.encoding_format) != b"null":
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    del fields["encoding_format"]
    return msgspec.json.encode(fields)
