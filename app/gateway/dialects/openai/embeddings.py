"""Embeddings with fewer `dimensions` than the model makes: llama.cpp ignores the wish, so vectors are cut here.

As OpenAI does it: the first components, scaled to length 1 again. Models trained for it (Matryoshka) lose little.
"""

import base64
import math
import struct
from collections.abc import Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.openai.form import OpenAIForm

_FLOAT_BYTES = 4


class OpenAIEmbeddingsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that the engine does not heed."""

    dimensions: int | None = None
    encoding_format: msgspec.Raw = msgspec.Raw()


class _EmbeddingObject(msgspec.Struct, frozen=True):
    embedding: str | list[float]
    index: int = 0
    object: str = "embedding"


class _EmbeddingsDocument(msgspec.Struct, frozen=True):
    data: list[_EmbeddingObject]
    model: str
    usage: dict[str, int]
    object: str = "list"


class OpenAIEmbeddingsForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for one request, perhaps with `dimensions`."""

    dimensions: int | None = None
    prompt: str = "input"

    def whole(self, body: bytes) -> bytes:
        """Return the answer with shorter vectors. Raises BadRequest if the model's are shorter still."""
        if self.dimensions is None:
            return body
        reply = msgspec.json.decode(body, type=_EmbeddingsDocument)
        rows = [
            msgspec.structs.replace(row, embedding=_cut_vector(row.embedding, self.dimensions)) for row in reply.data
        ]
        return msgspec.json.encode(msgspec.structs.replace(reply, data=rows))


def _cut_vector(vector: str | list[float], dimensions: int) -> str | list[float]:
    if isinstance(vector, str):
        raw = base64.b64decode(vector)
        numbers = struct.unpack(f"<{len(raw) // _FLOAT_BYTES}f", raw)
        return base64.b64encode(struct.pack(f"<{dimensions}f", *_first_components(numbers, dimensions))).decode()
    return _first_components(vector, dimensions)


def _first_components(vector: Sequence[float], dimensions: int) -> list[float]:
    if dimensions > len(vector):
        raise BadRequest(
            f"This model's vectors have {len(vector)} dimensions, fewer than {dimensions}.", code="invalid_value"
        )
    first = vector[:dimensions]
    length = math.sqrt(sum(number * number for number in first)) or 1.0
    return [number / length for number in first]


def form_of(request: OpenAIEmbeddingsRequest) -> OpenAIEmbeddingsForm:
    """Return how the answer reaches the client. Raises BadRequest for less than one dimension."""
    if request.dimensions is not None and request.dimensions < 1:
        raise BadRequest("`dimensions` is at least 1.", code="invalid_value")
    return OpenAIEmbeddingsForm(dimensions=request.dimensions)


def for_engine(body: bytes, request: OpenAIEmbeddingsRequest) -> bytes:
    """Return the body an engine is sent: llama.cpp refuses an `encoding_format` that is null."""
    if bytes(request.encoding_format) != b"null":
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    del fields["encoding_format"]
    return msgspec.json.encode(fields)
