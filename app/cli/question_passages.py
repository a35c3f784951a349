"""Passages of collections for a question in the terminal: looked up, put before it, and listed after the answer."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.cli.collections import describe_place
from app.cli.output import print_note
from app.client.http import GatewayClient
from app.core.documents import (
    AnswerDocuments,
    PassageQuery,
    PassageResults,
    cited_numbers,
    number_sources,
    quote_passages,
)
from app.core.words import format_tokens

_SEARCH_S = 300.0
"""An embedding model may have to be loaded first."""
_MOST = 16
_MOST_TOKENS = 2000
"""What a model with a context of 4,096 tokens can spare."""


class QuestionCollections(NamedTuple):
    """The collections that questions are looked up in."""

    client: GatewayClient
    names: Sequence[str]

    def find(self, question: str) -> AnswerDocuments:
        """Return the passages for a question. Raises what the service says of the collections."""
        if not self.names:
            return AnswerDocuments()
        query = PassageQuery(text=question, collections=list(self.names), limit=_MOST)
        results = self.client.post("/collections/search", query, PassageResults, timeout_s=_SEARCH_S)
        documents = AnswerDocuments(
            sources=number_sources([("", item) for item in results.passages], most_tokens=_MOST_TOKENS),
            note=results.note,
        )
        if results.note:
            print_note(results.note)
        count = len(documents.sources)
        tokens = format_tokens(documents.tokens)
        print_note(f"{count} passages, about {tokens} tokens, go with the question." if count else "Nothing was found.")
        return documents


def with_passages(documents: AnswerDocuments, question: str) -> str:
    """Return a question with passages before it."""
    return f"{quote_passages(documents.sources)}\n\n{question}" if documents.sources else question


def source_lines(documents: AnswerDocuments, answer: str) -> Iterator[str]:
    """Yield a line for each passage that an answer cites; for all, if it cites none."""
    cited_sources = [number for number in cited_numbers(answer) if number <= len(documents.sources)]
    sources = [source for source in documents.sources if source.number in cited_sources] or documents.sources
    if sources:
        yield "Cited:" if cited_sources else "It cites no passage. It was given:"
    for source in sources:
        yield f"[{source.number}] {describe_place(source)}"
