"""Servers of tools that ask a person to sign in: the page, the browser's return, and what is kept of it."""

import asyncio
import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from yarl import URL

from app.config.paths import Paths
from app.core.mcp import McpServer, McpServerSettings, McpServerState
from app.gateway.mcp import host
from app.gateway.mcp.servers import McpServers
from tests.fake_mcp import oauth_server
from tests.gateway.admin.conftest import Api
from tests.gateway.admin.test_mcp import add, call, start, wait_for
from tests.patience import PATIENCE_S
from tests.ports import free_port

Begin = Callable[..., Awaitable[str]]


def start_process(*faults: str) -> "tuple[subprocess.Popen[bytes], int]":
    """Return a server's process, and the port that it will listen on."""
    port = free_port()
    return subprocess.Popen([sys.executable, oauth_server.__file__, str(port), *faults]), port


@pytest.fixture(scope="module")
def plain_port() -> Iterator[int]:
    """The port of a server without faults: a start takes one and a half seconds of a processor."""
    process, port = start_process()
    yield port
    process.kill()
    process.wait()


@pytest.fixture
async def begin(plain_port: int) -> AsyncIterator[Begin]:
    """Have a server listen, one of the test's own if it has faults, and return its address."""
    processes: list[subprocess.Popen[bytes]] = []

    async def begin_server(*faults: str) -> str:
        port = plain_port
        if faults:
            process, port = await asyncio.to_thread(start_process, *faults)
            processes.append(process)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return f"http://127.0.0.1:{port}/mcp"

    yield begin_server
    for process in processes:
        process.kill()
        process.wait()


@asynccontextmanager
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session:
        yield session


async def visit(page: str) -> str:
    """Open a page as a browser does, and return what the last page says."""
    async with browser() as session, session.get(URL(page, encoded=True)) as reply:
        return await reply.text()


@pytest.mark.slow
async def test_a_person_signs_in_at_the_servers_page(api: Api, paths: Paths, begin: Begin) -> None:
    url = await begin()
    await add(api, "guarded", McpServerSettings(url=url))
    waiting_server = await start(api, "guarded")
    assert waiting_server.state is McpServerState.SIGN_IN
    assert waiting_server.sign_in_url.startswith(url.removesuffix("mcp") + "authorize?")
    refusal = await api.expect_refusal("POST", "/mcp/servers/guarded/tools/whoami/call", {"arguments": {}})
    assert refusal == (409, "mcp_sign_in")
    assert (await start(api, "guarded")).sign_in_url == waiting_server.sign_in_url, "it goes on waiting"
    assert "You are signed in" in await visit(waiting_server.sign_in_url)
    await wait_for(lambda: api.call("GET", "/mcp/servers/guarded", McpServer), McpServerState.READY)
    assert (await call(api, "guarded", "whoami")).text == "a friend"
    server = await api.call("GET", "/mcp/servers/guarded", McpServer)
    assert server.sign_in_url == ""
    await what_is_kept_signs_in_again(api, paths, url)


async def what_is_kept_signs_in_again(api: Api, paths: Paths, url: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not paths.mcp_sign_ins_file.exists():  # noqa: ASYNC110 -- written in a thread
            await asyncio.sleep(0.02)
    assert stat.S_IMODE(paths.mcp_sign_ins_file.stat().st_mode) == 0o600
    again = McpServers(paths, api.gateway.services.events)
    assert (await again.start_server("guarded")).state is McpServerState.READY
    await again.close()
    await api.call("POST", "/mcp/servers", McpServer, {"name": "guarded", "settings": {"url": f"{url}?other"}})
    other = McpServers(paths, api.gateway.services.events)
    assert (await other.start_server("guarded")).state is McpServerState.SIGN_IN, "another address gets none of it"
    await other.close()
    assert (await api.raw("DELETE", "/mcp/servers/guarded"))[0] == 204
    assert json.loads(paths.mcp_sign_ins_file.read_bytes()) == {}


@pytest.mark.slow
async def test_tokens_that_ran_out_are_renewed(api: Api, paths: Paths, begin: Begin) -> None:
    await add(api, "guarded", McpServerSettings(url=await begin("expires")))
    await visit((await start(api, "guarded")).sign_in_url)
    await wait_for(lambda: api.call("GET", "/mcp/servers/guarded", McpServer), McpServerState.READY)
    first = paths.mcp_sign_ins_file.read_bytes() if paths.mcp_sign_ins_file.exists() else b""
    await asyncio.sleep(2.0)
    assert (await call(api, "guarded", "whoami")).text == "a friend"
    async with asyncio.timeout(PATIENCE_S):
        while paths.mcp_sign_ins_file.read_bytes() == first:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_who_refuses_is_not_signed_in(api: Api, begin: Begin) -> None:
    await add(api, "guarded", McpServerSettings(url=await begin("refuses")))
    page = await visit((await start(api, "guarded")).sign_in_url)
    assert "You are not signed in" in page
    await wait_for(lambda: api.call("GET", "/mcp/servers/guarded", McpServer), McpServerState.FAILED)
    assert "access_denied" in (await api.call("GET", "/mcp/servers/guarded", McpServer)).problem


@pytest.mark.slow
async def test_nobody_else_can_come_back_for_the_person(api: Api, begin: Begin) -> None:
    await add(api, "guarded", McpServerSettings(url=await begin()))
    page = URL((await start(api, "guarded")).sign_in_url, encoded=True)
    back = page.query["redirect_uri"]
    async with browser() as session:
        async with session.get(back.replace("/callback", "/other")) as reply:
            assert reply.status == 404
        async with session.post(back, data={"code": "x"}) as reply:
            assert reply.status == 404
        async with session.get(f"{back}?code=stolen&state=made-up") as reply:
            await reply.read()
    await wait_for(lambda: api.call("GET", "/mcp/servers/guarded", McpServer), McpServerState.FAILED)


@pytest.mark.slow
async def test_who_waits_too_long_is_told(api: Api, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SIGN_IN_S", 0.2)
    await add(api, "guarded", McpServerSettings(url=await begin()))
    await start(api, "guarded")
    await wait_for(lambda: api.call("GET", "/mcp/servers/guarded", McpServer), McpServerState.FAILED)
    assert (await api.call("GET", "/mcp/servers/guarded", McpServer)).problem == "Nobody signed in to guarded."


@pytest.mark.slow
async def test_a_header_of_the_persons_own_is_used_instead(api: Api, begin: Begin) -> None:
    settings = McpServerSettings(url=await begin(), headers={"authorization": "Bearer wrong"})
    await add(api, "guarded", settings)
    status, body = await api.raw("POST", "/mcp/servers/guarded/start")
    assert (status, b"sign_in_url" in body) == (502, False)
