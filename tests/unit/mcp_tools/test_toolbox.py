"""A built-in server as the gateway runs it: lines of JSON to a process of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from app import __version__
from app.config.programs import module_command
from app.core.mcp import (
    LONGEST_RESULT,
    BuiltinServer,
    HostCall,
    HostCancel,
    HostOrder,
    HostReply,
    HostResult,
    HostTools,
)
from app.mcp_tools import toolbox
from app.mcp_tools.toolbox import BuiltinTool, ToolMistake, ToolServer

_REPLIES: msgspec.json.Decoder[HostReply] = msgspec.json.Decoder(HostReply)


class RunningServer:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def write(self, *messages: msgspec.Struct) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(msgspec.json.encode(message) + b"\n")
        self.process.stdin.flush()

    def read(self) -> HostReply:
        assert self.process.stdout is not None
        return _REPLIES.decode(self.process.stdout.readline())

    def call(self, tool: str, **arguments: object) -> HostReply:
        self.write(HostCall(id=1, tool=tool, arguments=arguments))
        return self.read()


@contextmanager
def running_server(order: HostOrder) -> Iterator[RunningServer]:
    argv = module_command("app.mcp_tools")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        server = RunningServer(process)
        server.write(order)
        yield server
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, "it ends with its input"


def test_tools_are_listed_and_called_until_the_input_ends() -> None:
    with running_server(HostOrder(builtin=BuiltinServer.CALCULATOR)) as server:
        tools = server.read()
        assert isinstance(tools, HostTools)
        assert (tools.server, tools.tools[0].name) == (f"calculator {__version__}", "calculate")
        assert tools.tools[0].is_read_only
        for expression, text, is_error in (("2 ** 10", "1024", False), ("2 **", None, True)):
            reply = server.call("calculate", expression=expression)
            assert isinstance(reply, HostResult)
            assert reply.result.is_error is is_error
            assert reply.result.text == text or text is None
        for tool, arguments in (("calculate", {"expression": 5}), ("no such tool", {})):
            reply = server.call(tool, **arguments)
            assert isinstance(reply, HostResult)
            assert reply.result.is_error


def test_every_built_in_server_lists_its_tools(tmp_path: Path) -> None:
    for kind in BuiltinServer:
        with running_server(HostOrder(builtin=kind, folders=[str(tmp_path)])) as server:
            tools = server.read()
            assert isinstance(tools, HostTools)
            assert tools.tools
            assert all(tool.schema["type"] == "object" for tool in tools.tools)


class NoArguments(msgspec.Struct):
    pass


def fail_strangely(_arguments: NoArguments) -> str:
    raise RuntimeError("The disk is gone.")


def make_mistake(_arguments: NoArguments) -> str:
    raise ToolMistake("Not so.")


def write_much(_arguments: NoArguments) -> str:
    return "x" * (LONGEST_RESULT + 1)


def make_tool(run: object) -> BuiltinTool:
    return BuiltinTool(name="tool", description="Does it.", arguments=NoArguments, run=run)  # type: ignore[arg-type]


def test_a_mistake_a_fault_and_a_flood_are_results() -> None:
    mistake, fault = make_tool(make_mistake).call({}), make_tool(fail_strangely).call({})
    assert [(result.text, result.is_error) for result in (mistake, fault)] == [
        ("Not so.", True),
        ("The disk is gone.", True),
    ]
    flood = make_tool(write_much).call({})
    assert (flood.was_cut, flood.is_error) == (True, False)
    assert len(flood.text) < LONGEST_RESULT + 100


def test_of_a_call_that_was_called_off_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[msgspec.Struct] = []
    lines = map(msgspec.json.encode, [HostCall(id=1, tool="tool", arguments={}), HostCancel(id=1)])
    server = ToolServer("test", [make_tool(make_mistake)])

    class LateThread:
        """Runs once its call was called off."""

        def __init__(self, *, target: object, args: tuple[HostCall], daemon: bool) -> None:
            assert daemon
            assert callable(target)
            self.args = args

        def start(self) -> None:
            late_calls.append(self.args[0])

    late_calls: list[HostCall] = []
    monkeypatch.setattr("threading.Thread", LateThread)
    monkeypatch.setattr(toolbox, "send", replies.append)
    monkeypatch.setattr(toolbox, "read_line", lambda: next(lines, b""))
    server.serve_calls()
    server._answer_call(late_calls[0])
    assert [type(reply) for reply in replies] == [HostTools]
