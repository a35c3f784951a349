"""As much of HTTP/1.1 as a fake engine needs: one request per connection, whole or chunked replies."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, read whole."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """Return the body as an object; empty when it is none."""
        try:
            body = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}


class Reply:
    """The way back."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.is_begun = False

    async def whole(self, status: int, document: object) -> None:
        """Send a JSON reply."""
        body = json.dumps(document).encode()
        self._head(status, "application/json", f"Content-Length: {len(body)}")
        self._writer.write(body)
        await self._writer.drain()

    async def begin_stream(self) -> None:
        """Begin a reply of server-sent events."""
        self._head(200, "text/event-stream", "Transfer-Encoding: chunked")
        await self._writer.drain()

    async def piece(self, data: bytes) -> None:
        """Send one chunk."""
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def end_stream(self) -> None:
        """Send the last chunk."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _head(self, status: int, kind: str, length: str) -> None:
        self.is_begun = True
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\n{length}\r\nConnection: close\r\n\r\n"
        self._writer.write(head.encode())


Handler = Callable[[Request, Reply], Coroutine[object, object, None]]


async def serve(handler: Handler, port: int) -> asyncio.Server:
    """Listen on loopback. A handler is cancelled when its client goes away."""

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = await _read(reader)
            await _until_gone(asyncio.create_task(handler(request, Reply(writer))), reader)
        writer.close()

    return await asyncio.start_server(handle_connection, "127.0.0.1", port, backlog=256)


async def _until_gone(work: "asyncio.Task[None]", reader: asyncio.StreamReader) -> None:
    async def watch() -> None:
        await reader.read(1)

    watch_task = asyncio.create_task(watch())
    await asyncio.wait({work, watch_task}, return_when=asyncio.FIRST_COMPLETED)
    watch_task.cancel()
    if not work.done():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method=method, path=path.partition("?")[0], headers=headers, body=body)
