"""Bytes that mean nothing, sent now and then to a client that waits for a stream, so that it does not give up.

At first nothing is sent, so that what goes wrong then has a status of its own. Nearly always the engine is quicker than
the client's patience, and then a timer is all this costs; a task would cost each request as much as translating it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiohttp import hdrs, web

QUIET_S = 5.0
"""Most refusals come sooner, and no client is known to give up sooner."""
EVERY_S = 10.0
"""Reverse proxies close what is silent for 30 to 60 s."""
COMMENT = b": waiting\n\n"
"""Every reader of server-sent events passes over it."""
_HEADERS = {hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store", "X-Accel-Buffering": "no"}


class Signs(NamedTuple):
    """What a client is sent while it waits: `head` once, after `within_s` seconds, then `alive` every `every_s`."""

    within_s: float
    every_s: float
    head: Callable[[], bytes]
    alive: Callable[[], bytes]


class Heartbeat:
    """Keeps one client waiting until it is stopped."""

    def __init__(self, request: web.Request, response: web.StreamResponse, signs: Signs) -> None:
        self._request, self._response, self._signs = request, response, signs
        self._timer = asyncio.get_running_loop().call_later(signs.within_s, self._begin)
        self._task: asyncio.Task[None] | None = None
        self._is_over: asyncio.Event | None = None

    async def stop(self) -> web.StreamResponse | None:
        """Send no more, what is being sent to its end; return the response if its head has gone out."""
        self._timer.cancel()
        if self._task is not None and self._is_over is not None:
            self._is_over.set()
            with contextlib.suppress(ConnectionError):  # the client has gone: whoever answers it is being cancelled
                await self._task
        return self._response if self._response.prepared else None

    def _begin(self) -> None:
        self._is_over = asyncio.Event()
        self._task = asyncio.create_task(self._beat(self._is_over))

    async def _beat(self, is_over: asyncio.Event) -> None:
        if not self._response.prepared:
            await self._response.prepare(self._request)
            await self._write(self._signs.head())
        while not is_over.is_set():
            await self._write(self._signs.alive())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._signs.every_s):
                    await is_over.wait()

    async def _write(self, data: bytes) -> None:
        if data:
            await self._response.write(data)


HEARTBEAT = web.RequestKey("heartbeat", Heartbeat)


def patient(request: web.Request, ping: bytes) -> Heartbeat:
    """Return what keeps the client of a stream of events waiting; `ping` means nothing in its dialect."""
    signs = Signs(within_s=QUIET_S, every_s=EVERY_S, head=bytes, alive=lambda: ping)
    return Heartbeat(request, web.StreamResponse(headers=_HEADERS), signs)


async def begun(request: web.Request, status: int, headers: Mapping[str, str]) -> web.StreamResponse:
    """Return an answer whose head has gone out: now, or while its client was kept waiting."""
    heartbeat: Heartbeat | None = request.get(HEARTBEAT)
    held = None if heartbeat is None else await heartbeat.stop()
    if held is not None:
        return held
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    return response
