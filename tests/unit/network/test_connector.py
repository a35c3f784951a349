"""aiohttp through the door: new connections are noted under their errand, kept ones serve on, offline none is made."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from app.core.connections import Connection, ConnectionReason, Purpose
from app.core.errors import Offline
from app.network.connector import EgressConnector, OutboundRequest
from app.network.egress import EgressGate

FETCH = Purpose(why=ConnectionReason.ENGINE, about="llama_cpp")
USUAL = Purpose(why=ConnectionReason.ATTACHED)
BODY = b"x" * 50_000


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A server that answers, sends on from /moved, and keeps /held open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/moved":
            raise web.HTTPFound(f"http://localhost:{request.url.port}/")
        if request.path != "/held":
            return web.Response(body=BODY)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await asyncio.Event().wait()  # until the client goes, which cancels us
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
async def http(own_door: EgressGate) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=EgressConnector(USUAL, limit=0)) as session:
        yield session


async def fetch_url(http: aiohttp.ClientSession, url: str) -> None:
    errand = OutboundRequest(FETCH)
    with errand.as_current():
        reply = await http.get(url)
    errand.note_reply(reply)
    await reply.read()
    errand.count_received(reply.content.total_bytes)


def only(door: EgressGate) -> Connection:
    (connection,) = door.take_connections()
    return connection


async def test_an_errand_is_noted_with_what_came(own_door: EgressGate, http: aiohttp.ClientSession, url: str) -> None:
    await fetch_url(http, f"{url}/?token=secret")
    connection = only(own_door)
    assert (connection.host, connection.why, connection.about, connection.count) == (
        "127.0.0.1",
        ConnectionReason.ENGINE,
        "llama_cpp",
        1,
    )
    assert connection.received_bytes == len(BODY)
    assert "secret" not in repr(connection)


async def test_a_connection_kept_alive_is_one(own_door: EgressGate, http: aiohttp.ClientSession, url: str) -> None:
    for _ in range(3):
        await fetch_url(http, url)
    assert only(own_door).count == 1


async def test_a_redirect_to_another_host_is_another(
    own_door: EgressGate, http: aiohttp.ClientSession, url: str
) -> None:
    await fetch_url(http, f"{url}/moved")
    assert {connection.host for connection in own_door.take_connections()} == {"127.0.0.1", "localhost"}


async def test_an_engine_here_is_asked_unnoted_also_offline(
    own_door: EgressGate, http: aiohttp.ClientSession, url: str
) -> None:
    with own_door.apply_policy(is_closed=lambda: True, news=lambda: None):
        async with http.get(url) as reply:
            assert await reply.read() == BODY
    assert own_door.take_connections() == []


async def test_offline_another_computer_is_not_called(own_door: EgressGate, http: aiohttp.ClientSession) -> None:
    with (
        own_door.apply_policy(is_closed=lambda: True, news=lambda: None),
        pytest.raises(Offline, match=r"box\.invalid"),
    ):
        await http.get("http://box.invalid/v1/models")
    assert only(own_door).refused


async def test_what_cannot_be_reached_has_failed(
    own_door: EgressGate, http: aiohttp.ClientSession, unused_port: int
) -> None:
    with pytest.raises(aiohttp.ClientError):
        await fetch_url(http, f"http://127.0.0.1:{unused_port}/")
    connection = only(own_door)
    assert (connection.count, connection.failed) == (1, 1)


async def test_going_offline_ends_what_goes_on(own_door: EgressGate, http: aiohttp.ClientSession, url: str) -> None:
    with OutboundRequest(FETCH).as_current():
        reply = await http.get(f"{url}/held")
    assert await reply.content.readexactly(5) == b"begun"
    own_door.cut_connections()
    with pytest.raises(aiohttp.ClientError):
        await reply.content.readexactly(1)
    reply.close()
