"""Agents over MCP: the official client, the real service, and the Guide."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import msgspec
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.config.programs import module_command
from app.core.keys import KeyInfo, KeyWithSecret, NewKey, Scope
from app.core.tool_results import AnswerText, InstalledModels, ServiceStatus
from app.mcp_server.tools import TOOLS

pytestmark = pytest.mark.real_engine

READ_ONLY = {tool.name for tool in TOOLS if tool.is_read_only}
ANNOUNCEMENT = "Serving "


@asynccontextmanager
async def stdio_agent(*options: str) -> AsyncIterator[Client]:
    program, *arguments = module_command("app.cli", "mcp", "serve", *options)
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with Client(stdio_client(parameters)) as agent:
        yield agent


@asynccontextmanager
async def http_agent(address: str, key: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(address, http_client=http)) as agent,
    ):
        yield agent


@pytest.fixture(scope="module")
def address(client: GatewayClient) -> Iterator[str]:
    """The tools over HTTP."""
    command = module_command("app.cli", "mcp", "serve", "--http", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert line.startswith(ANNOUNCEMENT), line
        yield line.removeprefix(ANNOUNCEMENT).split(". ")[0]
        server.terminate()


def make_key(client: GatewayClient, name: str, *scopes: Scope) -> KeyWithSecret:
    return client.post("/keys", NewKey(name=name, scopes=list(scopes)), KeyWithSecret)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.slow
async def test_an_agent_asks_and_sees_what_is_loaded(client: GatewayClient) -> None:
    async with stdio_agent() as agent:
        assert {tool.name for tool in (await agent.list_tools()).tools} == {tool.name for tool in TOOLS}
        listing = await agent.call_tool("list_models", {})
        assert "guide" in {model.name for model in msgspec.convert(listing.structured_content, InstalledModels).models}
        answer = await agent.call_tool("ask", {"prompt": "Hello", "model": "guide", "max_tokens": 8})
        cost = msgspec.convert(answer.structured_content, AnswerText)
        assert cost.text
        assert cost.completion_tokens == 8
        state = msgspec.convert((await agent.call_tool("status", {})).structured_content, ServiceStatus)
        assert [(loaded_model.model, loaded_model.state) for loaded_model in state.loaded] == [("guide", "ready")]
        assert state.endpoint == client.gateway.url
        assert not (await agent.call_tool("unload", {"model": "guide"})).is_error


@pytest.mark.slow
async def test_plans_and_estimates_need_no_hub(client: GatewayClient) -> None:
    del client
    async with stdio_agent() as agent:
        plan = (await agent.call_tool("plan", {"model": "Qwen3 8B"})).structured_content
        assert plan["plans"][0]["model"] == "Qwen3 8B"
        assert plan["plans"][0]["reasons"]
        estimate = (await agent.call_tool("estimate", {"model": "Qwen3 8B", "context": 4096})).structured_content
        assert estimate["context"] == 4096
        assert estimate["memory_bytes"] > 4 << 30
        search = (await agent.call_tool("search", {"best": "coding"})).structured_content
        assert search["recommended"]


IMPOSSIBLE: tuple[tuple[str, dict[str, object], str], ...] = (
    ("load", {"model": "nobody"}, "There is no model called 'nobody'"),
    ("pull", {"model": "nobody/nothing"}, "cannot be reached"),
    ("pull", {"modl": "qwen3:8b"}, "unknown field `modl`"),
    ("ask", {"prompt": ""}, "Expected `str` of length >= 1"),
    ("format_disk", {}, "There is no tool 'format_disk'"),
)


@pytest.mark.slow
async def test_what_cannot_be_done_is_a_sentence(client: GatewayClient) -> None:
    del client
    async with stdio_agent() as agent:
        for name, arguments, sentence in IMPOSSIBLE:
            result = await agent.call_tool(name, arguments)
            assert result.is_error, name
            assert sentence in text_of(result)
            assert not (await agent.call_tool("status", {})).is_error


@pytest.mark.slow
async def test_a_server_that_only_reads_has_no_tool_that_changes_anything(client: GatewayClient) -> None:
    del client
    async with stdio_agent("--read-only") as agent:
        assert {tool.name for tool in (await agent.list_tools()).tools} == READ_ONLY
        assert (await agent.call_tool("unload", {"model": "guide"})).is_error


@pytest.mark.slow
async def test_over_http_a_key_that_may_manage_is_needed_and_counts_at_every_request(
    client: GatewayClient, address: str
) -> None:
    key = make_key(client, "agent", Scope.MANAGE, Scope.INFERENCE)
    async with http_agent(address, key.key) as agent:
        assert not (await agent.call_tool("ask", {"prompt": "Hello", "model": "guide", "max_tokens": 4})).is_error
        client.delete(f"/keys/{key.name}")
        with pytest.raises(MCPError):
            await agent.call_tool("status", {})


async def test_over_http_nobody_else_gets_in(client: GatewayClient, address: str, home: Paths) -> None:
    del home
    key = make_key(client, "chatter", Scope.INFERENCE)
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"x-api-key": key.key}, 403),
        ({"Authorization": f"Bearer {client.gateway.token}", "Host": "evil.example"}, 421),
        ({"Authorization": f"Bearer {client.gateway.token}", "Origin": "http://evil.example"}, 403),
    ):
        async with httpx2.AsyncClient(headers=headers) as http:
            reply = await http.post(address, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert reply.status_code == status, (headers, reply.text)
    assert key.name in {known_key.name for known_key in client.get("/keys", list[KeyInfo])}


@pytest.mark.slow
def test_a_port_that_is_taken_is_a_sentence(client: GatewayClient) -> None:
    port = client.gateway.url.rpartition(":")[2]
    result = subprocess.run(
        module_command("app.cli", "mcp", "serve", "--http", port), capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert f"Port {port} cannot be used" in result.stderr
    assert "Traceback" not in result.stderr
