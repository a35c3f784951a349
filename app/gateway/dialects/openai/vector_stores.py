"""OpenAI's vector stores: collections, as far as whoever asks may see them.

A program sees the collections that are served, or those of its key. It changes only those that programs made: what a
person's folders hold is the person's to choose.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec.structs import replace

from app.core.documents import (
    LONGEST_NAME,
    MOST_PASSAGES,
    Collection,
    CollectionStage,
    NewCollection,
)
from app.core.errors import BadRequest, Forbidden, NotFound
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.openai.files import (
    ENDPOINT_FILES,
    FileListQuery,
    OpenAIDeletion,
    find_file,
    page_of,
)
from app.gateway.dialects.openai.store_search import (
    AttributeFilter,
    Attributes,
    FoundText,
    StoreQuery,
    StoreSearchResult,
    find_store,
    index_files,
    may_search,
    public_id,
    search_record,
)
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.documents.collections import COLLECTIONS, Collections
from app.gateway.documents.records import CollectionRecord
from app.gateway.entry.access import KEY_NAME
from app.gateway.entry.bodies import read_json

Metadata = Annotated[dict[str, str], msgspec.Meta(max_length=16)]


class StoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a program asks for in a new store, or in another state of one. `expires_after` and chunking are not here."""

    name: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] | None = None
    file_ids: Annotated[list[str], msgspec.Meta(max_length=500)] | None = None
    metadata: Metadata | None = None


class StoreFileRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a store is given."""

    file_id: str
    attributes: Attributes | None = None


class StoreSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search. `ranking_options` and `rewrite_query` change nothing here."""

    query: str | list[str]
    max_num_results: Annotated[int, msgspec.Meta(ge=1, le=MOST_PASSAGES)] = 10
    filters: AttributeFilter | None = None


class FileCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many files of a store are how far."""

    in_progress: int
    completed: int
    failed: int
    cancelled: int = 0
    total: int


class VectorStoreObject(msgspec.Struct, frozen=True, kw_only=True):
    """A store as OpenAI describes it."""

    id: str
    object: str = "vector_store"
    created_at: int
    name: str
    usage_bytes: int
    file_counts: FileCounts
    status: str
    last_active_at: int
    expires_at: None = None
    metadata: dict[str, str] = {}


class StoreFileError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a file is not searched."""

    code: str
    message: str


class VectorStoreFileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a store as OpenAI describes it."""

    id: str
    object: str = "vector_store.file"
    created_at: int
    vector_store_id: str
    status: str
    last_error: StoreFileError | None = None
    usage_bytes: int
    attributes: dict[str, str | float | bool] = {}


class StoreSearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found."""

    object: str = "vector_store.search_results.page"
    search_query: list[str]
    data: list[StoreSearchResult]
    has_more: bool = False
    next_page: None = None


