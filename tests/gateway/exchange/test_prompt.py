"""Requests to engines go out in the turn in which they were asked for; what the socket does not take follows."""

import asyncio
import io
import socket
import threading
from collections.abc import AsyncIterator

import aiohttp
import pytest

from app.gateway.exchange.prompt import PromptRequest

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
LARGE = b"x" * (8 << 20)
"""More than sockets hold."""
SOON_S = 10.0


class Engine:
    """Reads whole requests, once it `may_read`."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.bodies: list[bytes] = []
        self.hangs_up = False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answered(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self.may_read.wait()
            if self.hangs_up:
                writer.transport.abort()
                return
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self.bodies.append(await reader.readexactly(size))
            writer.write(REPLY)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
async def url(engine: Engine) -> AsyncIterator[str]:
    server = await asyncio.start_server(engine.answer, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    engine.may_read.set()
    server.close()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(request_class=PromptRequest) as session:
        yield session


async def test_it_is_written_before_anybody_else_has_a_turn(http: aiohttp.ClientSession) -> None:
    arrived, seen = threading.Event(), list[bool]()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = asyncio.create_task(asyncio.to_thread(_answer_two, listening, arrived))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        async with http.post(url, data=b"a connection is there") as reply:
            await reply.read()
        arrived.clear()
        asyncio.get_running_loop().call_soon(lambda: seen.append(arrived.wait(SOON_S)))  # nobody else has a turn
        async with http.post(url, data=b"hello") as reply:
            assert await reply.read() == b"OK"
        await answering
    assert seen == [True]


def _answer_two(listening: socket.socket, arrived: threading.Event) -> None:
    connection, _ = listening.accept()
    with connection, connection.makefile("rb") as incoming:
        for _ in range(2):
            size = 0
            while (line := incoming.readline()) != b"\r\n":
                size = int(line[15:]) if line.lower().startswith(b"content-length:") else size
            incoming.read(size)
            arrived.set()
            connection.sendall(REPLY)


async def test_what_the_socket_does_not_take_follows(http: aiohttp.ClientSession, url: str, engine: Engine) -> None:
    engine.may_read.clear()
    asking = asyncio.create_task(_asked(http, url))
    done, _ = await asyncio.wait({asking}, timeout=0.05)
    assert not done, "nobody reads yet"
    engine.may_read.set()
    assert await asking == b"OK"
    assert engine.bodies == [LARGE]


async def test_whoever_is_cancelled_while_writing_leaves_nothing_behind(
    http: aiohttp.ClientSession, url: str, engine: Engine
) -> None:
    engine.may_read.clear()
    before = asyncio.all_tasks()
    asking = asyncio.create_task(_asked(http, url))
    await asyncio.wait({asking}, timeout=0.05)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled()
    engine.may_read.set()
    async with asyncio.timeout(SOON_S):
        while asyncio.all_tasks() > before:  # noqa: ASYNC110 -- tasks of aiohttp's own, which tell nobody
            await asyncio.sleep(0.01)
    assert engine.bodies == []


async def test_a_connection_that_breaks_while_writing_is_told(
    http: aiohttp.ClientSession, url: str, engine: Engine
) -> None:
    engine.may_read.clear()
    asking = asyncio.create_task(_asked(http, url))
    await asyncio.wait({asking}, timeout=0.05)
    engine.hangs_up = True
    engine.may_read.set()
    with pytest.raises(aiohttp.ClientError):
        await asking


async def _asked(http: aiohttp.ClientSession, url: str) -> bytes:
    """Send in pieces, as what is large is sent."""
    async with http.post(url, data=io.BytesIO(LARGE)) as reply:
        return await reply.read()
