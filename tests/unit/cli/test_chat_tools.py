"""Tools in the terminal: what a model is offered, what a person decides, and what the model is told."""

import sys
from collections.abc import Sequence
from typing import Any

import click
import pytest

from app.cli.chat_tools import AnswerWithTools, TerminalTools
from app.client.endpoint import AnswerStream, EndpointMessage, EndpointTool, EndpointToolCall, ToolCallFunction
from app.core.chats import Timings
from app.core.errors import EngineFailed, Unavailable
from app.core.mcp import (
    McpPermission,
    McpResult,
    McpServer,
    McpTool,
    McpToolDescription,
    function_name,
    tools_by_function,
)


class FakeClient:
    """Starts every server with three tools, and counts what is called."""

    def __init__(self, *, has_changed: bool = False) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.has_changed = has_changed
        self.failure: Unavailable | None = None

    def post(self, path: str, body: Any, reply: type[object], *, timeout_s: float) -> object:  # noqa: ANN401 -- any request
        assert timeout_s > 0
        if path.endswith("/start"):
            server = path.split("/")[3]
            return McpServer(name=server, tools=[self.tool(server, kind) for kind in McpPermission])
        assert reply is McpResult
        self.calls.append((path, body.arguments))
        if self.failure is not None:
            raise self.failure
        return McpResult(text="" if body.arguments.get("quiet") else "noon", seconds=0.1)

    def tool(self, server: str, permission: McpPermission) -> McpTool:
        about = McpToolDescription(name=permission.value, description="Tells.", schema={"type": "object"})
        return McpTool(server=server, about=about, permission=permission, has_changed=self.has_changed)


def call_of(name: str, arguments: str = "{}") -> EndpointToolCall:
    return EndpointToolCall(id="c1", function=ToolCallFunction(name, arguments))


def tell(tools: TerminalTools, name: str, arguments: str = "{}") -> str:
    (message,) = tools.answer_calls([call_of(name, arguments)])
    assert (message.role, message.tool_call_id) == ("tool", "c1")
    assert isinstance(message.content, str)
    return message.content


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def tools(client: FakeClient) -> TerminalTools:
    return TerminalTools(client, ["time"])  # type: ignore[arg-type]


def answers(monkeypatch: pytest.MonkeyPatch, *replies: str) -> list[str]:
    """Have a person sit at the terminal and answer so; return the answers that are left."""
    answers_left = list(replies)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "prompt", lambda *_, **__: answers_left.pop(0))
    return answers_left


def test_blocked_tools_are_not_offered(tools: TerminalTools) -> None:
    assert [tool.function.name for tool in tools.definitions] == ["time__ask", "time__allow"]


def test_what_was_allowed_is_called_without_asking(tools: TerminalTools, client: FakeClient) -> None:
    assert tell(tools, "time__allow", '{"zone": "UTC"}') == "noon"
    assert client.calls == [("/mcp/servers/time/tools/allow/call", {"zone": "UTC"})]
    assert tell(tools, "time__allow", '{"quiet": true}') == "The tool returned nothing."


def test_where_nobody_can_be_asked_nothing_is_called(
    tools: TerminalTools, client: FakeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did not allow" in tell(tools, "time__ask")
    assert client.calls == []
    assert "roundhouse mcp allow time ask" in capsys.readouterr().err


def test_a_person_is_asked_each_time_until_they_say_always(
    tools: TerminalTools, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_left = answers(monkeypatch, "no", "yes", "always")
    assert "did not allow" in tell(tools, "time__ask")
    assert [tell(tools, "time__ask") for _ in range(3)] == ["noon"] * 3
    assert (len(client.calls), answers_left) == (3, [])


def test_a_changed_tool_is_said_to_be(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers(monkeypatch, "no")
    tell(TerminalTools(FakeClient(has_changed=True), ["time"]), "time__ask")  # type: ignore[arg-type]
    assert "otherwise than when you allowed it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("time__block", "{}", "There is no tool"),
        ("nothing", "{}", "There is no tool"),
        ("time__allow", "[]", "no JSON object"),
        ("time__allow", "{", "no JSON object"),
    ],
)
def test_what_cannot_be_called_is_told_to_the_model(
    tools: TerminalTools, client: FakeClient, name: str, arguments: str, words: str
) -> None:
    assert words in tell(tools, name, arguments)
    assert client.calls == []


def test_a_call_that_fails_is_told_to_the_model(tools: TerminalTools, client: FakeClient) -> None:
    client.failure = Unavailable("The server ended.")
    assert tell(tools, "time__allow") == "The call failed: The server ended."


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [("time", "now", "time__now"), ("my notes", "a.b/c", "my_notes__a_b_c"), ("s" * 64, "t" * 64, "s" * 64)],
)
def test_a_tool_is_named_as_every_dialect_takes_it(server: str, tool: str, name: str) -> None:
    assert function_name(server, tool) == name


class ScriptedStream:
    """One round: its words, and the calls it ends with."""

    def __init__(self, words: str, *calls: EndpointToolCall) -> None:
        self._words, self.calls, self.timings = words, list(calls), Timings(completion_tokens=len(words))

    def __iter__(self) -> Any:  # noqa: ANN401 -- an iterator of its words
        return iter(self._words.split())


def test_rounds_follow_each_other_until_the_model_answers(tools: TerminalTools) -> None:
    rounds = [ScriptedStream("let me", call_of("time__allow")), ScriptedStream("it is noon")]
    paths: list[list[EndpointMessage]] = []

    def make_stream(path: Sequence[EndpointMessage], definitions: Sequence[EndpointTool]) -> AnswerStream:
        assert len(definitions) == 2
        paths.append(list(path))
        return rounds.pop(0)  # type: ignore[return-value]

    answer = AnswerWithTools(tools, make_stream, [EndpointMessage("user", "When?")])
    assert list(answer) == ["let", "me", "it", "is", "noon"]
    assert [message.role for message in paths[1]] == ["user", "assistant", "tool"]
    assert paths[1][1].tool_calls == [call_of("time__allow")]
    assert answer.timings.completion_tokens == len("it is noon")


def test_a_model_that_only_calls_tools_is_stopped(tools: TerminalTools, client: FakeClient) -> None:
    def make_stream(path: Sequence[EndpointMessage], definitions: Sequence[EndpointTool]) -> AnswerStream:
        del path, definitions
        return ScriptedStream("", call_of("time__allow"))  # type: ignore[return-value]

    with pytest.raises(EngineFailed, match="16 times in a row"):
        list(AnswerWithTools(tools, make_stream, []))
    assert len(client.calls) == 16


def test_two_tools_of_one_function_name_are_told_apart() -> None:
    tools = [McpTool(server="a b", about=McpToolDescription(name=name)) for name in ("x.y", "x y", "z" * 80, "z" * 90)]
    tool_by_name = tools_by_function(tools)
    assert list(tool_by_name) == ["a_b__x_y", "a_b__x_y_2", f"a_b__{'z' * 59}", f"a_b__{'z' * 57}_2"]
    assert list(tool_by_name.values()) == tools
