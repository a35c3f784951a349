"""Reranking as Jina, Cohere and TEI ask for it: llama.cpp takes plain strings only, and sends no documents back."""

from typing import Annotated, Any

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
    """`app.gateway.dialects.form.Form` for one request; `shown` are the documents to send back, by index.

    `is_list`: TEI's answer is a bare list, Jina's and Cohere's is not. `most` rows are wanted, the best.
    """

    shown: tuple[str, ...] = ()
    is_list: bool = False
    most: int | None = None

    def whole(self, body: bytes) -> bytes:
        """Return the ranking, with the documents if they were asked for."""
        is_other = not self.is_list and body.lstrip().startswith(b"[")
        if not self.shown and not is_other:
            return body
        reply = msgspec.json.decode(body)
        if self.is_list:
            return msgspec.json.encode([{**row, "text": self.shown[row["index"]]} for row in reply])
        reply = _jinas(reply, self.most) if is_other else reply
        if self.shown:
            rows = [{**row, "document": {"text": self.shown[row["index"]]}} for row in reply["results"]]
            reply = {**reply, "results": rows}
        return msgspec.json.encode(reply)


def _jinas(rows: list[dict[str, Any]], most: int | None) -> dict[str, Any]:
    """Return a bare list as Jina and Cohere have it: SGLang lists its rows, with the documents, whoever asks."""
    best = sorted(rows, key=lambda row: -row["score"])[:most]
    return {
        "object": "list",
        "results": [{"index": row["index"], "relevance_score": row["score"]} for row in best],
    }


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
    shown = tuple(asked.given) if is_shown else ()
    return Ranking(shown=shown, is_list=asked.texts is not None, most=asked.top_n, prompt=given)