class FileContentPage(msgspec.Struct, frozen=True, kw_only=True):
    """The passages of a file."""

    object: str = "vector_store.file_content.page"
    data: list[FoundText]
    has_more: bool = False
    next_page: None = None


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the routes of vector stores."""
    base = "/v1/vector_stores"
    router.add_post(base, create_store)
    router.add_get(base, list_stores)
    router.add_get(f"{base}/{{store}}", show_store)
    router.add_post(f"{base}/{{store}}", change_store)
    router.add_delete(f"{base}/{{store}}", delete_store)
    router.add_post(f"{base}/{{store}}/search", search_store)
    router.add_post(f"{base}/{{store}}/files", add_store_file)
    router.add_get(f"{base}/{{store}}/files", list_store_files)
    router.add_get(f"{base}/{{store}}/files/{{file}}", show_store_file)
    router.add_delete(f"{base}/{{store}}/files/{{file}}", delete_store_file)
    router.add_get(f"{base}/{{store}}/files/{{file}}/content", read_store_file)


async def create_store(request: web.Request) -> web.Response:
    """POST /v1/vector_stores."""
    body, collections = await read_json(request, StoreRequest), request.app[COLLECTIONS]
    files = [await find_file(request, file) for file in body.file_ids or []]
    key_name = request.get(KEY_NAME, "")
    taken_names = {collection.name.casefold() for collection in await collections.list_collections()}
    new = NewCollection(
        name=_free_name(_tidy(body.name or "Vector store"), taken_names),
        is_served=not key_name,
        keys=[key_name] if key_name else [],
    )
    collection = await collections.add_collection(new, metadata=body.metadata)
    for file in files:
        uploads = collections.records.uploads_of(collection.id)
        await asyncio.to_thread(request.app[ENDPOINT_FILES].copy_to, file, uploads)
    collections.have_updated(collection.id)
    return json_reply(await _describe_store(collections, collection.id))


async def list_stores(request: web.Request) -> web.Response:
    """GET /v1/vector_stores."""
    collections = request.app[COLLECTIONS]
    records = [await collections.find_record(item.id) for item in await collections.list_collections()]
    visible = sorted((record for record in records if may_search(request, record)), key=lambda item: -item.created_at)
    stores: list[msgspec.Struct] = [await _describe_store(collections, record.id) for record in visible]
    return json_reply(page_of(stores, decode_query(request.query, FileListQuery)))


async def show_store(request: web.Request) -> web.Response:
    """GET /v1/vector_stores/{store}."""
    record = await find_store(request, request.match_info["store"])
    return json_reply(await _describe_store(request.app[COLLECTIONS], record.id))


async def change_store(request: web.Request) -> web.Response:
    """POST /v1/vector_stores/{store}: another name, other metadata."""
    record, body = await _find_own_store(request), await read_json(request, StoreRequest)
    collections = request.app[COLLECTIONS]
    if body.name is not None and _tidy(body.name) != record.name:
        others = {item.name.casefold() for item in await collections.list_collections() if item.id != record.id}
        record = replace(record, name=_free_name(_tidy(body.name), others))
    if body.metadata is not None:
        record = replace(record, metadata=body.metadata)
    await collections.save_record(record)
    return json_reply(await _describe_store(collections, record.id))


async def delete_store(request: web.Request) -> web.Response:
    """DELETE /v1/vector_stores/{store}."""
    record = await _find_own_store(request)
    await request.app[COLLECTIONS].remove_collection(record.id)
    return json_reply(OpenAIDeletion(id=record.id, object="vector_store.deleted"))


async def search_store(request: web.Request) -> web.Response:
    """POST /v1/vector_stores/{store}/search."""
    record, search = await find_store(request, request.match_info["store"]), await read_json(request, StoreSearch)
    queries = [search.query] if isinstance(search.query, str) else search.query
    if not any(query.strip() for query in queries):
        raise BadRequest("`query` is empty.", code="invalid_value")
    query = StoreQuery(text="\n".join(queries), count=search.max_num_results, filters=search.filters)
    return json_reply(StoreSearchPage(search_query=queries, data=await search_record(request, record, query)))


async def add_store_file(request: web.Request) -> web.Response:
    """POST /v1/vector_stores/{store}/files."""
    record, body = await _find_own_store(request), await read_json(request, StoreFileRequest)
    collections, file = request.app[COLLECTIONS], await find_file(request, body.file_id)
    await asyncio.to_thread(request.app[ENDPOINT_FILES].copy_to, file, collections.records.uploads_of(record.id))
    attributes = {**record.attributes, file.id: body.attributes} if body.attributes else record.attributes
    await collections.save_record(replace(record, attributes=attributes))
    return json_reply(await _describe_file(collections, record.id, file.id))


async def list_store_files(request: web.Request) -> web.Response:
    """GET /v1/vector_stores/{store}/files."""
    record, collections = await find_store(request, request.match_info["store"]), request.app[COLLECTIONS]
    files: list[msgspec.Struct] = list((await _describe_files(collections, record)).values())
    return json_reply(page_of(files, decode_query(request.query, FileListQuery)))


async def show_store_file(request: web.Request) -> web.Response:
    """GET /v1/vector_stores/{store}/files/{file}."""
    record = await find_store(request, request.match_info["store"])
    return json_reply(await _describe_file(request.app[COLLECTIONS], record.id, request.match_info["file"]))


async def delete_store_file(request: web.Request) -> web.Response:
    """DELETE /v1/vector_stores/{store}/files/{file}."""
    record, collections, file = await _find_own_store(request), request.app[COLLECTIONS], request.match_info["file"]
    known_file = await _describe_file(collections, record.id, file)
    await asyncio.to_thread(
        shutil.rmtree, collections.records.uploads_of(record.id) / known_file.id, ignore_errors=True
    )
    attributes = {id_: values for id_, values in record.attributes.items() if id_ != known_file.id}
    await collections.save_record(replace(record, attributes=attributes))
    return json_reply(OpenAIDeletion(id=known_file.id, object="vector_store.file.deleted"))


async def read_store_file(request: web.Request) -> web.Response:
    """GET /v1/vector_stores/{store}/files/{file}/content: its passages."""
    record, collections = await find_store(request, request.match_info["store"]), request.app[COLLECTIONS]
    file_id = request.match_info["file"]
    known_file = next((file for file in await index_files(collections, record) if public_id(file) == file_id), None)
    if known_file is None:
        raise NotFound("There is no such file in that vector store.", code="file_not_found")

    def read_passages() -> list[str]:
        with collections.index_of(record.id).read() as reader:
            return reader.passages_of(known_file.id)

    texts = await asyncio.to_thread(read_passages)
    return json_reply(FileContentPage(data=[FoundText(text=text) for text in texts]))


async def _find_own_store(request: web.Request) -> CollectionRecord:
    """Return a store that programs made. Raises NotFound, and Forbidden for a person's collection."""
    record = await find_store(request, request.match_info["store"])
    if record.folders:
        raise Forbidden(
            "That collection is made of folders of this computer, and is not changed from here.",
            hint="Use the window, or `roundhouse collections`.",
            code="collection_needs_person",
        )
    return record


