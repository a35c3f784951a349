"""OpenAI's files: uploaded with a form, listed, read and deleted; only vector stores use them here."""

import asyncio
import re
from typing import Annotated

import msgspec
from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.documents.endpoint_files import EndpointFile, EndpointFiles
from app.gateway.entry.access import KEY_ID
from app.gateway.entry.bodies import read_body
from app.gateway.entry.forms import read_form

ENDPOINT_FILES = web.AppKey("endpoint_files", EndpointFiles)
_DISPOSITION = re.compile(rb"content-disposition:([^\r\n]{0,1000})", re.IGNORECASE)
_FILE_FIELD = re.compile(rb'; ?name="?file"?(?![^;])', re.IGNORECASE)
_FILE_NAME = re.compile(rb'filename="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_PURPOSES = frozenset({"assistants", "user_data", "batch", "fine-tune", "vision", "evals"})
_LONGEST_LIST = 10_000


class OpenAIFileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file as OpenAI describes it."""

    id: str
    object: str = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str = "processed"


class OpenAIDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """Says that something is gone."""

    id: str
    object: str
    deleted: bool = True


class FileListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list: `limit` entries `after` one; `order` by age."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_LONGEST_LIST)] = 100
    after: str = ""
    order: str = "desc"
    purpose: str = ""


class OpenAIList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list."""

    object: str = "list"
    data: list[msgspec.Struct]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the routes of files."""
    router.add_post("/v1/files", upload_file)
    router.add_get("/v1/files", list_files)
    router.add_get("/v1/files/{file}", show_file)
    router.add_delete("/v1/files/{file}", delete_file)
    router.add_get("/v1/files/{file}/content", read_content)


async def upload_file(request: web.Request) -> web.Response:
    """POST /v1/files."""
    body = await read_body(request)
    form = read_form(body, request.headers.get("Content-Type", ""))
    purpose = form.find("purpose") or "assistants"
    if purpose not in _PURPOSES:
        raise BadRequest(f"`purpose` takes {', '.join(sorted(_PURPOSES))}.", code="invalid_value")
    name = _find_file_name(body)
    file = await asyncio.to_thread(
        request.app[ENDPOINT_FILES].add,
        name.decode("utf-8", "replace") or "file",
        bytes(form.recording.content),
        purpose=purpose,
        owner=owner_id(request),
    )
    return json_reply(_describe(file))


async def list_files(request: web.Request) -> web.Response:
    """GET /v1/files."""
    query = decode_query(request.query, FileListQuery)
    files = await asyncio.to_thread(request.app[ENDPOINT_FILES].list_files, owner_id(request))
    matching_files = [_describe(file) for file in files if query.purpose in {"", file.purpose}]
    return json_reply(page_of(matching_files, query))


async def show_file(request: web.Request) -> web.Response:
    """GET /v1/files/{file}."""
    return json_reply(_describe(await find_file(request, request.match_info["file"])))


async def delete_file(request: web.Request) -> web.Response:
    """DELETE /v1/files/{file}."""
    file = await find_file(request, request.match_info["file"])
    await asyncio.to_thread(request.app[ENDPOINT_FILES].remove, file)
    return json_reply(OpenAIDeletion(id=file.id, object="file"))


async def read_content(request: web.Request) -> web.Response:
    """GET /v1/files/{file}/content."""
    file = await find_file(request, request.match_info["file"])
    content = await asyncio.to_thread(request.app[ENDPOINT_FILES].read, file)
    return web.Response(body=content, content_type="application/octet-stream")


async def find_file(request: web.Request, file: str) -> EndpointFile:
    """Return a file of whoever asks. Raises NotFound."""
    return await asyncio.to_thread(request.app[ENDPOINT_FILES].find, file, owner_id(request))


def owner_id(request: web.Request) -> str:
    """Return the id of the key that a request came with; empty without one."""
    key_id: str = request.get(KEY_ID, "")
    return key_id


def page_of(entries: list[msgspec.Struct] | list[OpenAIFileObject], query: FileListQuery) -> OpenAIList:
    """Return a page of a list that is sorted with the newest first."""
    ordered_entries: list[msgspec.Struct] = list(entries) if query.order != "asc" else list(reversed(entries))
    ids = [str(getattr(entry, "id", "")) for entry in ordered_entries]
    first = ids.index(query.after) + 1 if query.after in ids else 0
    page = ordered_entries[first : first + query.limit]
    return OpenAIList(
        data=page,
        first_id=ids[first] if page else None,
        last_id=ids[first + len(page) - 1] if page else None,
        has_more=first + len(page) < len(ordered_entries),
    )


def _describe(file: EndpointFile) -> OpenAIFileObject:
    return OpenAIFileObject(
        id=file.id, bytes=file.size_bytes, created_at=file.created_at, filename=file.name, purpose=file.purpose
    )


def _find_file_name(form: bytes) -> bytes:
    """Return what a form calls the file in its field `file`; nothing where it does not."""
    for disposition in _DISPOSITION.finditer(form):
        if _FILE_FIELD.search(disposition[1]) and (name := _FILE_NAME.search(disposition[1])):
            return name[1]
    return b""
