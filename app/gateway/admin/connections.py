"""Connections to other computers: the list of them, and its end."""

from typing import Annotated

import msgspec

from app.core.connections import ConnectionList
from app.gateway.admin.calls import Call, Endpoint, NoQuery


class ConnectionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500


async def list_connections(call: Call[None, ConnectionsQuery]) -> ConnectionList:
    """GET /connections."""
    return await call.connections.list(call.query.limit)


async def forget(call: Call[None, NoQuery]) -> None:
    """DELETE /connections."""
    await call.connections.forget()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/connections",
        handler=list_connections,
        summary="List the connections made to other computers, and those kept back offline, newest first",
        reply=ConnectionList,
        query=ConnectionsQuery,
    ),
    Endpoint(
        method="DELETE",
        path="/connections",
        handler=forget,
        summary="Forget the connections made until now",
        status=204,
    ),
)
