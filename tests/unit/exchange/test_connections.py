"""A connection to an engine, before and after there is one: what comes over it piece by piece, and how it ends."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import pytest

from app.core.errors import EngineFailed
from app.gateway.exchange.connections import (
    Address,
    EngineConnection,
    EngineConnections,
    EngineDisconnected,
    ReadFlow,
    Take,
    address_of,
)
from app.supervisor.dialing import DialTarget, send_at_once
from app.supervisor.lease import ReadyEndpoint
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from app.supervisor.pool import Supervisor

OURS = address_of("http://127.0.0.1:1")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class PlayedTransport:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.calls: list[str] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.is_aborted = True


class Exchange:
    """A connection over such a transport, to which a request was sent."""

    def __init__(self, body: bytes = b"") -> None:
        self.released_connections: list[EngineConnection] = []
        self.transport = PlayedTransport()
        self.connection = EngineConnection(OURS, self.released_connections.append, set())
        self.connection.connection_made(cast("asyncio.Transport", self.transport))
        self.head = asyncio.ensure_future(self.connection.send_request(b"POST / HTTP/1.1\r\n\r\n", body))

    async def come(self, *pieces: bytes) -> "Exchange":
        """Have these come from the engine, once the request is written."""
        await asyncio.sleep(0)
        for piece in pieces:
            self.connection.data_received(piece)
        return self


def taking_into(pieces: list[bytes]) -> Take:
    """Return what keeps each piece and wants more."""

    def take_piece(piece: bytes) -> ReadFlow:
        pieces.append(piece)
        return ReadFlow.MORE

    return take_piece


async def test_a_connection_that_is_not_there_takes_no_request() -> None:
    connection = EngineConnection(OURS, lambda _: None, set())
    with pytest.raises(EngineDisconnected, match="closed"):
        await connection.send_request(b"GET / HTTP/1.1\r\n\r\n", b"")


@pytest.mark.parametrize("cut", [1, 10, len(HEAD) - 1, len(HEAD), len(HEAD) + 2])
async def test_an_answer_is_the_same_wherever_it_is_cut(cut: int) -> None:
    answer = HEAD + b"body"
    exchange = await Exchange().come(answer[:cut], answer[cut:])
    assert (await exchange.head).headers["content-type"] == "a/b"
    assert exchange.connection.take_whole() == b"body"
    exchange.connection.close()
    assert exchange.released_connections == [exchange.connection]


async def test_only_a_whole_answer_that_nobody_has_begun_to_take_is_taken_whole() -> None:
    half = await Exchange().come(HEAD, b"bo")
    assert half.connection.take_whole() is None
    begun_exchange = await Exchange().come(HEAD, b"bo")
    pieces: list[bytes] = []
    begun_exchange.connection.deliver_to(taking_into(pieces))
    await begun_exchange.come(b"dy")
    assert begun_exchange.connection.take_whole() is None
    assert (pieces, begun_exchange.connection.is_over) == ([b"bo", b"dy"], True)
    many = await Exchange().come(CHUNKED, b"4\r\nwhol\r\n", b"1\r\ne\r\n0\r\n\r\n")
    assert many.connection.take_whole() == b"whole"
    assert many.connection.is_over


async def test_what_waits_for_long_stops_the_engine_until_it_is_taken() -> None:
    size = 300 * 1024
    exchange = await Exchange().come(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, b"x" * (256 * 1024))
    assert exchange.transport.calls == []
    await exchange.come(b"x")
    assert (exchange.transport.calls, exchange.connection.is_paused) == (["pause"], True)
    assert exchange.connection.take_whole() is None
    pieces: list[bytes] = []
    exchange.connection.deliver_to(taking_into(pieces))
    assert (exchange.transport.calls, exchange.connection.is_paused) == (["pause", "resume"], False)
    assert len(pieces[0]) == 256 * 1024 + 1


async def test_whoever_takes_may_pause_or_end_an_answer() -> None:
    exchange = await Exchange().come(CHUNKED)
    flows = iter([ReadFlow.MORE, ReadFlow.PAUSE, ReadFlow.END])
    exchange.connection.deliver_to(lambda _piece: next(flows))
    await exchange.come(b"1\r\na\r\n")
    assert not exchange.connection.is_paused
    await exchange.come(b"1\r\nb\r\n")
    assert exchange.connection.is_paused
    await asyncio.wait_for(exchange.connection.wait_for_change(), 5)
    exchange.connection.resume_reading()
    assert not exchange.connection.is_over
    await exchange.come(b"1\r\nc\r\n")
    assert exchange.connection.is_over
    exchange.connection.raise_error()
    exchange.connection.close()
    assert not exchange.transport.is_aborted, "the engine may still end its answer as HTTP wants"
    await exchange.come(b"0\r\n\r\n")
    assert exchange.released_connections == [exchange.connection]


async def test_what_is_raised_by_whoever_takes_ends_the_answer() -> None:
    exchange = await Exchange().come(HEAD)

    def refuse(_piece: bytes) -> ReadFlow:
        raise EngineFailed("Nonsense.")

    exchange.connection.deliver_to(refuse)
    await exchange.come(b"bo")
    assert (exchange.connection.is_over, exchange.transport.is_aborted) == (True, True)
    with pytest.raises(EngineFailed, match="Nonsense"):
        exchange.connection.raise_error()


async def test_a_connection_that_ends_before_its_answer_says_so_to_whoever_waits() -> None:
    silent = await Exchange().come()
    silent.connection.connection_lost(None)
    with pytest.raises(EngineDisconnected):
        await silent.head
    half = await Exchange().come(HEAD, b"bo")
    half.connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(EngineDisconnected, match="reset"):
        half.connection.raise_error()
    assert not half.connection.is_open
    until_the_end = await Exchange().come(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"all")
    until_the_end.connection.connection_lost(None)
    until_the_end.connection.raise_error()
    assert until_the_end.connection.take_whole() == b"all"


async def test_what_is_no_http_is_said_and_what_nobody_asked_for_ends_the_connection() -> None:
    nonsense = await Exchange().come(b"220 mail.example ESMTP\r\n\r\n")
    with pytest.raises(EngineFailed, match="not HTTP"):
        await nonsense.head
    connection, transport = EngineConnection(OURS, lambda _: None, set()), PlayedTransport()
    connection.connection_made(cast("asyncio.Transport", transport))
    connection.data_received(HEAD)
    assert transport.is_aborted


async def test_an_answer_that_is_left_half_taken_ends_the_connection() -> None:
    half = await Exchange().come(HEAD, b"bo")
    half.connection.close()
    assert (half.transport.is_aborted, half.released_connections) == (True, [])
    more = await Exchange().come(HEAD, b"body and more")
    assert more.connection.take_whole() == b"body"
    more.connection.close()
    assert (more.transport.is_aborted, more.released_connections) == (True, []), "what follows is nobody's answer"


async def test_a_large_body_is_written_in_pieces_as_the_engine_reads() -> None:
    size = 256 * 1024
    at_once = Exchange(b"x" * size)
    await at_once.come()
    assert [len(piece) for piece in at_once.transport.writes] == [len(b"POST / HTTP/1.1\r\n\r\n") + size]
    piecewise = Exchange(b"x" * (size + 5))
    piecewise.connection.pause_writing()
    await piecewise.come()
    assert len(piecewise.transport.writes) == 1, "the head alone"
    piecewise.connection.resume_writing()
    await piecewise.come()
    await asyncio.sleep(0)
    assert [len(piece) for piece in piecewise.transport.writes[1:]] == [size, 5]
    for exchange in (at_once, piecewise):
        exchange.head.cancel()


async def test_a_relay_is_asked_wherever_a_chunk_begins_and_nowhere_else() -> None:
    exchange = await Exchange().come(CHUNKED + b"1\r\na\r\n")
    pieces: list[bytes] = []
    offers: list[bytes] = []

    def relay(data: bytes) -> bool:
        offers.append(data)
        return data.startswith(b"2")

    exchange.connection.deliver_to(taking_into(pieces), relay)
    await exchange.come(b"2\r\nbb\r\n", b"5\r\nc", b"2\r\n", b"d", b"\r\n", b"2\r\nee\r\n", b"0\r\n\r\n")
    assert offers == [b"2\r\nbb\r\n", b"5\r\nc", b"2\r\nee\r\n", b"0\r\n\r\n"]
    assert pieces == [b"a", b"c", b"2\r\n", b"d"]
    assert exchange.connection.is_over


async def test_a_relay_is_asked_no_more_once_the_answer_was_broken_off() -> None:
    exchange = await Exchange().come(CHUNKED)
    offers: list[bytes] = []

    def relay(data: bytes) -> bool:
        offers.append(data)
        return True

    exchange.connection.deliver_to(taking_into([]), relay)
    exchange.connection.break_off()
    await exchange.come(b"1\r\na\r\n")
    assert offers == []


class PlayedEngine(asyncio.Protocol):
    """Answers every request alike, and notes what came over each connection."""

    def __init__(self, came: list[bytearray]) -> None:
        self._came = came
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._came.append(bytearray())
        self._request = self._came[-1]

    def data_received(self, data: bytes) -> None:
        self._request += data
        self.transport.write(HEAD + b"body")


@pytest.fixture
async def engine() -> AsyncIterator[tuple[str, list[bytearray]]]:
    """Return where an engine listens, and what comes over each of its connections."""
    came: list[bytearray] = []
    server = await asyncio.get_running_loop().create_server(lambda: PlayedEngine(came), "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    server.close()


class PlayedSupervisor:
    """Has one engine, which is free if it has an address."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def free_endpoint(self, model: str) -> ReadyEndpoint | None:
        return ReadyEndpoint(model=model, engine="llama.cpp", base_url=self.base_url, key="") if self.base_url else None


