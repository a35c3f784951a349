"""Responses by their ids: those being made, which can be looked at and stopped, and those that are kept.

The input of a kept response is listed page by page.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, RoundhouseError
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.dialects.replies import utf8_json_reply
from app.gateway.dialects.responses.input_items import Item, kept_item, to_keep
from app.gateway.dialects.responses.jobs import ResponseJob, new_id
from app.gateway.dialects.responses.wire import Response
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange.observer import Stopped
from app.gateway.services import SERVICES, Services
from app.gateway.watching.inspector import INSPECTOR
from app.store.responses import Bounds, KeptItem, KeptResponse

_PAGE, _LARGEST_PAGE = 20, 100
"""OpenAI's own page sizes."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the list."""

    data: list[msgspec.Raw]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is kept no more."""

    id: str
    object: str = "response"
    deleted: bool = True


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_PAGE)] = _PAGE
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


def page(items: Sequence[Item], part: PageQuery) -> Page:
    """Return a part of the items. Raises BadRequest for an `after` that is not among them."""
    ordered = list(items if part.order == "asc" else reversed(items))
    begin = 0
    if part.after is not None:
        at = next((at for at, item in enumerate(ordered) if item.id == part.after), None)
        if at is None:
            raise BadRequest(f"There is no item {part.after[:80]!r} in this list.", code="item_not_found")
        begin = at + 1
    shown = ordered[begin : begin + part.limit]
    return Page(
        data=[item.value for item in shown],
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=begin + part.limit < len(ordered),
    )


log = logging.getLogger(__name__)

_SETTINGS = frozenset({"responses.kept", "responses.days"})


class Making:
    """A response being made by the request `request_id`. `over` is set when it is made no more."""

    def __init__(self, job: ResponseJob, request_id: str) -> None:
        self.job = job
        self.request_id = request_id
        self.over = asyncio.Event()


_MAKING = web.AppKey("responses_making", dict[str, Making])


def add_routes(app: web.Application) -> None:
    """Add what can be done with a response by its id."""
    app[_MAKING] = {}
    app.router.add_get("/v1/responses/{id}", show)
    app.router.add_delete("/v1/responses/{id}", delete)
    app.router.add_get("/v1/responses/{id}/input_items", list_input)
    app.router.add_post("/v1/responses/{id}/cancel", cancel)


async def show(request: web.Request) -> web.Response:
    """GET /v1/responses/{id}."""
    if request.query.get("stream", "").lower() in {"true", "1"}:
        raise BadRequest(
            "A response is streamed only while it is made, to whoever asked for it.", code="unsupported_parameter"
        )
    making = request.app[_MAKING].get(request.match_info["id"])
    if making is not None:
        return utf8_json_reply(making.job.encoder.response)
    return utf8_json_reply(_document(await _found(request)))


async def delete(request: web.Request) -> web.Response:
    """DELETE /v1/responses/{id}."""
    name = request.match_info["id"]
    await request.app[SERVICES].chats.delete_response(name)
    return utf8_json_reply(Deleted(id=name))


async def list_input(request: web.Request) -> web.Response:
    """GET /v1/responses/{id}/input_items: what its own request said, the newest first unless asked otherwise."""
    part = decode_query(request.query, PageQuery)
    kept = await _found(request)
    return utf8_json_reply(page([kept_item(item.id, item.value) for item in kept.input], part))


async def cancel(request: web.Request) -> web.Response:
    """POST /v1/responses/{id}/cancel: end a response that is being made."""
    making = request.app[_MAKING].get(request.match_info["id"])
    if making is None:
        kept = await _found(request)
        raise BadRequest(f"The response {kept.id!r} is not being made any more.", code="response_not_running")
    request.app[INSPECTOR].stop(making.request_id)
    await making.over.wait()
    return utf8_json_reply(making.job.encoder.response)


@asynccontextmanager
async def made(request: web.Request, job: ResponseJob) -> AsyncIterator[None]:
    """Let a response be found by its id while it is made."""
    making, name = Making(job, request[REQUEST_ID]), job.about.id
    request.app[_MAKING][name] = making
    try:
        yield
    except Stopped:
        making.job.encoder.cancel()
        await keep(request.app[SERVICES], job)
        raise
    finally:
        making.job.encoder.cancel()
        del request.app[_MAKING][name]
        making.over.set()


async def keep(services: Services, job: ResponseJob) -> None:
    """Keep a response that has ended, if it is to be. An answer is not lost because a disk is full."""
    if not job.about.is_stored:
        return
    try:
        await services.chats.keep_response(_kept(job, job.encoder.response), _bounds(services))
    except RoundhouseError as error:
        log.error("A response was not kept: %s", error, extra={"code": error.code})  # noqa: TRY400 -- said in a sentence


async def settings_changed(services: Services, changed: Collection[str]) -> None:
    """Keep no more than is wanted now. Raises StorageFault."""
    if not _SETTINGS.isdisjoint(changed):
        await services.chats.forget_responses(_bounds(services))


async def _found(request: web.Request) -> KeptResponse:
    return await request.app[SERVICES].chats.response(request.match_info["id"])


def _document(kept: KeptResponse) -> dict[str, msgspec.Raw]:
    fields = msgspec.json.decode(kept.body, type=dict[str, msgspec.Raw])
    output = [msgspec.Raw(item.value.encode()) for item in kept.output]
    return {**fields, "output": msgspec.Raw(msgspec.json.encode(output))}


def _kept(job: ResponseJob, response: Response) -> KeptResponse:
    given = [to_keep(item, new_id) for item in job.said.given]
    return KeptResponse(
        id=response.id,
        previous=job.asked.previous_response_id,
        body=msgspec.json.encode(msgspec.structs.replace(response, output=[])).decode(),
        input=tuple(KeptItem(item.id, bytes(item.value).decode()) for item in given),
        output=tuple(KeptItem(item.id, msgspec.json.encode(item).decode()) for item in response.output),
    )


def _bounds(services: Services) -> Bounds:
    settings = services.settings
    return Bounds(most=settings.integer("responses.kept"), days=settings.integer("responses.days"))
