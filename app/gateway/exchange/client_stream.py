"""The client's end of a streamed answer: bytes go to its transport in the turn in which they came from the engine.

While a client waits for the first of them it is sent bytes that mean nothing, so that it does not give up. At first
nothing is sent, so that what goes wrong then has a status of its own. Nearly always the engine is quicker than the
client's patience, and then a timer is all this costs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

from aiohttp import HttpVersion11, hdrs, web

from app.gateway.entry.responses import direct_response, own_headers, response_head
from app.gateway.exchange.connections import ReadFlow

QUIET_S = 5.0
"""Most refusals come sooner, and no client is known to give up sooner."""
EVERY_S = 10.0
"""Reverse proxies close what is silent for 30 to 60 s."""
COMMENT = b": waiting\n\n"
"""Every reader of server-sent events passes over it."""
_OK = 200
_LAST_CHUNK = b"0\r\n\r\n"
SSE_HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream",
    hdrs.CACHE_CONTROL: "no-store",
    "X-Accel-Buffering": "no",
}


class KeepAlivePlan(NamedTuple):
    """What a client is sent: `first` when its stream begins, `alive` now and then while it waits for more.

    A stream whose engine is late begins after `within_s` seconds all the same (None: `QUIET_S`); then `alive` comes
    every `every_s` (`EVERY_S`).
    """

    first: Callable[[], bytes] = bytes
    alive: Callable[[], bytes] = lambda: COMMENT
    within_s: float | None = None
    every_s: float | None = None


class ClientStream:
    """One streamed answer. `cancel` it when its exchange is over; a second for one request goes on where it was."""

    __slots__ = (
        *("_has_begun", "_heartbeat", "_is_over", "_keep_alive", "_keeps_open", "_protocol", "_request", "_timer"),
        *("headers", "is_chunked", "is_open"),
    )

    def __init__(self, request: web.Request, headers: Mapping[str, str], keep_alive: KeepAlivePlan) -> None:
        self.headers = headers
        """Of its head, beside those of every response."""
        self.is_open = request.writer.output_size > 0
        """Whether its head has gone out."""
        self._has_begun = False
        self._request, self._keep_alive, self._protocol = request, keep_alive, request.protocol
        self.is_chunked = request.version >= HttpVersion11
        """Whether it is sent as HTTP's chunks."""
        self._keeps_open = self.is_chunked and request.keep_alive
        within_s = QUIET_S if keep_alive.within_s is None else keep_alive.within_s
        self._timer = asyncio.get_running_loop().call_later(within_s, self._start_keep_alive)
        self._heartbeat: asyncio.Task[None] | None = None
        self._is_over: asyncio.Event | None = None

    async def send_head(self) -> None:
        """Send the head and what comes first, unless that happened while the client waited."""
        self._timer.cancel()
        if self._heartbeat is not None:
            await self.stop_keep_alive()
        if not self._has_begun:
            self._begin()

    def write(self, data: bytes) -> ReadFlow:
        """Send some bytes; nothing to a client that has gone, whose handler is about to be cancelled.

        Returns PAUSE while the client reads more slowly than it is written to.
        """
        protocol = self._protocol
        transport = protocol.transport
        if data and transport is not None and not transport.is_closing():
            transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data)
        return ReadFlow.PAUSE if protocol.writing_paused else ReadFlow.MORE

    def relay(self, chunk: bytes) -> bool:
        """Send a chunk with its frame and return True; False for a client that is behind, or has gone."""
        protocol = self._protocol
        transport = protocol.transport
        if transport is None or protocol.writing_paused or transport.is_closing():
            return False
        transport.write(chunk)
        return True

    async def drain(self) -> None:
        """Wait until the client has caught up. Raises ConnectionError if it has gone."""
        await self._request.writer.drain()

    async def close(self, last: bytes = b"") -> web.StreamResponse:
        """Send what is left, and end the answer."""
        await self.send_head()
        if self.write(last) is ReadFlow.PAUSE:
            await self.drain()
        transport = self._protocol.transport
        if self.is_chunked and transport is not None and not transport.is_closing():
            transport.write(_LAST_CHUNK)
        return direct_response(_OK, keep_alive=self._keeps_open)

    @contextlib.asynccontextmanager
    async def keep_alive(self) -> AsyncIterator[None]:
        """Send signs of life while nothing else is sent; before the stream has begun that is done anyway."""
        if not self._timer.cancelled():
            yield
            return
        every_s = EVERY_S if self._keep_alive.every_s is None else self._keep_alive.every_s
        self._timer = asyncio.get_running_loop().call_later(every_s, self._start_keep_alive)
        try:
            yield
        finally:
            await self.stop_keep_alive()

    async def stop_keep_alive(self) -> bool:
        """Send no more signs of life, what is being sent to its end; return whether the head has gone out."""
        self._timer.cancel()
        if self._heartbeat is not None and self._is_over is not None:
            self._is_over.set()
            with contextlib.suppress(ConnectionError):  # the client has gone: whoever answers it is being cancelled
                await self._heartbeat
        return self.is_open

    def cancel(self) -> None:
        """Stop whatever still goes on."""
        self._timer.cancel()
        if self._heartbeat is not None:
            self._heartbeat.cancel()

    def _begin(self) -> None:
        request, transport = self._request, self._protocol.transport
        if transport is None:
            raise ConnectionResetError
        self._has_begun = True
        if not self.is_open:
            headers = [*self.headers.items(), *own_headers(request)]
            if self.is_chunked:
                headers.append((hdrs.TRANSFER_ENCODING, "chunked"))
            head = response_head(request, _OK, headers, keep_alive=self._keeps_open)
            request.writer.output_size += len(head)  # aiohttp and `entry` see by it that an answer has begun
            self.is_open = True
            transport.write(head)
        if first := self._keep_alive.first():
            self.write(first)

    def _start_keep_alive(self) -> None:
        self._is_over = asyncio.Event()
        self._heartbeat = asyncio.create_task(self._send_keep_alive(self._is_over))

    async def _send_keep_alive(self, is_over: asyncio.Event) -> None:
        if not self._has_begun:
            self._begin()
        every_s = EVERY_S if self._keep_alive.every_s is None else self._keep_alive.every_s
        while not is_over.is_set():
            self.write(self._keep_alive.alive())
            await self.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await is_over.wait()
