"""The reference servers of the Model Context Protocol, each used in a chat of a real gateway by a scripted model.

Without a folder of servers (`make clients` makes it) the tests are skipped. With `RECORD_SESSIONS=1` they write what
happened into the docs instead of comparing it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.chats import Chat, Message, MessageStatus, NewChat, NewTurn, Turn
from app.core.mcp import McpServer, McpServerSettings, NewMcpServer
from app.core.models import AttachEndpoint, ModelInfo
from app.core.tool_calls import AnswerToolCall, ChatTools, DecideToolCall, ToolCallState, ToolDecision
from tests.patience import PATIENCE_S, wait_until
from tests.reference_servers import (
    ANSWER,
    PAGE,
    SERVERS,
    CallingEndpoint,
    ReferenceServer,
    server_folder,
    with_session,
    without_varying,
    write_session,
)

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.own_gateway,
    pytest.mark.skipif(sys.platform == "win32", reason="they are installed for POSIX"),
    pytest.mark.timeout(600),
]
_AUTHOR = {
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
        ("NAME", "You"), ("EMAIL", "you@example.org"), ("DATE", "2026-11-26T12:00:00+00:00"),
    )},
    "GIT_CONFIG_GLOBAL": os.devnull,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder under version control, for the servers that work on one."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "plan.txt").write_text("Lay the rails.\n")
    git = shutil.which("git") or "git"
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "Plan the rails")):
        subprocess.run([git, *arguments], cwd=folder, env={**os.environ, **_AUTHOR}, check=True)
    return folder


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_a_reference_server_is_used_in_a_chat(
    server: ReferenceServer, client: GatewayClient, home: Paths, folder: Path
) -> None:
    command, *arguments = server.command(server_folder(), folder)
    settings = McpServerSettings(command=command, args=arguments, folders=[str(folder)])
    client.post("/mcp/servers", NewMcpServer(name=server.name, settings=settings), McpServer)
    ready = client.post(f"/mcp/servers/{server.name}/start", None, McpServer, timeout_s=PATIENCE_S)
    with CallingEndpoint(server, folder) as endpoint:
        model = f"script-{server.name}"
        client.post("/attached", AttachEndpoint(url=endpoint.url, name=model), list[ModelInfo])
        answer = ask(client, NewChat(model=model, tools=ChatTools(servers=[server.name])), server.question)
        offered_names = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
        tool_texts = [message["content"] for message in endpoint.requests[-1]["messages"] if message["role"] == "tool"]
    assert (answer.status, answer.content.split("\n\n")[-1]) == (MessageStatus.COMPLETE, ANSWER)
    assert len(offered_names) == len(ready.tools)
    assert [call.tool for call in answer.calls] == [tool for tool, _ in server.calls]
    assert all(call.result in text for call, text in zip(answer.calls, tool_texts, strict=True)), (
        "the model has the results"
    )
    lines = [without_varying(each, folder) for each in session_lines(server, ready, answer)]
    if os.environ.get("RECORD_SESSIONS"):
        write_session(server, lines)
    page = PAGE.read_text(encoding="utf-8")
    assert with_session(page, server, lines) == page


def ask(client: GatewayClient, new: NewChat, question: str) -> Message:
    """Ask in a new chat, allow each call once, and return the answer."""
    chat = client.post("/chats", new, Chat)
    turn = client.post(f"/chats/{chat.id}/turns", NewTurn(content=question), Turn, timeout_s=PATIENCE_S)
    answer = f"/chats/{chat.id}/answers/{turn.answer.id}"

    def is_over() -> bool:
        message = client.get(f"/chats/{chat.id}", Chat).messages[-1]
        for call in message.calls:
            if call.state is ToolCallState.WAITING:
                client.post(f"{answer}/calls/{call.id}", DecideToolCall(decision=ToolDecision.ONCE), Message)
        return message.status is not MessageStatus.GENERATING

    wait_until(is_over)
    return client.get(f"/chats/{chat.id}", Chat).messages[-1]


def session_lines(server: ReferenceServer, ready: McpServer, answer: Message) -> Iterator[str]:
    """Yield what happened, as Markdown."""
    confinement_word = "confined" if ready.is_confined else "not confined"
    yield f"`{server.requirement}`, {confinement_word}, with {len(ready.tools)} tools: {tool_names(ready)}."
    yield ""
    yield f"> {server.question}"
    for call in answer.calls:
        yield ""
        yield f"{call.tool} `{call.arguments}`: allowed once, {call.state.value}."
        yield from ("", "```text", *result_lines(call), "```")
    yield ""
    yield f"> {ANSWER}"


def tool_names(ready: McpServer) -> str:
    return ", ".join(f"`{tool.about.name}`" for tool in ready.tools)


def result_lines(call: AnswerToolCall) -> list[str]:
    return [line.rstrip() for line in call.result.strip().splitlines()]
