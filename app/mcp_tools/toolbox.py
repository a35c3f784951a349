"""What a built-in server is made of: functions with the schema of their arguments, served on standard input and output.

A tool's mistake is a sentence for the model: it raises `ToolMistake`, and the call counts as failed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from app import __version__


class ToolMistake(Exception):
    """A call that cannot be answered; its words are for the model."""


class BuiltinTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `arguments` is a `msgspec.Struct` whose fields are its arguments; `run` gets one, in a thread."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Any], str]
    is_read_only: bool = True

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        (_,), components = msgspec.json.schema_components([self.arguments])
        schema = components[self.arguments.__name__]
        return {key: value for key, value in schema.items() if key != "title"}

    def call(self, arguments: dict[str, Any]) -> types.CallToolResult:
        """Return what it answers; a mistake is said in the result."""
        try:
            text, is_error = self.run(msgspec.convert(arguments, self.arguments)), False
        except (ToolMistake, msgspec.ValidationError) as error:
            text, is_error = str(error), True
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def build_server(name: str, tools: Sequence[BuiltinTool]) -> Server:
    """Return a server of these tools."""
    by_name = {tool.name: tool for tool in tools}

    async def list_tools(
        context: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.schema,
                    annotations=types.ToolAnnotations(read_only_hint=tool.is_read_only),
                )
                for tool in tools
            ]
        )

    async def call_tool(context: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        del context
        tool = by_name.get(params.name)
        if tool is None:
            return types.CallToolResult(content=[types.TextContent(text=f"No tool {params.name!r}.")], is_error=True)
        return await anyio.to_thread.run_sync(tool.call, params.arguments or {}, abandon_on_cancel=True)

    return Server(name, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def serve(name: str, tools: Sequence[BuiltinTool]) -> None:
    """Serve until our input ends."""
    anyio.run(partial(_serve, build_server(name, tools)))


async def _serve(server: Server) -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