def _tidy(name: str) -> str:
    plain = "".join(" " if not each.isprintable() or each in "/\\" else each for each in name)
    return " ".join(plain.split()) or "Vector store"


def _free_name(name: str, taken_names: set[str]) -> str:
    candidate, number = name, 1
    while candidate.casefold() in taken_names:
        number += 1
        mark = f" {number}"
        candidate = name[: LONGEST_NAME - len(mark)] + mark
    return candidate


async def _describe_store(collections: Collections, store: str) -> VectorStoreObject:
    record, now = await collections.find_record(store), await collections.read_collection(store)
    upload_count = await asyncio.to_thread(_count_uploads, collections.records.uploads_of(store))
    read = now.files - now.unread_files
    waiting_count = max(0, upload_count - now.files) if not record.folders else 0
    return VectorStoreObject(
        id=record.id,
        created_at=int(record.created_at),
        name=record.name,
        usage_bytes=now.size_bytes,
        file_counts=FileCounts(
            in_progress=waiting_count, completed=read, failed=now.unread_files, total=now.files + waiting_count
        ),
        status="completed" if now.stage is CollectionStage.READY and not waiting_count else "in_progress",
        last_active_at=int(now.looked_at or record.created_at),
        metadata=record.metadata,
    )


def _count_uploads(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


async def _describe_files(collections: Collections, record: CollectionRecord) -> dict[str, VectorStoreFileObject]:
    """Return the files of a store by their ids: those that are read, and those that will be."""
    now: Collection = await collections.read_collection(record.id)
    uploads = collections.records.uploads_of(record.id)
    ids = await asyncio.to_thread(lambda: sorted(each.name for each in uploads.iterdir()) if uploads.is_dir() else [])
    files = {
        file: VectorStoreFileObject(
            id=file,
            created_at=int(record.created_at),
            vector_store_id=record.id,
            status="in_progress",
            usage_bytes=0,
            attributes=record.attributes.get(file, {}),
        )
        for file in ids
    }
    is_ready = now.stage in {CollectionStage.READY, CollectionStage.EMBEDDING}
    for file in await index_files(collections, record):
        id_ = public_id(file)
        if not record.folders and id_ not in files:
            continue  # it was deleted, and the index does not know yet
        error = StoreFileError(code="invalid_file", message=file.problem) if file.problem else None
        files[id_] = VectorStoreFileObject(
            id=id_,
            created_at=int(record.created_at),
            vector_store_id=record.id,
            status="failed" if error else "completed" if is_ready else "in_progress",
            last_error=error,
            usage_bytes=file.size_bytes,
            attributes=record.attributes.get(id_, {}),
        )
    return files


async def _describe_file(collections: Collections, store: str, file: str) -> VectorStoreFileObject:
    files = await _describe_files(collections, await collections.find_record(store))
    if file not in files:
        raise NotFound("There is no such file in that vector store.", code="file_not_found")
    return files[file]
