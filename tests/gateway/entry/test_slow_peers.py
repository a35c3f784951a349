"""Clients that hold a place by sending a byte now and then, or say something that is not HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from app.gateway.services import Limits
from tests.gateway.played import Gateway

SOON_S = 20.0
"""Less than the limits that the gateway has by itself."""
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def limits() -> Limits:
    return Limits(head_s=0.3, body_s=0.3)


@contextlib.asynccontextmanager
async def drip_until_end(gateway: Gateway, start: bytes, drop: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Send `start`, then `drop` again and again until the gateway has had enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)

    async def drip() -> None:
        writer.write(start)
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.02)

    dripper = asyncio.create_task(drip())
    try:
        yield reader
    finally:
        dripper.cancel()
        writer.close()


async def test_a_head_that_never_ends_is_cut_off(gateway: Gateway) -> None:
    async with asyncio.timeout(SOON_S), drip_until_end(gateway, HEAD, b"x-a: b\r\n") as reader:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_a_connection_without_a_word_is_closed(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(SOON_S):
        assert await reader.read() == b""
    writer.close()


async def test_a_body_that_never_ends_is_answered_408(gateway: Gateway) -> None:
    head = HEAD + b"Content-Length: 100000\r\n\r\n"
    async with asyncio.timeout(SOON_S), drip_until_end(gateway, head, b" ") as reader:
        assert b" 408 " in await reader.readline()
        rest = await reader.readuntil(b"}}")
        assert b"request_timeout" in rest
        assert b"Connection: close" in rest
    assert gateway.upstream.bodies == []


async def test_what_is_not_http_is_answered_400_and_harms_nobody(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n")
    async with asyncio.timeout(SOON_S):
        assert b" 400 " in await reader.readline()
    writer.close()
    async with gateway.http.get(f"{gateway.url}/health") as reply:
        assert reply.status == 200
