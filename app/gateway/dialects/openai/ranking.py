"""Reranking as Jina, Cohere and TEI ask for it: llama.cpp takes plain strings only, and sends no documents back."""

from typing import Annotated

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.openai.form import OpenAI


class _Document(msgspec.Struct, frozen=True):
    text: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A query, and documents (Jina's and Cohere's word) or texts (TEI's)."""

    query: str
    documents: list[str | _Document] | None = None
    texts: list[str] | None = None
    top_n: Annotated[int, msgspec.Meta(ge=0)] | None = None
    return_documents: bool | None = None
    return_text: bool | None = None

    @property
    def given(self) -> list[str]:
        """What is to be ranked."""
        if self.texts is not None:
            return self.texts
        return [one if isinstance(one, str) else one.text for one in self.documents or []]


class Ranking(OpenAI, frozen=True, kw_only=True):
    """`app.gateway.relay.form.Form` for one request; `shown` are the documents to send back, by index."""

    shown: tuple[str, ...] = ()

    def whole(self, body: bytes) -> bytes:
        """Return the ranking, with the documents if they were asked for."""
        if not self.shown:
            return body
        reply = msgspec.json.decode(body)
        if isinstance(reply, list):
            return msgspec.json.encode([{**row, "text": self.shown[row["index"]]} for row in reply])
        rows = [{**row, "document": {"text": self.shown[row["index"]]}} for row in reply["results"]]
        return msgspec.json.encode({**reply, "results": rows})


def for_engine(body: bytes, asked: Asked) -> bytes:
    """Return the request with its documents as plain strings. Raises BadRequest if there are none."""
    if not asked.given:
        raise BadRequest("There is nothing to rank.", hint="Set `documents`.", code="invalid_value")
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    fields["documents" if asked.texts is None else "texts"] = asked.given
    return msgspec.json.encode(fields)


def form_of(asked: Asked) -> Ranking:
    """Return how the answer reaches the client."""
    is_shown = asked.return_documents if asked.texts is None else asked.return_text
    given = "documents" if asked.texts is None else "texts"
    return Ranking(shown=tuple(asked.given) if is_shown else (), prompt=given)