def dial_ahead(connections: EngineConnections, base_url: str = "") -> None:
    connections.dial_ahead(cast("Supervisor", PlayedSupervisor(base_url)), "guide")


async def pass_request(connections: EngineConnections, base_url: str, request: bytes) -> bytes:
    """Return the answer's body to a request that goes out with its connection."""
    connection = await connections.connect(address_of(base_url), request)
    head = await connection.send_request(request, b"")
    assert head.status == 200
    pieces: list[bytes] = []
    connection.deliver_to(taking_into(pieces))
    await connection.wait_for_change()
    connection.abort()
    return b"".join(pieces)


@pytest.mark.skipif(sys.platform == "win32", reason="a socket is not handed to the loop there")
async def test_a_connection_dialed_ahead_takes_the_next_request_and_no_other(
    engine: tuple[str, list[bytearray]],
) -> None:
    base_url, came = engine
    connections = EngineConnections(1.0)
    for _ in range(2):  # the second finds the first
        dial_ahead(connections, base_url)
    async with asyncio.timeout(PATIENCE_S):
        assert await pass_request(connections, base_url, b"first") == b"body"
        assert await pass_request(connections, base_url, b"second") == b"body"
    assert came == [b"first", b"second"]
    connections.close()


async def test_a_connection_dialed_ahead_and_not_used_is_closed(engine: tuple[str, list[bytearray]]) -> None:
    base_url, came = engine
    connections = EngineConnections(1.0)
    dial_ahead(connections, base_url)
    connections._close_idle()
    assert not connections._sockets
    dial_ahead(connections, base_url)
    connections.close()
    assert not connections._sockets
    assert await pass_request(connections, base_url, b"later") == b"body"
    assert bytearray(b"later") in came


