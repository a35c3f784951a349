"""The tools over the protocol: on standard input and output, or over HTTP on this computer with an access key.

Each call is one of the gateway's, in a thread: its client is synchronous. Over HTTP the key that an agent shows is the
one that the gateway is asked with, so that a revoked key or one without the scope `manage` gets no further.
"""

import contextlib
import json
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.client.http import GatewayClient
from app.core.api import Status
from app.core.errors import BadRequest, EnvironmentFault, NotFound, RoundhouseError, Unauthorized, quote_value
from app.core.lookups import object_schema
from app.mcp_server.tools import TOOLS, ManagementTool

Connect = Callable[[], GatewayClient]
"""Finds the gateway, or starts one."""

HOST = "127.0.0.1"
PATH = "/mcp"
_INSTRUCTIONS = (
    "Roundhouse runs language models on this computer. Use plan or search to choose a model, pull to download it, "
    "status to see how far that is, and ask to use it. Sizes are bytes, contexts tokens, speeds tokens per second."
)
_NAME = "roundhouse"


def serve_stdio(connect: Connect, *, is_read_only: bool) -> None:
    """Serve one agent on standard input and output until it closes them."""
    anyio.run(_serve_stdio, _build_server(lambda _: connect(), is_read_only=is_read_only))


async def _serve_stdio(server: Server) -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def serve_http(connect: Connect, port: int, *, is_read_only: bool, announce: Callable[[str], None]) -> None:
    """Serve agents at `PATH` of a port of this computer until Ctrl-C; 0 takes a free one. `announce` gets its address.

    Raises EnvironmentFault where the port is taken.
    """
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise EnvironmentFault(
            f"Port {port} cannot be used: {error.strerror or error}.",
            hint="Choose another one, or 0 for any that is free.",
            code="port_taken",
        ) from error
    server = _build_server(partial(_connect_with_key, connect), is_read_only=is_read_only)
    application = KeyGate(server.streamable_http_app(streamable_http_path=PATH, host=HOST), connect)
    announce(f"http://{HOST}:{listener.getsockname()[1]}{PATH}")
    logging.getLogger("mcp").setLevel(logging.WARNING)
    config = uvicorn.Config(application, log_level="warning", access_log=False, ws="none", server_header=False)
    with listener, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _build_server(client_for: Callable[[Headers], GatewayClient], *, is_read_only: bool) -> Server:
    tools = [tool for tool in TOOLS if tool.is_read_only or not is_read_only]

    async def list_tools(
        context: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=[_describe_tool(tool) for tool in tools])

    async def call_tool(context: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        headers = context.request.headers if context.request is not None else Headers()
        call = partial(_call_tool, tools, params, lambda: client_for(headers))
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)

    return Server(
        _NAME, version=__version__, title="Roundhouse", instructions=_INSTRUCTIONS,
        on_list_tools=list_tools, on_call_tool=call_tool,
    )  # fmt: skip


def _describe_tool(tool: ManagementTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=object_schema(tool.arguments),
        output_schema=object_schema(tool.answer),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.is_read_only, destructive_hint=False, open_world_hint=tool.reaches_hub
        ),
    )


def _call_tool(
    tools: Sequence[ManagementTool], params: types.CallToolRequestParams, connect: Connect
) -> types.CallToolResult:
    """Return a tool's answer, or the sentence that says why there is none."""
    try:
        tool = next((tool for tool in tools if tool.name == params.name), None)
        if tool is None:
            raise NotFound(f"There is no tool {quote_value(params.name)}.", code="tool_not_found")
        answer = tool.run(connect(), _read_arguments(tool, params.arguments or {}))
    except RoundhouseError as error:
        return types.CallToolResult(content=[types.TextContent(text=error.body.text)], is_error=True)
    text = msgspec.json.encode(answer).decode()
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=msgspec.to_builtins(answer))


def _read_arguments(tool: ManagementTool, arguments: dict[str, object]) -> msgspec.Struct:
    try:
        return msgspec.convert(arguments, tool.arguments)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The arguments of {tool.name} are not right: {error}.", code="arguments_invalid") from error


def _connect_with_key(connect: Connect, headers: Headers) -> GatewayClient:
    """Return a client that asks with the key of the request and nothing else."""
    gateway = connect().gateway
    return GatewayClient(msgspec.structs.replace(gateway, token=next(_keys_shown(headers), "")))


def _keys_shown(headers: Headers) -> Iterator[str]:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        yield key.strip()
    if headers.get("x-api-key"):
        yield headers["x-api-key"]


class KeyGate:
    """Lets a request through to the protocol if the gateway takes its key."""

    def __init__(self, application: ASGIApp, connect: Connect) -> None:
        self._application, self._connect = application, connect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it in a sentence."""
        if scope["type"] == "http":
            try:
                await anyio.to_thread.run_sync(self._check_key, Headers(scope=scope))
            except RoundhouseError as error:
                await _refuse(error)(scope, receive, send)
                return
        await self._application(scope, receive, send)

    def _check_key(self, headers: Headers) -> None:
        if next(_keys_shown(headers), None) is None:
            raise Unauthorized(
                "This server requires a key.",
                hint="Create one with `roundhouse keys new NAME --scope manage`; send it as `Authorization: Bearer`.",
                code="key_required",
            )
        _connect_with_key(self._connect, headers).get("/status", Status)


def _refuse(error: RoundhouseError) -> JSONResponse:
    head = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else None
    return JSONResponse(json.loads(msgspec.json.encode(error.body)), status_code=error.status, headers=head)
