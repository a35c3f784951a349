"""Reranking as Jina, Cohere and TEI ask for it: llama.cpp takes plain strings only, and sends no documents back."""

from typing import Annotated, Any

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.openai.form import OpenAIForm


class _RerankDocument(msgspec.Struct, frozen=True):
    text: str


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A query, and documents (Jina's and Cohere's word) or texts (TEI's)."""

    query: str
    documents: list[str | _RerankDocument] | None = None
    texts: list[str] | None = None
    top_n: Annotated[int, msgspec.Meta(ge=0)] | None = None
    return_documents: bool | None = None
    return_text: bool | None = None

    @property
    def document_texts(self) -> list[str]:
        """What is to be ranked."""
        if self.texts is not None:
            return self.texts
        return [document if isinstance(document, str) else document.text for document in self.documents or []]


class RerankForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for one request; `shown` are the documents to send back, by index.

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
        reply = _to_jina_reply(reply, self.most) if is_other else reply
        if self.shown:
            rows = [{**row, "document": {"text": self.shown[row["index"]]}} for row in reply["results"]]
            reply = {**reply, "results": rows}
        return msgspec.json.encode(reply)


def _to_jina_reply(rows: list[dict[str, Any]], most: int | None) -> dict[str, Any]:
    """Return a bare list as Jina and Cohere have it: SGLang lists its rows, with the documents, whoever asks."""
    best = sorted(rows, key=lambda row: -row["score"])[:most]
    return {
        "object": "list",
        "results": [{"index": row["index"], "relevance_score": row["score"]} for row in best],
    }


def for_engine(body: bytes, request: RerankRequest) -> bytes:
    """Return the request with its documents as plain strings. Raises BadRequest if there are none."""
    if not request.document_texts:
        raise BadRequest("There is nothing to rank.", hint="Set `documents`.", code="invalid_value")
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    fields["documents" if request.texts is None else "texts"] = request.document_texts
    return msgspec.json.encode(fields)


def form_of(request: RerankRequest) -> RerankForm:
    """Return how the answer reaches the client."""
    is_shown = request.return_documents if request.texts is None else request.return_text
    field = "documents" if request.texts is None else "texts"
    reply_documents = tuple(request.document_texts) if is_shown else ()
    return RerankForm(shown=reply_documents, is_list=request.texts is not None, most=request.top_n, prompt=field)
