"""Connections to other computers: the list of them, and its end."""

from typing import Annotated

import msgspec

from app.core.connections import ConnectionList
from app.gateway.admin.calls import Call, NoQuery, Routes

routes = Routes()


class ConnectionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500


@routes.add("GET", "/connections")
async def list_connections(call: Call[None, ConnectionsQuery]) -> ConnectionList:
    """List the connections made to other computers, and those kept back offline, newest first."""
    return await call.connections.list(call.query.limit)


@routes.add("DELETE", "/connections")
async def forget(call: Call[None, NoQuery]) -> None:
    """Forget the connections made until now."""
    await call.connections.forget()
