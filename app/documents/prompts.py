"""What embedding models want before a question and before a passage: they were trained with it, and find less without.

From the makers' model cards. A model that is not known gets the text as it is.
"""

from typing import NamedTuple


class EmbeddingPrompts(NamedTuple):
    """What stands before a question, and before a passage."""

    question: str = ""
    passage: str = ""


_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_KNOWN = (
    ("nomic-embed", EmbeddingPrompts("search_query: ", "search_document: ")),
    ("embeddinggemma", EmbeddingPrompts("task: search result | query: ", "title: none | text: ")),
    ("qwen3-embedding", EmbeddingPrompts(f"{_TASK} ")),
    ("harrier", EmbeddingPrompts(f"{_TASK} ")),
    ("e5-large-instruct", EmbeddingPrompts(f"{_TASK} ")),
    ("multilingual-e5", EmbeddingPrompts("query: ", "passage: ")),
    ("bge-small-en", EmbeddingPrompts("Represent this sentence for searching relevant passages: ")),
    ("bge-base-en", EmbeddingPrompts("Represent this sentence for searching relevant passages: ")),
    ("bge-large-en", EmbeddingPrompts("Represent this sentence for searching relevant passages: ")),
    ("mxbai-embed-large", EmbeddingPrompts("Represent this sentence for searching relevant passages: ")),
    ("snowflake-arctic-embed", EmbeddingPrompts("query: ")),
    ("arctic-embed", EmbeddingPrompts("query: ")),
)


def prompts_for(model: str) -> EmbeddingPrompts:
    """Return what a model wants, by its name."""
    name = model.casefold().replace("_", "-")
    return next((prompts for mark, prompts in _KNOWN if mark in name), EmbeddingPrompts())
