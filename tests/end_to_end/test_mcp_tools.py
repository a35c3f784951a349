"""Tools in the terminal and in chats: a server of tools, and the real engine with a model that calls one."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.chats import Chat, MessageStatus, NewChat, NewTurn, Turn
from app.core.tool_calls import MOST_ROUNDS, ChatTools, ToolCallState
from tests.end_to_end.conftest import Roundhouse
from tests.fake_mcp import oauth_server
from tests.fake_mcp import server as fake
from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.scripted_gguf import ScriptedLlama

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("client")]

SERVER = (sys.executable, fake.__file__)
CALL = ['<tool_call>\n{"name": "fake__echo", "arguments": {"text"', ': "hello"}}\n</tool_call>']


@pytest.mark.slow
def test_a_server_is_added_listed_allowed_called_and_removed(roundhouse: Roundhouse) -> None:
    for name in ("fake", "guarded"):
        roundhouse("mcp", "remove", name)  # of a test before
    assert "There are no MCP servers" in roundhouse("mcp").stdout
    assert roundhouse("mcp", "add", "fake", "--env", "KEY=secret", "--", *SERVER).returncode == 0
    tools = json.loads(roundhouse("mcp", "tools", "fake", "--json").stdout)["tools"]
    assert [tool["about"]["name"] for tool in tools] == list(fake.TOOLS)
    assert "may call" in roundhouse("mcp", "allow", "fake", "echo").stdout
    assert "blocked" in roundhouse("mcp", "block", "fake", "die").stdout
    listing = roundhouse("mcp", "list")
    assert ("fake" in listing.stdout, "ready" in listing.stdout, "secret" in listing.stdout) == (True, True, False)
    call_result = roundhouse("mcp", "call", "fake", "echo", '{"text": "\\u001b[2Jhello"}')
    assert (call_result.returncode, call_result.stdout.strip()) == (0, "hello"), "control sequences reach no terminal"
    assert roundhouse("mcp", "call", "fake", "fail").returncode == 1


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "a"), "has a command or a URL"),
        (("add", "a", "--url", "ftp://x"), "begins with http"),
        (("add", "a", "--env", "novalue", "--", "x"), "--env takes NAME=VALUE"),
        (("add", "a", "--netwrk", "--", "x"), "No such option"),
        (("tools", "nobody"), "There is no MCP server 'nobody'"),
        (("call", "fake", "echo", "["), "no JSON object"),
        (("call", "fake", "nothing"), "has no tool 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(roundhouse: Roundhouse, arguments: tuple[str, ...], sentence: str) -> None:
    roundhouse("mcp", "add", "fake", "--", *SERVER)
    result = roundhouse("mcp", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_a_model_calls_only_what_was_allowed(roundhouse: Roundhouse, home: Paths) -> None:
    ScriptedLlama(CALL).write(home.models / "caller.gguf")
    roundhouse("mcp", "add", "fake", "--", *SERVER)
    roundhouse("mcp", "ask", "fake", "echo")
    refusal = roundhouse("run", "caller", "--mcp", "fake", stdin="Say hello")
    assert "Not called, since nobody can be asked" in refusal.stderr
    assert "Answered after" not in refusal.stderr
    roundhouse("mcp", "allow", "fake", "echo")
    allowed_run = roundhouse("run", "caller", "--mcp", "fake", stdin="Say hello")
    assert 'fake: echo {"text": "hello"}' in allowed_run.stderr
    assert "Answered after" in allowed_run.stderr


@pytest.mark.slow
def test_a_chat_calls_tools_with_the_real_engine(roundhouse: Roundhouse, client: GatewayClient, home: Paths) -> None:
    ScriptedLlama(CALL).write(home.models / "caller.gguf")
    roundhouse("mcp", "add", "fake", "--", *SERVER)
    roundhouse("mcp", "tools", "fake")
    roundhouse("mcp", "allow", "fake", "echo")
    chat = client.post("/chats", NewChat(model="caller", tools=ChatTools(servers=["fake"])), Chat)
    turn = client.post(f"/chats/{chat.id}/turns", NewTurn(content="Say hello"), Turn, timeout_s=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while (answer := client.get(f"/chats/{chat.id}", Chat).messages[-1]).status is MessageStatus.GENERATING:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert answer.id == turn.answer.id
    assert 2 < len(answer.calls) <= MOST_ROUNDS
    assert {(call.state, call.result) for call in answer.calls} == {(ToolCallState.ANSWERED, "hello")}
    assert answer.status is MessageStatus.FAILED, "this model knows nothing else, until its context is full"


@pytest.mark.slow
def test_a_chat_is_begun_with_tools_in_the_terminal(roundhouse: Roundhouse, home: Paths) -> None:
    ScriptedLlama(CALL).write(home.models / "caller.gguf")
    roundhouse("mcp", "add", "fake", "--", *SERVER)
    roundhouse("mcp", "tools", "fake")
    roundhouse("mcp", "ask", "fake", "echo")
    result = roundhouse("chats", "new", "Say hello", "--model", "caller", "--mcp", "fake", "--title", "Tools")
    assert "Not called, since nobody can be asked: roundhouse mcp allow fake echo" in result.stderr
    assert 'fake: echo {"text": "hello"}' in result.stderr
    assert "There is no MCP server 'nobody'" in roundhouse("chats", "ask", "Tools", "Hm?", "--mcp", "nobody").stderr


@pytest.mark.slow
def test_a_server_is_signed_in_to_from_the_terminal(roundhouse: Roundhouse) -> None:
    port = free_port()
    server = subprocess.Popen([sys.executable, oauth_server.__file__, str(port)])
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        roundhouse("mcp", "add", "guarded", "--url", f"http://127.0.0.1:{port}/mcp")
        refusal = roundhouse("mcp", "tools", "guarded")
        assert "guarded asks you to sign in" in refusal.stderr
        page = json.loads(roundhouse("mcp", "list", "--json").stdout)["servers"]
        (address,) = [mcp_server["sign_in_url"] for mcp_server in page if mcp_server["name"] == "guarded"]
        with urllib.request.urlopen(address) as reply:  # noqa: S310 -- of our own server
            assert b"You are signed in" in reply.read()
        result = roundhouse("mcp", "sign-in", "guarded", "--no-browser")
        assert (result.returncode, "ready" in result.stdout) == (0, True)
        assert roundhouse("mcp", "call", "guarded", "whoami").stdout.strip() == "a friend"
    finally:
        server.kill()
        server.wait()
