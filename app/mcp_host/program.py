"""Talk to one MCP server: `python -m app.mcp_host`. The order and calls come as lines of JSON, answers go out so.

A process of its own: the official client takes 60 MB and a second to import, and a server on this computer is its
child, so that both give up the same files and the network. What the server writes to its standard error goes to ours.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import msgspec
from anyio.abc import TaskGroup
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from app.core.mcp import (
    LONGEST_DESCRIPTION,
    MOST_TOOLS,
    HostCall,
    HostCancel,
    HostFailure,
    HostOrder,
    HostRequest,
    HostResult,
    HostTools,
    McpResult,
    McpToolDescription,
)
from app.mcp_host.lines import describe_failure, make_result, read_line, send
from app.mcp_host.sign_in import make_sign_in

_REQUESTS: msgspec.json.Decoder[HostRequest] = msgspec.json.Decoder(HostRequest)
_LISTING_S = 5.0


async def serve() -> None:
    """Follow the order and answer calls until the gateway closes our input, which also calls off what goes on."""
    order = msgspec.json.decode(await _read_line(), type=HostOrder)
    calls: asyncio.Queue[HostRequest] = asyncio.Queue()
    async with anyio.create_task_group() as group:
        group.start_soon(_read_requests, calls, group.cancel_scope)
        try:
            await _serve_tools(order, calls)
        except Exception as error:  # noqa: BLE001 -- whatever a server does ends in a sentence
            send(HostFailure(sentence=describe_failure(error)))
        group.cancel_scope.cancel()


async def _read_requests(calls: asyncio.Queue[HostRequest], scope: anyio.CancelScope) -> None:
    while line := await _read_line():
        calls.put_nowait(_REQUESTS.decode(line))
    scope.cancel()


async def _read_line() -> bytes:
    """Return the next line, empty at the end. In a thread, since it blocks."""
    return await anyio.to_thread.run_sync(read_line, abandon_on_cancel=True)


async def _serve_tools(order: HostOrder, calls: asyncio.Queue[HostRequest]) -> None:
    changes = asyncio.Event()
    async with _connect(order, changes) as client, anyio.create_task_group() as group:
        listing = ToolListing(client)
        await listing.send_changes()
        group.start_soon(_follow_changes, listing, changes)
        await _answer_calls(CallAnswerer(client, listing), calls, group)


@asynccontextmanager
async def _connect(order: HostOrder, changes: asyncio.Event) -> AsyncIterator[Client]:
    """Yield a client of the server. `changes` is set when the server says that its tools are others."""

    async def note_change(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changes.set()

    async with AsyncExitStack() as stack:
        if order.url:
            has_key = any(name.casefold() == "authorization" for name in order.headers)
            auth = None if has_key else make_sign_in(order.url, order.sign_in, send)
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=order.headers, timeout=None, auth=auth))
            transport = streamable_http_client(order.url, http_client=http)
        else:
            parameters = StdioServerParameters(
                command=order.command, args=order.args, env=order.env, cwd=order.cwd or None
            )
            transport = stdio_client(parameters)
        yield await stack.enter_async_context(Client(transport, message_handler=note_change))


async def _follow_changes(listing: "ToolListing", changes: asyncio.Event) -> None:
    while True:
        await changes.wait()
        changes.clear()
        await listing.send_changes()


class ToolListing:
    """The tools as the server lists them, sent whenever they are others than before."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sent_tools: HostTools | None = None

    async def send_changes(self) -> None:
        """List the tools."""
        tools = HostTools(tools=await _list_tools(self._client), server=_name_server(self._client))
        if tools != self._sent_tools:
            self._sent_tools = tools
            send(tools)


async def _list_tools(client: Client) -> list[McpToolDescription]:
    tools: list[McpToolDescription] = []
    cursor: str | None = None
    while len(tools) < MOST_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools += map(_describe_tool, page.tools)
        cursor = page.next_cursor
        if not cursor or not page.tools:
            break
    return tools[:MOST_TOOLS]


def _describe_tool(tool: types.Tool) -> McpToolDescription:
    hints = tool.annotations
    return McpToolDescription(
        name=tool.name,
        title=tool.title or (hints.title if hints is not None else None) or "",
        description=(tool.description or "")[:LONGEST_DESCRIPTION],
        schema=tool.input_schema,
        is_read_only=bool(hints is not None and hints.read_only_hint),
    )


def _name_server(client: Client) -> str:
    about = client.server_info
    return f"{about.name} {about.version}".strip() if about is not None else ""


async def _answer_calls(answerer: "CallAnswerer", calls: asyncio.Queue[HostRequest], group: TaskGroup) -> None:
    while True:
        match await calls.get():
            case HostCall() as call:
                group.start_soon(answerer.answer_call, call, answerer.begin_call(call.id))
            case HostCancel(id=number):
                answerer.cancel_call(number)


class CallAnswerer:
    """Makes calls, several at a time."""

    def __init__(self, client: Client, listing: ToolListing) -> None:
        self._client, self._listing = client, listing
        self._scopes: dict[int, anyio.CancelScope] = {}

    def begin_call(self, number: int) -> anyio.CancelScope:
        """Return what a call can be cancelled by."""
        scope = self._scopes[number] = anyio.CancelScope()
        return scope

    def cancel_call(self, number: int) -> None:
        """Call off a call, if it goes on."""
        if number in self._scopes:
            self._scopes[number].cancel()

    async def answer_call(self, call: HostCall, scope: anyio.CancelScope) -> None:
        """Make a call and send what came of it.

        Tools that are described otherwise since are told of first, so that they ask again: no server has to say so.
        """
        began = time.monotonic()
        with scope:
            try:
                result = read_result(await self._client.call_tool(call.tool, call.arguments))
            except Exception as error:
                if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
                    raise  # nothing can be called any more
                result = McpResult(text=describe_failure(error), is_error=True)
            seconds = round(time.monotonic() - began, 3)
            with contextlib.suppress(MCPError), anyio.move_on_after(_LISTING_S):
                await self._listing.send_changes()
            send(HostResult(id=call.id, result=msgspec.structs.replace(result, seconds=seconds)))
        del self._scopes[call.id]


def read_result(reply: Any) -> McpResult:  # noqa: ANN401 -- a CallToolResult, or a request for input that we cannot fill
    """Return a result's text; what is no text is named."""
    if not isinstance(reply, types.CallToolResult):
        return McpResult(text="The tool asks for more than its arguments, which is not supported.", is_error=True)
    text = "\n".join(filter(None, map(_read_part, reply.content)))
    if not text and reply.structured_content is not None:
        text = msgspec.json.encode(reply.structured_content).decode()
    return make_result(text, is_error=bool(reply.is_error))


def _read_part(part: types.ContentBlock) -> str:
    match part:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(mime_type=kind) | types.AudioContent(mime_type=kind):
            return f"[{kind}: not shown to the model]"
        case types.ResourceLink(uri=address):
            return f"[{address}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case _:
            return "[A part that is no text]"


def main() -> None:
    """Run until our input ends."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # a server's own last words say more than our traceback
    anyio.run(serve)
    os._exit(0)  # a thread may still wait for a line
