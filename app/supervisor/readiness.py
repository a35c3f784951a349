"""Ask an engine whether it can generate, over plain HTTP/1.0 so that no reply comes in chunks.

Engines differ in when they say they are well: some do so while still loading, or for ever after a failed load. The
adapter chooses the question.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from app.core.errors import Offline
from app.supervisor.dialing import open_streams
from engines.api import Readiness, ReadyWhen

OK = HTTPStatus.OK
JSON = "application/json"
REPLY_BYTES = 4 << 20
ANSWER_S = 2.0
"""Time for an answer about itself."""
GENERATE_S = 60.0
"""Time for one token: a first one may compile kernels, or wait for the load it was queued behind."""


class EngineReply(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP answer."""

    status: int
    body: bytes


class EngineEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine listens, and the key it wants."""

    base_url: str
    key: str
    served_name: str

    async def send_request(
        self, method: str, path: str, *, body: bytes = b"", timeout_s: float = ANSWER_S, content_type: str = JSON
    ) -> EngineReply:
        """Exchange one request on a connection of its own. Raises OSError, TimeoutError or ValueError."""
        async with asyncio.timeout(timeout_s):
            return await self._exchange_bytes(method, path, body, content_type)

    async def _exchange_bytes(self, method: str, path: str, body: bytes, content_type: str) -> EngineReply:
        where = urlsplit(self.base_url)
        reader, writer = await open_streams(where)
        try:
            key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
            head = (
                f"{method} {where.path.rstrip('/')}{path} HTTP/1.0\r\n"
                f"Host: {where.netloc}\r\n{key}"
                f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            return await _read_reply(reader)
        finally:
            writer.close()


async def _read_reply(reader: asyncio.StreamReader) -> EngineReply:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ValueError("not an HTTP answer") from error
    status = re.match(r"HTTP/1\.[01] (\d{3})", head)
    if status is None:
        raise ValueError("not an HTTP answer")
    length = re.search(r"\r\ncontent-length:\s*(\d+)", head, re.IGNORECASE)
    size = min(int(length[1]), REPLY_BYTES) if length else REPLY_BYTES
    return EngineReply(status=int(status[1]), body=await _read_up_to(reader, size))


async def _read_up_to(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        return error.partial


class _ModelEntry(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_ModelEntry]


class _Completion(msgspec.Struct):
    choices: list[msgspec.Raw]


async def is_ready(endpoint: EngineEndpoint, readiness: Readiness) -> bool:
    """Ask once. No answer, a refusal, and an answer that makes no sense all mean: not yet."""
    try:
        return await _ASK[readiness.when](endpoint, readiness.path)
    except (OSError, TimeoutError, ValueError, Offline, msgspec.MsgspecError):
        return False


async def _answers_ok(endpoint: EngineEndpoint, path: str) -> bool:
    return (await endpoint.send_request("GET", path)).status == OK


async def _lists_model(endpoint: EngineEndpoint, path: str) -> bool:
    reply = await endpoint.send_request("GET", path)
    models = msgspec.json.decode(reply.body, type=_ModelList).data
    return reply.status == OK and any(model.id == endpoint.served_name for model in models)


async def _accepts_connection(endpoint: EngineEndpoint, _path: str) -> bool:
    async with asyncio.timeout(ANSWER_S):
        _reader, writer = await open_streams(urlsplit(endpoint.base_url))
    writer.close()
    return True


async def computes(endpoint: EngineEndpoint, path: str, *, timeout_s: float) -> bool:
    """Ask for a token; False for an answer that says it failed inside. Raises OSError, TimeoutError or ValueError."""
    reply = await _ask_token(endpoint, path, timeout_s)
    return reply.status < HTTPStatus.INTERNAL_SERVER_ERROR


async def _generates_token(endpoint: EngineEndpoint, path: str) -> bool:
    reply = await _ask_token(endpoint, path, GENERATE_S)
    return reply.status == OK and bool(msgspec.json.decode(reply.body, type=_Completion).choices)


async def _ask_token(endpoint: EngineEndpoint, path: str, timeout_s: float) -> EngineReply:
    prompt = (
        {"messages": [{"role": "user", "content": "Hi"}]} if path.endswith("/chat/completions") else {"prompt": "Hi"}
    )
    body = msgspec.json.encode({"model": endpoint.served_name, "max_tokens": 1, **prompt})
    return await endpoint.send_request("POST", path, body=body, timeout_s=timeout_s)


_ASK: dict[ReadyWhen, Callable[[EngineEndpoint, str], Awaitable[bool]]] = {
    ReadyWhen.HTTP_OK: _answers_ok,
    ReadyWhen.COMPLETION: _generates_token,
    ReadyWhen.MODEL_LISTED: _lists_model,
    ReadyWhen.CONNECTS: _accepts_connection,
}
