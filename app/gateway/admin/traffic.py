"""What passes through the gateway: connections to other computers, requests and their cost, prompts that are kept."""

from typing import Annotated

import msgspec

from app.core.connections import ConnectionList
from app.core.kept_prompts import WarmPrompts
from app.core.requests import KeyDay, RequestDetail, RequestInfo, Usage
from app.core.traces import SetTraceHeaders, TracesState
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


class ConnectionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500


@routes.add("GET", "/connections")
async def list_connections(call: AdminCall[None, ConnectionsQuery]) -> ConnectionList:
    """List the connections made to other computers, and those kept back offline, newest first."""
    return await call.connections.list_connections(call.query.limit)


@routes.add("DELETE", "/connections")
async def forget_connections(call: AdminCall[None, NoQuery]) -> None:
    """Forget the connections made until now."""
    await call.connections.forget()


class WarmPromptsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose prompts to remove; empty means all."""

    model: str = ""
    key: str = ""


@routes.add("GET", "/kept-prompts")
async def list_kept_prompts(call: AdminCall[None, NoQuery]) -> WarmPrompts:
    """List the prompts that engines need not read again, the last used first."""
    return await call.kept_prompts.describe_prompts()


@routes.add("DELETE", "/kept-prompts")
async def remove_kept_prompts(call: AdminCall[None, WarmPromptsQuery]) -> None:
    """Remove kept prompts: all, or those of a model or a key."""
    await call.kept_prompts.remove_prompts(call.query.model, call.query.key)


@routes.add("DELETE", "/kept-prompts/{id}")
async def remove_kept_prompt(call: AdminCall[None, NoQuery]) -> None:
    """Remove one kept prompt."""
    await call.kept_prompts.remove_prompt(call.names["id"])


class RequestsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests to list; empty means all."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200
    model: str = ""
    outcome: str = ""


@routes.add("GET", "/requests")
async def list_requests(call: AdminCall[None, RequestsQuery]) -> list[RequestInfo]:
    """List the last requests at the endpoint, newest first."""
    query = call.query
    return call.inspector.list_requests(limit=query.limit, model=query.model, outcome=query.outcome)


@routes.add("DELETE", "/requests")
async def forget_requests(call: AdminCall[None, NoQuery]) -> None:
    """Forget the requests that are over."""
    call.inspector.forget_requests()


@routes.add("GET", "/requests/{id}")
async def show(call: AdminCall[None, NoQuery]) -> RequestDetail:
    """Show one request, with its words if they were kept."""
    return call.inspector.show_request(call.names["id"])


@routes.add("POST", "/requests/{id}/cancel")
async def cancel(call: AdminCall[None, NoQuery]) -> RequestInfo:
    """Stop a request; its client is told so."""
    return call.inspector.stop_request(call.names["id"])


@routes.add("GET", "/traces")
async def show_traces(call: AdminCall[None, NoQuery]) -> TracesState:
    """Say whether traces of requests are sent to a collector, and what came of it."""
    return await call.traces.describe_state()


@routes.add("POST", "/traces/headers")
async def store_trace_headers(call: AdminCall[SetTraceHeaders, NoQuery]) -> TracesState:
    """Keep the headers that traces are sent with in the system's keyring."""
    await call.traces.store_headers(call.body.headers)
    return await call.traces.describe_state()


@routes.add("DELETE", "/traces/headers")
async def forget_trace_headers(call: AdminCall[None, NoQuery]) -> None:
    """Forget the headers that traces are sent with."""
    await call.traces.forget_headers()


@routes.add("POST", "/traces/test")
async def send_test_trace(call: AdminCall[None, NoQuery]) -> TracesState:
    """Send one span to the collector now."""
    await call.traces.send_test()
    return await call.traces.describe_state()


@routes.add("GET", "/usage")
async def usage(call: AdminCall[None, NoQuery]) -> Usage:
    """Sum up what clients used, today and in seven days."""
    return await call.usage.sum_usage()


class KeyUsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Over how many days, today included."""

    days: Annotated[int, msgspec.Meta(ge=1, le=366)] = 30


@routes.add("GET", "/usage/keys")
async def usage_by_key(call: AdminCall[None, KeyUsageQuery]) -> list[KeyDay]:
    """List what each access key was used for on each of the last days, the newest first."""
    return await call.usage.sum_by_key(call.query.days)
