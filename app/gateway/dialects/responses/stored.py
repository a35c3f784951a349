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

from app.config.store import SettingsStore
from app.core.errors import BadRequest, RoundhouseError, quote_value
from app.gateway.dialects.form import utf8_json_reply
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.dialects.responses.input_items import ResponseItem, item_from_store, to_keep
from app.gateway.dialects.responses.jobs import ResponseJob, new_id
from app.gateway.dialects.responses.ownership import is_owned, owner_of
from app.gateway.dialects.responses.requests import SEARCH_RESULTS
from app.gateway.dialects.responses.wire import ResponseObject
from app.gateway.entry.responses import REQUEST_ID
from app.gateway.exchange.observer import RequestStopped
from app.gateway.services import SERVICES
from app.gateway.watching.inspector import INSPECTOR
from app.store.database import ChatStore
from app.store.responses import ResponseLimits, ResponseRecord, ResponseRecordItem, response_not_found

_PAGE, _LARGEST_PAGE = 20, 100
"""OpenAI's own page sizes."""


class ResponseItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the list."""

    data: list[msgspec.Raw]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class ResponseDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is kept no more."""

    id: str
    object: str = "response"
    deleted: bool = True


class ResponsePageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_PAGE)] = _PAGE
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


def item_page(items: Sequence[ResponseItem], part: ResponsePageQuery) -> ResponseItemPage:
    """Return a part of the items. Raises BadRequest for an `after` that is not among them."""
    in_order = list(items if part.order == "asc" else reversed(items))
    begin = 0
    if part.after is not None:
        at = next((at for at, item in enumerate(in_order) if item.id == part.after), None)
        if at is None:
            raise BadRequest(f"There is no item {quote_value(part.after)} in this list.", code="item_not_found")
        begin = at + 1
    selection = in_order[begin : begin + part.limit]
    return ResponseItemPage(
        data=[item.value for item in selection],
        first_id=selection[0].id if selection else None,
        last_id=selection[-1].id if selection else None,
        has_more=begin + part.limit < len(in_order),
    )


log = logging.getLogger(__name__)

_SETTINGS = frozenset({"responses.kept", "responses.days"})


class ActiveResponse:
    """A response being made by the request `request_id`. `over` is set when it is made no more."""

    def __init__(self, job: ResponseJob, request_id: str) -> None:
        self.job = job
        self.request_id = request_id
        self.over = asyncio.Event()


ACTIVE_RESPONSES = web.AppKey("responses_making", dict[str, ActiveResponse])


def add_routes(router: web.UrlDispatcher) -> None:
    """Add what can be done with a response by its id."""
    router.add_get("/v1/responses/{id}", show_response)
    router.add_delete("/v1/responses/{id}", delete_response)
    router.add_get("/v1/responses/{id}/input_items", list_input)
    router.add_post("/v1/responses/{id}/cancel", cancel_response)


async def show_response(request: web.Request) -> web.Response:
    """GET /v1/responses/{id}."""
    if request.query.get("stream", "").lower() in {"true", "1"}:
        raise BadRequest(
            "A response is streamed only while it is made, to whoever asked for it.", code="unsupported_parameter"
        )
    active = request.app[ACTIVE_RESPONSES].get(_own_id(request))
    if active is not None:
        return utf8_json_reply(active.job.encoder.response)
    return utf8_json_reply(_response_document(await _find_response(request), has_results=_asks_for_results(request)))


async def delete_response(request: web.Request) -> web.Response:
    """DELETE /v1/responses/{id}."""
    name = _own_id(request)
    await request.app[SERVICES].chats.delete_response(name)
    return utf8_json_reply(ResponseDeletion(id=name))


async def list_input(request: web.Request) -> web.Response:
    """GET /v1/responses/{id}/input_items: what its own request said, the newest first unless asked otherwise."""
    part = decode_query(request.query, ResponsePageQuery)
    response = await _find_response(request)
    items = [item_from_store(item.id, item.value) for item in response.input]
    return utf8_json_reply(item_page(items, part))


async def cancel_response(request: web.Request) -> web.Response:
    """POST /v1/responses/{id}/cancel: end a response that is being made."""
    active = request.app[ACTIVE_RESPONSES].get(_own_id(request))
    if active is None:
        response = await _find_response(request)
        raise BadRequest(
            f"The response {quote_value(response.id)} is not being made any more.", code="response_not_running"
        )
    request.app[INSPECTOR].stop_request(active.request_id)
    await active.over.wait()
    return utf8_json_reply(active.job.encoder.response)


@asynccontextmanager
async def track_response(request: web.Request, job: ResponseJob) -> AsyncIterator[None]:
    """Let a response be found by its id while it is made."""
    active, name = ActiveResponse(job, request[REQUEST_ID]), job.about.id
    request.app[ACTIVE_RESPONSES][name] = active
    try:
        yield
    except RequestStopped:
        active.job.encoder.cancel_response()
        services = request.app[SERVICES]
        await keep_response(services.chats, services.settings, job)
        raise
    finally:
        active.job.encoder.cancel_response()
        del request.app[ACTIVE_RESPONSES][name]
        active.over.set()


async def keep_response(chats: ChatStore, settings: SettingsStore, job: ResponseJob) -> None:
    """Keep a response that has ended, if it is to be. An answer is not lost because a disk is full."""
    if not job.about.is_stored:
        return
    try:
        await chats.keep_response(_to_kept_response(job, job.encoder.response), _store_bounds(settings))
    except RoundhouseError as error:
        log.error("A response was not kept: %s", error, extra={"code": error.code})  # noqa: TRY400 -- said in a sentence


async def settings_changed(chats: ChatStore, settings: SettingsStore, changed_names: Collection[str]) -> None:
    """Keep no more than is wanted now. Raises StorageFault."""
    if not _SETTINGS.isdisjoint(changed_names):
        await chats.forget_responses(_store_bounds(settings))


async def _find_response(request: web.Request) -> ResponseRecord:
    return await request.app[SERVICES].chats.read_response(_own_id(request))


def _own_id(request: web.Request) -> str:
    """Return the id in the path. Raises NotFound for a response of another key, as for none."""
    response_id = request.match_info["id"]
    if not is_owned(response_id, owner_of(request)):
        raise response_not_found(response_id)
    return response_id


def _asks_for_results(request: web.Request) -> bool:
    names = ("include", "include[]")  # OpenAI's clients write a list in the second way
    return any(SEARCH_RESULTS in request.query.getall(name, ()) for name in names)


def _response_document(response: ResponseRecord, *, has_results: bool) -> dict[str, msgspec.Raw]:
    fields = msgspec.json.decode(response.body, type=dict[str, msgspec.Raw])
    items = [item_from_store(item.id, item.value) for item in response.output]
    output = [item.value if has_results else item.without_results for item in items]
    return {**fields, "output": msgspec.Raw(msgspec.json.encode(output))}


def _to_kept_response(job: ResponseJob, response: ResponseObject) -> ResponseRecord:
    input_items = [to_keep(item, new_id) for item in job.response_input.new_items]
    return ResponseRecord(
        id=response.id,
        previous=job.request.previous_response_id,
        body=msgspec.json.encode(msgspec.structs.replace(response, output=[])).decode(),
        input=tuple(ResponseRecordItem(item.id, bytes(item.value).decode()) for item in input_items),
        output=tuple(
            ResponseRecordItem(item.id, msgspec.json.encode(item).decode()) for item in job.encoder.whole_items
        ),
    )


def _store_bounds(settings: SettingsStore) -> ResponseLimits:
    return ResponseLimits(most=settings.get_int("responses.kept"), days=settings.get_int("responses.days"))
