"""Collections: folders of documents that are searched by passages, for chats, the command line and the endpoint.

A passage is a stretch of a file's text as `app.extraction` reads it: `start` and `end` count its characters, so that a
citation can open the file and mark it.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

LONGEST_NAME = 64
MOST_COLLECTIONS = 200
MOST_FOLDERS = 64
MOST_PASSAGES = 50
"""Of one search."""
LONGEST_QUERY = 4000
"""Characters of a question that are looked for; what follows says no more about what is meant."""
CollectionName = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f/\\]+$")]
Folder = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class TextChunk(msgspec.Struct, frozen=True):
    """A stretch of a text: its characters from `start` to before `end`, its page if the text has some, its headings."""

    start: int
    end: int
    page: int | None = None
    heading: str = ""


class DocumentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a collection. `problem` says why it is not searched; empty where it is."""

    id: str
    path: str
    size_bytes: int
    modified_ns: int = 0
    passages: int = 0
    problem: str = ""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found: a stretch of a file. The ranks begin with 1, and say who found it."""

    collection: str
    file: str
    path: str
    text: str
    start: int
    end: int
    page: int | None = None
    heading: str = ""
    score: float = 0.0
    word_rank: int | None = None
    """Among passages with the question's words."""
    meaning_rank: int | None = None
    """Among passages that mean alike, by the embedding model."""


class SearchMeans(StrEnum):
    """What a search was made by."""

    WORDS = "words"
    MEANING = "meaning"
    RERANKER = "reranker"
