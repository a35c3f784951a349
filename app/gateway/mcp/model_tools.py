"""Tools of MCP servers as a model is offered them, and its calls: the same in chats and at the endpoint.

Whether a call may be made is for the caller to know.
"""

from collections.abc import Collection, Iterable

import msgspec

from app.core.errors import BadRequest, RoundhouseError
from app.core.mcp import McpResult, McpTool, tools_by_function
from app.gateway.canonical.request import ToolDefinition
from app.gateway.mcp.servers import McpServers

LEAST_RESULT = 2000
_RESULT_LETTERS_PER_TOKEN = 0.75
"""A result may take about a quarter of the context: a token is some three letters."""


class ModelCall(msgspec.Struct, frozen=True):
    """A call that can be made: the tool as it is described now, and what it is given."""

    tool: McpTool
    arguments: dict[str, object]


class ModelTools:
    """The tools that a model is offered. `taken` are names of other functions of the same request."""

    def __init__(self, mcp: McpServers, taken_names: Collection[str] = ()) -> None:
        self._mcp, self._taken_names = mcp, taken_names
        self._functions: dict[str, McpTool] = {}

    def offer_tools(self, tools: Iterable[McpTool]) -> tuple[ToolDefinition, ...]:
        """Return tools as a request names them, and remember which is meant by which name."""
        self._functions = tools_by_function(tools, self._taken_names)
        return tuple(
            ToolDefinition(
                name=name,
                description=tool.about.description,
                parameters=msgspec.Raw(msgspec.json.encode(tool.about.schema)),
            )
            for name, tool in self._functions.items()
        )

    def find_tool(self, function: str) -> McpTool | None:
        """Return the tool that a model means by the name of a function."""
        return self._functions.get(function)

    def read_call(self, offered_tool: McpTool, arguments: str) -> ModelCall:
        """Return a call that a model asked for. Raises NotFound, and BadRequest for arguments that are no object."""
        try:
            values = msgspec.json.decode(arguments or "{}", type=dict[str, object])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadRequest(f"The arguments are no JSON object: {error}", code="invalid_value") from None
        return ModelCall(self._mcp.read_tool(offered_tool.server, offered_tool.about.name), values)

    async def make_call(self, call: ModelCall) -> McpResult:
        """Return what comes of a call; of one that fails, why."""
        try:
            return await self._mcp.call_tool(call.tool.server, call.tool.about.name, call.arguments)
        except RoundhouseError as error:
            return McpResult(text=f"{error} {error.hint}".strip(), is_error=True)


def longest_result(context: int) -> int:
    """Return how many characters of a tool's result a model is given, by its context in tokens."""
    return max(LEAST_RESULT, int(context * _RESULT_LETTERS_PER_TOKEN))


def cut_result(text: str, longest: int = LEAST_RESULT) -> str:
    """Return as much of a tool's result as fits, and that something is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n(The other {len(text) - longest:,} characters do not fit and are left out.)"
