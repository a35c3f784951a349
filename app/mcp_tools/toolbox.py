"""What a built-in server is made of: functions with the schema of their arguments, called over the gateway's lines.

It answers what `app.mcp_host` would answer for it: the protocol is for programs that do not know each other, and its
library takes a second or more to import, on both sides of it.
A tool's mistake is a sentence for the model: it raises `ToolMistake`, and the call counts as failed.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from app import __version__
from app.core.mcp import (
    LONGEST_DESCRIPTION,
    HostCall,
    HostCancel,
    HostRequest,
    HostResult,
    HostTools,
    McpResult,
    McpToolDescription,
)
from app.mcp_host.lines import describe_failure, make_result, read_line, send

_REQUESTS: msgspec.json.Decoder[HostRequest] = msgspec.json.Decoder(HostRequest)


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

    def describe_tool(self) -> McpToolDescription:
        """Return what the gateway is told of it."""
        return McpToolDescription(
            name=self.name,
            description=self.description[:LONGEST_DESCRIPTION],
            schema=self.schema,
            is_read_only=self.is_read_only,
        )

    def call(self, arguments: dict[str, Any]) -> McpResult:
        """Return what it answers; a mistake, or a fault of its own, is said in the result."""
        try:
            return make_result(self.run(msgspec.convert(arguments, self.arguments)), is_error=False)
        except (ToolMistake, msgspec.ValidationError) as error:
            return make_result(str(error), is_error=True)
        except Exception as error:  # noqa: BLE001 -- the model is told, and the server goes on
            return make_result(describe_failure(error), is_error=True)


class ToolServer:
    """Answers calls of its tools, each in a thread: some take a minute, and the others do not wait for them."""

    def __init__(self, name: str, tools: Sequence[BuiltinTool]) -> None:
        self._name = name
        self._tools = {tool.name: tool for tool in tools}
        self._open_calls: set[int] = set()
        """Those that somebody waits for."""

    def serve_calls(self) -> None:
        """List the tools and answer until our input ends."""
        tools = [tool.describe_tool() for tool in self._tools.values()]
        send(HostTools(tools=tools, server=f"{self._name} {__version__}"))
        while line := read_line():
            match _REQUESTS.decode(line):
                case HostCall() as call:
                    self._open_calls.add(call.id)
                    threading.Thread(target=self._answer_call, args=(call,), daemon=True).start()
                case HostCancel(id=number):
                    self._open_calls.discard(number)

    def _answer_call(self, call: HostCall) -> None:
        began = time.monotonic()
        result = self._run_tool(call)
        if call.id in self._open_calls:
            self._open_calls.discard(call.id)
            seconds = round(time.monotonic() - began, 3)
            send(HostResult(id=call.id, result=msgspec.structs.replace(result, seconds=seconds)))

    def _run_tool(self, call: HostCall) -> McpResult:
        tool = self._tools.get(call.tool)
        return tool.call(call.arguments) if tool else make_result(f"No tool {call.tool!r}.", is_error=True)
