"""The relay: a foreign program comes out through it, is noted, and offline gets nowhere."""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.connections import ConnectionReason, Program, Purpose
from app.network import relay
from app.network.egress import EgressGate
from app.network.relay import _parse_proxy_request, relay_environment

INSTALL = Purpose(why=ConnectionReason.ENGINE, about="vllm", by=Program.INSTALLER)
GREETING = b"hello from outside"
PATIENCE_S = 60.0


@pytest.fixture
async def outside(own_door: EgressGate) -> AsyncIterator[int]:
    """A server that greets and repeats what it is told; returns its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        while piece := await reader.read(1000):
            writer.write(piece)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def open_tunnel(
    environment: Mapping[str, str], head: str, *, word: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(environment["HTTPS_PROXY"])
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    user = base64.b64encode(f"{where.username}:{word or where.password}".encode()).decode()
    writer.write(f"{head}\r\nProxy-Authorization: Basic {user}\r\n\r\n".encode())
    return reader, writer


async def test_a_tunnel_carries_bytes_both_ways_and_is_noted(own_door: EgressGate, outside: int) -> None:
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL) as environment:
        reader, writer = await open_tunnel(environment, f"CONNECT 127.0.0.1:{outside} HTTP/1.1")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(len(GREETING)) == GREETING
        writer.write(b"and back")
        writer.write_eof()
        assert await reader.read() == b"and back"
        writer.close()
    (connection,) = own_door.take_connections()
    assert (connection.host, connection.port, connection.about, connection.by) == (
        "127.0.0.1",
        outside,
        "vllm",
        Program.INSTALLER,
    )
    assert (connection.count, connection.received_bytes) == (1, len(GREETING) + len(b"and back"))


async def test_a_plain_request_is_passed_on_without_the_word(own_door: EgressGate, outside: int) -> None:
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL) as environment:
        reader, writer = await open_tunnel(
            environment, f"GET http://127.0.0.1:{outside}/simple/?a=1 HTTP/1.1\r\nHost: x"
        )
        assert await reader.readexactly(len(GREETING)) == GREETING
        passed_on = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert passed_on == b"GET /simple/?a=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert own_door.take_connections()[0].port == outside


async def test_who_does_not_know_the_word_gets_nowhere(own_door: EgressGate, outside: int) -> None:
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL) as environment:
        reader, writer = await open_tunnel(environment, f"CONNECT 127.0.0.1:{outside} HTTP/1.1", word="guessed")
        assert b" 407 " in await reader.read()
        writer.close()
    assert own_door.take_connections() == []


async def test_closing_the_door_ends_tunnels_and_lets_none_begin(own_door: EgressGate, outside: int) -> None:
    is_closed = False
    async with asyncio.timeout(PATIENCE_S):
        with own_door.apply_policy(is_closed=lambda: is_closed, news=lambda: None):
            async with relay_environment(INSTALL) as environment:
                reader, writer = await open_tunnel(environment, f"CONNECT 127.0.0.1:{outside} HTTP/1.1")
                await reader.readuntil(GREETING)
                is_closed = True
                own_door.cut_connections()
                assert await reader.read() == b""
                writer.close()
                reader, writer = await open_tunnel(environment, f"CONNECT 127.0.0.1:{outside} HTTP/1.1")
                assert b" 403 " in await reader.read()
                writer.close()
    assert {connection.refused for connection in own_door.take_connections()} == {True, False}


async def test_offline_a_program_is_told_not_to_try(own_door: EgressGate) -> None:
    with own_door.apply_policy(is_closed=lambda: True, news=lambda: None):
        async with relay_environment(INSTALL) as environment:
            assert environment == {"UV_OFFLINE": "1"}


async def test_nobody_there_is_said_and_noted(own_door: EgressGate, unused_port: int) -> None:
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL) as environment:
        reader, writer = await open_tunnel(environment, f"CONNECT 127.0.0.1:{unused_port} HTTP/1.1")
        assert b" 502 " in await reader.read()
        writer.close()
    assert own_door.take_connections()[0].failed == 1


async def test_a_proxy_of_a_persons_own_is_used_as_it_is(own_door: EgressGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    async with relay_environment(INSTALL) as environment:
        assert environment == {}
    (connection,) = own_door.take_connections()
    assert (connection.host, connection.port) == ("proxy.example", 3128)


async def test_a_foreign_program_comes_out_through_it(own_door: EgressGate, outside: int) -> None:
    """As uv and pip do: with nothing but the environment."""
    fetch = "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=50)"
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL) as environment:
        open_to_all = {**environment, "NO_PROXY": ""}
        url = f"http://127.0.0.1:{outside}/"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", fetch, url, env=open_to_all, stderr=asyncio.subprocess.DEVNULL
        )
        assert await child.wait() == 1, "what greets is no web server"
    assert own_door.take_connections()[0].port == outside


@given(st.binary(max_size=200))
def test_any_head_is_understood_or_refused(head: bytes) -> None:
    try:
        asked_for = _parse_proxy_request(head)
    except ValueError:
        return
    assert asked_for.port >= 0


def unreachable(*_address: object) -> None:
    raise OSError("no network")


async def test_a_host_that_cannot_be_reached_is_told_unless_another_was(
    own_door: EgressGate, outside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[str] = []
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL, changes.append) as environment:
        reader, writer = await open_tunnel(environment, f"CONNECT 127.0.0.1:{outside} HTTP/1.1")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.close()
        with monkeypatch.context() as patch:
            patch.setattr(relay, "connect_soon", unreachable)
            reader, writer = await open_tunnel(environment, "CONNECT index.example:443 HTTP/1.1")
            assert b" 502 " in await reader.read()
            writer.close()
    assert changes == []
    monkeypatch.setattr(relay, "connect_soon", unreachable)
    async with asyncio.timeout(PATIENCE_S), relay_environment(INSTALL, changes.append) as environment:
        reader, writer = await open_tunnel(environment, "CONNECT index.example:443 HTTP/1.1")
        assert b" 502 " in await reader.read()
        writer.close()
    assert changes == ["index.example"]
    assert [connection.failed for connection in own_door.take_connections() if connection.host == "index.example"] == [
        2
    ]
