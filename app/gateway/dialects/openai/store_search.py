"""Searches of vector stores: which stores whoever asks may search, which of their files, and what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from aiohttp import web

from app.core.documents import DocumentFile, Passage, SearchMeans, name_of_file
from app.core.errors import BadRequest, NotFound
from app.gateway.documents.collections import COLLECTIONS, Collections
from app.gateway.documents.records import CollectionRecord
from app.gateway.documents.searching import PASSAGES
from app.gateway.entry.access import KEY_NAME, MAY_MANAGE

Attributes = Annotated[dict[str, str | float | bool], msgspec.Meta(max_length=16)]
_ALL_FILES = 200_000
_BEST_SCORE = 2 / 61
"""What fusion gives a passage that is first by its words and by what it means."""


class AttributeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which files are searched: one comparison, or several that all (`and`) or one (`or`) must hold."""

    type: str
    key: str = ""
    value: Any = None
    filters: list["AttributeFilter"] = []


class FoundText(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a result."""

    text: str
    type: str = "text"


class StoreSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One passage. `score` is between 0 and 1."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool] = {}
    content: list[FoundText]


class StoreQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in a store."""

    text: str
    count: int
    filters: AttributeFilter | None = None


def may_search(request: web.Request, record: CollectionRecord) -> bool:
    """Tell whether whoever asks may search a collection."""
    if key_name := request.get(KEY_NAME):
        return key_name in record.keys
    return record.is_served or bool(request.get(MAY_MANAGE))


async def find_store(request: web.Request, store: str) -> CollectionRecord:
    """Return a store that whoever asks may search, by its id. Raises NotFound."""
    try:
        record = await request.app[COLLECTIONS].find_record(store)
    except NotFound:
        record = None
    if record is None or record.id != store or not may_search(request, record):
        raise NotFound("There is no such vector store.", code="vector_store_not_found")
    return record


async def search_record(request: web.Request, record: CollectionRecord, query: StoreQuery) -> list[StoreSearchResult]:
    """Return the best passages of a store. Raises BadRequest or StorageFault."""
    files = await _files_that_match(request.app[COLLECTIONS], record, query.filters)
    results = await request.app[PASSAGES].search([record], query.text, count=query.count, files=files)
    is_reranked = SearchMeans.RERANKER in results.means
    return [_describe_result(record, passage, is_reranked=is_reranked) for passage in results.passages]


async def index_files(collections: Collections, record: CollectionRecord) -> list[DocumentFile]:
    """Return the files in the index of a store."""
    return await collections.list_files(record.id, limit=_ALL_FILES, offset=0)


def public_id(file: DocumentFile | Passage) -> str:
    """Return a file's id as programs know it: that of the upload, for one that a program gave."""
    upload = Path(file.path).parent
    is_upload = upload.parent.name == "uploads" and upload.name.startswith("file-")
    return upload.name if is_upload else (file.id if isinstance(file, DocumentFile) else file.file)


def _describe_result(record: CollectionRecord, passage: Passage, *, is_reranked: bool) -> StoreSearchResult:
    id_ = public_id(passage)
    score = passage.score if is_reranked else passage.score / _BEST_SCORE
    return StoreSearchResult(
        file_id=id_,
        filename=name_of_file(passage.path),
        score=round(min(1.0, max(0.0, score)), 4),
        attributes=record.attributes.get(id_, {}),
        content=[FoundText(text=passage.text)],
    )


async def _files_that_match(
    collections: Collections, record: CollectionRecord, filters: AttributeFilter | None
) -> Sequence[str] | None:
    """Return the ids in the index of the files that a filter lets through; None where there is no filter."""
    if filters is None:
        return None
    check_filter(filters)
    files = await index_files(collections, record)
    return [file.id for file in files if holds(filters, record.attributes.get(public_id(file), {}))]


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
    "in": lambda left, right: left in right,
    "nin": lambda left, right: left not in right,
}


def check_filter(filters: AttributeFilter) -> None:
    """Return if every part of a filter is known. Raises BadRequest."""
    if filters.type not in {"and", "or", *_COMPARISONS}:
        raise BadRequest(f"`filters.type` takes and, or, {', '.join(_COMPARISONS)}.", code="invalid_value")
    for each in filters.filters:
        check_filter(each)


def holds(filters: AttributeFilter, attributes: Mapping[str, object]) -> bool:
    """Tell whether a filter lets a file with these attributes through."""
    if filters.type in {"and", "or"}:
        results = [holds(each, attributes) for each in filters.filters]
        return all(results) if filters.type == "and" else any(results)
    if filters.key not in attributes:
        return filters.type in {"ne", "nin"}
    try:
        return _COMPARISONS[filters.type](attributes[filters.key], filters.value)
    except TypeError:  # of another type than what it is compared with
        return False
