"""Roundhouse's own API as a client sees it, played or as a process; and an engine that writes as the test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import msgspec
import pytest
from aiohttp import web

from app.core.api import PREFIX
from app.core.chats import AnswerDelta, AnswerDone, AnswerEvent, Chat, Message, NewChat, NewTurn, Turn
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.gateway.played import Gateway, Upstream
from tests.gateway_pool import GatewayPool
from tests.patience import PATIENCE_S
from tests.ports import free_port

T = TypeVar("T")


def chunk(content: str = "", **fields: object) -> bytes:
    """One event as llama-server writes it."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice], **fields}, ensure_ascii=False).encode() + b"\n\n"


def reasoning(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"reasoning_content": text}}]}).encode() + b"\n\n"


TIMINGS = {"cache_n": 2, "prompt_n": 8, "prompt_ms": 20.0, "predicted_n": 3, "predicted_ms": 60.0}
LAST = (
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"timings":' + json.dumps(TIMINGS).encode() + b"}\n\n"
    b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3}}\n\n'
    b"data: [DONE]\n\n"
)


class Pen:
    """What the engine writes next: `write` bytes, `end` to close the stream, `drop` to break the connection."""

    def __init__(self) -> None:
        self._next: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.has_begun = asyncio.Event()
        self.breaks = False

    def write(self, *parts: bytes) -> None:
        for part in parts:
            self._next.put_nowait(part)

    def end(self) -> None:
        self._next.put_nowait(None)

    def drop(self) -> None:
        self.breaks = True
        self.end()

    async def play(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.has_begun.set()
        while (part := await self._next.get()) is not None:
            await response.write(part)
        if self.breaks:
            assert request.transport is not None
            request.transport.abort()
        return response


@pytest.fixture
def pen(upstream: Upstream) -> Pen:
    pen = Pen()
    upstream.play = pen.play
    return pen


@dataclass
class Api:
    """Typed calls to the gateway under test."""

    gateway: Gateway
    token: str = "token"

    async def raw(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        sent_headers = {"Authorization": f"Bearer {self.token}", **headers}
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        url = f"{self.gateway.url}{PREFIX}{path}"
        async with self.gateway.http.request(method, url, data=data, headers=sent_headers) as reply:
            return reply.status, await reply.read()

    async def call(self, method: str, path: str, reply: type[T], body: object = None) -> T:
        status, data = await self.raw(method, path, body)
        assert status < 300, data
        return msgspec.json.decode(data, type=reply)

    async def expect_refusal(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Return status and code of an error, having checked its form."""
        status, data = await self.raw(method, path, body)
        error = json.loads(data)
        assert set(error) == {"code", "sentence", "hint", "detail"}
        assert error["sentence"].endswith((".", "?", "!"))
        return status, error["code"]

    @asynccontextmanager
    async def lines(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        headers = {"Authorization": f"Bearer {self.token}"}
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with self.gateway.http.get(self.gateway.url + PREFIX + path, headers=headers, timeout=timeout) as reply:
            assert reply.status == 200, await reply.read()
            yield aiter(reply.content)

    @asynccontextmanager
    async def events(self, path: str, kind: Any) -> AsyncIterator[AsyncIterator[Any]]:  # noqa: ANN401 -- a union of structs
        async with self.lines(path) as lines:
            yield (msgspec.json.decode(line[6:], type=kind) async for line in lines if line.startswith(b"data: "))

    async def chat(self, **fields: Any) -> Chat:  # noqa: ANN401 -- the fields of NewChat
        return await self.call("POST", "/chats", Chat, NewChat(**fields))

    async def read(self, chat: str) -> Chat:
        return await self.call("GET", f"/chats/{chat}", Chat)

    async def ask(self, chat: str, content: str | None = "Why?", *, parent: str | None = None) -> Turn:
        return await self.call("POST", f"/chats/{chat}/turns", Turn, NewTurn(content=content, parent=parent))

    async def stop(self, answer: Message) -> Message:
        return await self.call("POST", f"/chats/{answer.chat}/answers/{answer.id}/stop", Message)

    def follow(self, answer: Message, offset: int = 0) -> AbstractAsyncContextManager[AsyncIterator[AnswerEvent]]:
        return self.events(f"/chats/{answer.chat}/answers/{answer.id}?offset={offset}", AnswerEvent)

    async def follow_answer(self, answer: Message, offset: int = 0) -> tuple[str, Message]:
        """Follow to the end; return the text that came and the finished message."""
        async with self.follow(answer, offset) as events:
            return await text_and_end(events)

    async def read_to_end(self, answer: Message) -> Message:
        return (await self.follow_answer(answer))[1]


@pytest.fixture(scope="module")
def fake_hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as hub:
        yield hub


@pytest.fixture(scope="module")
def real_gateway(tmp_path_factory: pytest.TempPathFactory, fake_hub: FakeHub) -> Iterator[RealGateway]:
    """A process of its own, with its models and a hub."""
    with run_gateway(tmp_path_factory.mktemp("home"), free_port(), hub=fake_hub.url) as gateway:
        yield gateway


@pytest.fixture
def api(gateway: Gateway) -> Api:
    gateway.supervisor.is_loaded = False  # a listener is told first of what runs; most tests want to hear news only
    return Api(gateway)


async def text_and_end(events: AsyncIterator[AnswerEvent]) -> tuple[str, Message]:
    """Read a stream to its end, checking that each piece says where it belongs."""
    text, start = "", None
    async for event in events:
        if isinstance(event, AnswerDelta):
            start = event.offset if start is None else start
            assert event.offset == start + len(text)
            text += event.content
        if isinstance(event, AnswerDone):
            return text, event.message
    raise AssertionError("the stream ended without saying how the answer did")


async def text_until(events: AsyncIterator[AnswerEvent], text_end: str) -> str:
    """Read a stream until its text is `text_end`."""
    text = ""
    while text != text_end:
        event = await anext(events)
        assert not isinstance(event, AnswerDone), event
        text += event.content if isinstance(event, AnswerDelta) else ""
        assert text_end.startswith(text)
    return text


@pytest.fixture(scope="session")
def real_gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayPool[RealGateway]]:
    """Whole gateways over fake engines, for tests that only ask one."""
    pool = GatewayPool(lambda: run_gateway(tmp_path_factory.mktemp("gateway"), free_port()))
    yield pool
    pool.close_all()


@pytest.fixture
def lent_gateway(real_gateways: GatewayPool[RealGateway], monkeypatch: pytest.MonkeyPatch) -> Iterator[RealGateway]:
    """A whole gateway that is as if just started, and the one that the command line finds."""
    with real_gateways.lend_gateway() as gateway:
        monkeypatch.setenv("ROUNDHOUSE_HOME", str(gateway.paths.data.parent))
        yield gateway


@pytest.fixture(scope="module")
def service(real_gateways: GatewayPool[RealGateway]) -> Iterator[RealGateway]:
    """A whole gateway that the tests of one file share."""
    with real_gateways.lend_gateway() as gateway:
        yield gateway