async def test_nobody_is_dialed_ahead_elsewhere_and_where_nobody_listens_the_request_says_so() -> None:
    connections = EngineConnections(1.0)
    dial_ahead(connections)
    for base_url in ("http://far.example:80", "https://127.0.0.1:1"):
        dial_ahead(connections, base_url)
    assert not connections._sockets
    dial_ahead(connections, "http://127.0.0.1:1")  # nobody does
    with pytest.raises(ConnectionRefusedError):
        await connections.connect(OURS, b"request")
    connections.close()


def test_a_dialed_connection_that_the_engine_closed_takes_no_request() -> None:
    near, far = socket.socketpair()
    far.close()
    with near, pytest.raises(ConnectionError):
        send_at_once(near, b"request")
    assert near.fileno() == -1


def test_half_a_request_is_not_sent() -> None:
    near, far = socket.socketpair()
    near.settimeout(0.0)
    with near, far:
        assert not send_at_once(near, b"x" * (8 << 20))
        assert near.fileno() == -1


async def test_connections_to_others_are_cut_and_those_to_ours_stay() -> None:
    far = Address(DialTarget("far.example", 80, is_tls=False), b"", b"far.example", is_ours=False)
    connections = EngineConnections(1.0)
    transports = {}
    for address in (OURS, far):
        connection, transports[address] = (
            EngineConnection(address, lambda _: None, connections._open),
            PlayedTransport(),
        )
        connection.connection_made(cast("asyncio.Transport", transports[address]))
    connections.cut_connections()
    assert (transports[OURS].is_aborted, transports[far].is_aborted) == (False, True)
    assert [each.address for each in connections.open_to(OURS)] == [OURS]
    assert connections.open_to(far) == []
    connections.close()
    assert transports[OURS].is_aborted


@pytest.mark.parametrize(
    ("url", "prefix", "netloc", "is_ours"),
    [
        ("http://127.0.0.1:8080", b"", b"127.0.0.1:8080", True),
        ("https://127.0.0.1:8080/v1/", b"/v1", b"127.0.0.1:8080", False),
        ("http://localhost:1", b"", b"localhost:1", False),
        ("http://name:word@far.example/api", b"/api", b"far.example", False),
    ],
)
def test_an_address_has_a_prefix_and_a_name_without_secrets(
    url: str, prefix: bytes, netloc: bytes, *, is_ours: bool
) -> None:
    address = address_of(url)
    assert (address.prefix, address.netloc, address.is_ours) == (prefix, netloc, is_ours)


async def test_who_waits_to_write_is_told_that_the_connection_is_gone() -> None:
    connection = EngineConnection(OURS, lambda _: None, set())
    connection.connection_made(cast("asyncio.Transport", PlayedTransport()))
    connection.pause_writing()
    send_task = asyncio.ensure_future(connection.send_request(b"POST / HTTP/1.1\r\n\r\n", b"x" * 1_000_000))
    await asyncio.sleep(0)
    connection.connection_lost(None)
    with pytest.raises(EngineDisconnected):
        await send_task
