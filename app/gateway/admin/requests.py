"""Requests at the endpoint: what they cost, what they said if that was wanted, a way to stop one, and sums."""

from typing import Annotated

import msgspec

from app.core.requests import RequestDetail, RequestInfo, Usage
from app.gateway.admin.calls import Call, NoQuery


class RequestsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests to list; empty means all."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200
    model: str = ""
    outcome: str = ""


async def list_requests(call: Call[None, RequestsQuery]) -> list[RequestInfo]:
    """GET /requests."""
    query = call.query
    return call.inspector.infos(limit=query.limit, model=query.model, outcome=query.outcome)


async def forget(call: Call[None, NoQuery]) -> None:
    """DELETE /requests."""
    call.inspector.forget()


async def show(call: Call[None, NoQuery]) -> RequestDetail:
    """GET /requests/{id}."""
    return call.inspector.detail(call.names["id"])


async def cancel(call: Call[None, NoQuery]) -> RequestInfo:
    """POST /requests/{id}/cancel."""
    return call.inspector.stop(call.names["id"])


async def usage(call: Call[None, NoQuery]) -> Usage:
    """GET /usage."""
    return await call.usage.usage()
