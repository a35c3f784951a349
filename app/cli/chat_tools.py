"""Tools in `roundhouse run`: those of the MCP servers a person named, each call shown and decided before it is made."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence

import click
import msgspec

from app.cli.output import print_note
from app.client.endpoint import AnswerStream, EndpointFunction, EndpointMessage, EndpointTool, EndpointToolCall
from app.client.http import GatewayClient, quote_segment
from app.core.chats import Timings
from app.core.errors import Conflict, EngineFailed, RoundhouseError
from app.core.mcp import McpCall, McpPermission, McpResult, McpServer, McpServerState, McpTool, tools_by_function
from app.core.tool_calls import MOST_ROUNDS, REFUSED_CALL, ToolDecision

_START_S = _CALL_S = 150.0
_LONGEST_ARGUMENTS = 600


StreamMaker = Callable[[Sequence[EndpointMessage], Sequence[EndpointTool]], AnswerStream]
"""Asks a model, with the conversation and the tools it may call."""


class TerminalTools:
    """The tools that a model may call in one run, and what a person decided of them in it."""

    def __init__(self, client: GatewayClient, servers: Sequence[str]) -> None:
        self._client = client
        self._tools = tools_by_function(self._start_servers(servers))
        self._allowed_tools: set[tuple[str, str]] = set()

    @property
    def definitions(self) -> list[EndpointTool]:
        """The tools as a request names them."""
        return [
            EndpointTool(EndpointFunction(name=name, description=tool.about.description, parameters=tool.about.schema))
            for name, tool in self._tools.items()
        ]

    def answer_calls(self, calls: Sequence[EndpointToolCall]) -> list[EndpointMessage]:
        """Make the calls that are allowed, and return what the model is told of each."""
        return [EndpointMessage("tool", self._answer_call(call), tool_call_id=call.id) for call in calls]

    def _start_servers(self, servers: Sequence[str]) -> Iterator[McpTool]:
        for server in servers:
            started_server = self._client.post(f"{_server_path(server)}/start", None, McpServer, timeout_s=_START_S)
            if started_server.state is McpServerState.SIGN_IN:
                hint = f"`roundhouse mcp sign-in {server}` opens its page."
                raise Conflict(f"{server} asks you to sign in.", hint=hint, code="mcp_sign_in")
            for tool in started_server.tools:
                if tool.permission is not McpPermission.BLOCK:
                    yield tool

    def _answer_call(self, call: EndpointToolCall) -> str:
        tool = self._tools.get(call.function.name)
        if tool is None:
            return f"There is no tool {call.function.name!r}."
        try:
            arguments = msgspec.json.decode(call.function.arguments, type=dict[str, object])
        except msgspec.MsgspecError as error:
            return f"The arguments are no JSON object: {error}"
        if not self._is_allowed(tool, arguments):
            return REFUSED_CALL
        return self._call_tool(tool, arguments)

    def _is_allowed(self, tool: McpTool, arguments: dict[str, object]) -> bool:
        place = (tool.server, tool.about.name)
        print_call(tool.server, tool.about.name, json.dumps(arguments, ensure_ascii=False))
        if tool.permission is McpPermission.ALLOW or place in self._allowed_tools:
            return True
        decision = ask_decision(tool.server, tool.about.name, has_changed=tool.has_changed)
        if decision is ToolDecision.ALWAYS:
            self._allowed_tools.add(place)
        return decision is not ToolDecision.REFUSE

    def _call_tool(self, tool: McpTool, arguments: dict[str, object]) -> str:
        path = f"{_server_path(tool.server)}/tools/{quote_segment(tool.about.name)}/call"
        try:
            result = self._client.post(path, McpCall(arguments=arguments), McpResult, timeout_s=_CALL_S)
        except RoundhouseError as error:
            print_note(str(error))
            return f"The call failed: {error}"
        print_note(f"{'Failed' if result.is_error else 'Answered'} after {result.seconds:.1f} s.")
        return result.text or "The tool returned nothing."


def print_call(server: str, tool: str, arguments: str) -> None:
    """Show a call that a model makes."""
    cut = arguments if len(arguments) <= _LONGEST_ARGUMENTS else f"{arguments[:_LONGEST_ARGUMENTS]}…"
    print_note(f"{server}: {tool} {cut}")


def ask_decision(server: str, tool: str, *, has_changed: bool) -> ToolDecision:
    """Return what the person at the terminal says to a call that was shown; without a terminal it is refused."""
    if has_changed:
        print_note("The server describes this tool otherwise than when you allowed it.")
    if not sys.stdin.isatty():
        print_note(f"Not called, since nobody can be asked: roundhouse mcp allow {server} {tool}")
        return ToolDecision.REFUSE
    return _DECISIONS[click.prompt("Call it?", type=click.Choice(list(_DECISIONS)), default="no", err=True)]


_DECISIONS = {"yes": ToolDecision.ONCE, "always": ToolDecision.ALWAYS, "no": ToolDecision.REFUSE}


class AnswerWithTools:
    """An answer and the calls on its way, in the place of an `AnswerStream`: iterate for its text, then read `timings`.

    Those are of the last round.
    """

    def __init__(self, tools: TerminalTools, make_stream: StreamMaker, messages: Sequence[EndpointMessage]) -> None:
        self._tools, self._make_stream, self._path = tools, make_stream, list(messages)
        self.timings = Timings()

    def __iter__(self) -> Iterator[str]:
        """Yield the text. Raises as `AnswerStream`, and EngineFailed for a model that never stops calling tools."""
        for _ in range(MOST_ROUNDS):
            stream = self._make_stream(self._path, self._tools.definitions)
            text = []
            for piece in stream:
                text.append(piece)
                yield piece
            self.timings = stream.timings
            if not stream.calls:
                return
            self._path.append(EndpointMessage("assistant", "".join(text), tool_calls=stream.calls))
            self._path += self._tools.answer_calls(stream.calls)
        raise EngineFailed(
            f"The model called tools {MOST_ROUNDS} times in a row without an answer.",
            hint="Ask more precisely, or try another model.",
            code="tool_loop",
        )


def _server_path(server: str) -> str:
    return f"/mcp/servers/{quote_segment(server)}"
