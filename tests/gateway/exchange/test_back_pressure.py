"""A client that reads nothing: the engine is held up, and next to nothing of its answer is kept here."""

import asyncio
import json
import socket

import pytest
from aiohttp import web

from app.gateway.exchange.client_stream import ClientStream
from tests.gateway.exchange.test_streaming import event
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S

MIB = 1 << 20
LONG = event("word " * 2000)
HELD_UP_S = 0.3


@pytest.fixture
def client_streams(monkeypatch: pytest.MonkeyPatch) -> list[ClientStream]:
    """Return what is written to clients with, as it is made."""
    streams: list[ClientStream] = []
    begin = ClientStream.send_head

    async def open_(stream: ClientStream) -> None:
        streams.append(stream)
        await begin(stream)

    monkeypatch.setattr(ClientStream, "send_head", open_)
    return streams


class Flood:
    """An engine that writes as fast as it can, and never ends."""

    def __init__(self) -> None:
        self.sent_bytes = 0

    async def play(self, request: web.Request) -> web.StreamResponse:
        """Write."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(LONG)
            self.sent_bytes += len(LONG)

    async def held_up(self) -> None:
        """Wait until nothing more is taken of it."""
        async with asyncio.timeout(PATIENCE_S):
            before = -1
            while self.sent_bytes == 0 or self.sent_bytes != before:
                before = self.sent_bytes
                await asyncio.sleep(HELD_UP_S)


@pytest.fixture
def flood(gateway: Gateway) -> Flood:
    flood = Flood()
    gateway.upstream.play = flood.play
    return flood


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/v1/messages", "/v1/responses"])
async def test_a_client_that_reads_nothing_holds_little_here(
    gateway: Gateway, flood: Flood, client_streams: list[ClientStream], path: str
) -> None:
    words = {"input": "Hi"} if path.endswith("responses") else {"messages": [{"role": "user", "content": "Hi"}]}
    body = json.dumps({"model": "guide", "stream": True, "max_tokens": 8, **words}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as client:
        client.settimeout(0.0)
        await loop.sock_sendall(client, head.encode() + body)
        await flood.held_up()
        (stream,) = set(client_streams)
        transport = stream._protocol.transport
        assert transport is not None
        assert stream._protocol.writing_paused
        assert 0 < transport.get_write_buffer_size() <= MIB

        before, read = flood.sent_bytes, 0
        while flood.sent_bytes < before + 4 * MIB:
            read += len(await loop.sock_recv(client, MIB))
        assert read > MIB, "it goes on as soon as the client reads"
