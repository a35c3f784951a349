"""Responses by their ids: those being made, which can be looked at and stopped, and those that are kept."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, RoundhouseError
from app.gateway.dialects.ollama.models import json_reply
from app.gateway.dialects.responses.input_items import kept_item, to_keep
from app.gateway.dialects.responses.intake import ResponseJob, new_id
from app.gateway.dialects.responses.listing import Deleted, page, wanted
from app.gateway.dialects.responses.wire import Response
from app.gateway.entry.middleware import REQUEST_ID
from app.gateway.exchange.observer import Stopped
from app.gateway.services import SERVICES, Services
from app.gateway.watching.inspector import INSPECTOR
from app.store.responses import Bounds, KeptItem, KeptResponse

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
        return json_reply(making.job.encoder.response)
    return json_reply(_document(await _found(request)))


async def delete(request: web.Request) -> web.Response:
    """DELETE /v1/responses/{id}."""
    name = request.match_info["id"]
    await request.app[SERVICES].chats.delete_response(name)
    return json_reply(Deleted(id=name))


async def list_input(request: web.Request) -> web.Response:
    """GET /v1/responses/{id}/input_items: what its own request said, the newest first unless asked otherwise."""
    part = wanted(request.query)
    kept = await _found(request)
    return json_reply(page([kept_item(item.id, item.value) for item in kept.input], part))


async def cancel(request: web.Request) -> web.Response:
    """POST /v1/responses/{id}/cancel: end a response that is being made."""
    making = request.app[_MAKING].get(request.match_info["id"])
    if making is None:
        kept = await _found(request)
        raise BadRequest(f"The response {kept.id!r} is not being made any more.", code="response_not_running")
    request.app[INSPECTOR].stop(making.request_id)
    await making.over.wait()
    return json_reply(making.job.encoder.response)


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
