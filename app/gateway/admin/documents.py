"""Collections of documents over HTTP. Who comes with a key sees those it may use, and changes none."""

import asyncio
from typing import Annotated

import msgspec

from app.core.documents import (
    Collection,
    CollectionPatch,
    DocumentFile,
    DocumentText,
    NewCollection,
    PassageQuery,
    PassageResults,
)
from app.core.errors import Forbidden
from app.core.guide import MANUAL
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list of files."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    unread: bool = False
    """Only those that cannot be read."""


@routes.add("GET", "/collections")
async def list_collections(call: AdminCall[None, NoQuery]) -> list[Collection]:
    """List the collections of documents."""
    return await call.collections.list_collections(call.key_name)


@routes.add("POST", "/collections")
async def add_collection(call: AdminCall[NewCollection, NoQuery]) -> Collection:
    """Add a collection of folders, which are read from then on."""
    _check_person(call)
    return await call.collections.add_collection(call.body)


@routes.add("POST", "/collections/search")
async def search_collections(call: AdminCall[PassageQuery, NoQuery]) -> PassageResults:
    """Search collections for passages."""
    records = [await call.collections.find_record(name, call.key_name) for name in call.body.collections]
    return await call.passages.search(records, call.body.text, count=call.body.limit)


@routes.add("GET", "/collections/{collection}")
async def read_collection(call: AdminCall[None, NoQuery]) -> Collection:
    """Return one collection, by id or name."""
    return await call.collections.read_collection(call.names["collection"], call.key_name)


@routes.add("PATCH", "/collections/{collection}")
async def change_collection(call: AdminCall[CollectionPatch, NoQuery]) -> Collection:
    """Rename a collection, or change its folders and who may search it."""
    _check_person(call)
    return await call.collections.change_collection(call.names["collection"], call.body)


@routes.add("DELETE", "/collections/{collection}")
async def remove_collection(call: AdminCall[None, NoQuery]) -> None:
    """Remove a collection and its index; its folders stay as they are."""
    _check_person(call)
    await call.collections.remove_collection(call.names["collection"])


@routes.add("POST", "/collections/{collection}/index")
async def index_collection(call: AdminCall[None, NoQuery]) -> Collection:
    """Look at the folders of a collection now."""
    record = await call.collections.find_record(call.names["collection"], call.key_name)
    call.collections.have_updated(record.id)
    return await call.collections.read_collection(record.id)


@routes.add("GET", "/collections/{collection}/files")
async def list_collection_files(call: AdminCall[None, FilesQuery]) -> list[DocumentFile]:
    """List the files of a collection by path, with what is wrong with those that cannot be read."""
    record = await call.collections.find_record(call.names["collection"], call.key_name)
    query = call.query
    return await call.collections.list_files(record.id, limit=query.limit, offset=query.offset, unread=query.unread)


@routes.add("GET", "/collections/{collection}/files/{file}/text")
async def read_collection_text(call: AdminCall[None, NoQuery]) -> DocumentText:
    """Return the text of a file of a collection, or a chapter of the manual, in which citations count characters."""
    if call.names["collection"] == MANUAL:
        file = call.names["file"]
        return DocumentText(path=file, text=await asyncio.to_thread(call.guide.manual.read_text, file))
    record = await call.collections.find_record(call.names["collection"], call.key_name)
    return await call.collections.read_text(record.id, call.names["file"])


def _check_person(
    call: AdminCall[None, NoQuery] | AdminCall[NewCollection, NoQuery] | AdminCall[CollectionPatch, NoQuery],
) -> None:
    if call.key_name:
        raise Forbidden(
            "With a key, collections can be searched, and not changed.",
            hint="Use the window, or `roundhouse collections` on this computer.",
            code="collection_needs_person",
        )
