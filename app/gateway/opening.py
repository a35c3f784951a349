"""The beginning of a stream: the engine's first events as they come, and a sign of life to the client if they are late.

Nearly always the engine is quicker than the client's patience, and then a timer is all this costs; a task for it would
cost every request as much as translating it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from aiohttp import web

from app.gateway.dialects.canonical import Event
from app.gateway.translated import Batches

HEAD_WITHIN_S = 30.0
"""By then a stream's head is sent although the model still loads: clients give up on a silent server (Cline: 300 s)."""


class Signs(NamedTuple):
    """What a client is sent while it waits: `head` once, after `within_s` seconds, then `alive` every `every_s`."""

    head: Callable[[], bytes]
    alive: Callable[[], bytes]
    every_s: float
    within_s: float | None = None
    """None is `HEAD_WITHIN_S`."""


async def first_of(
    batches: Batches, request: web.Request, response: web.StreamResponse, signs: Signs
) -> Sequence[Event]:
    """Return the first events. The response's head has gone out (`response.prepared`) if they were late.

    Raises what the engine's refusal is, or why there is none.
    """
    waiting = _Waiting(request, response, signs)
    try:
        return await anext(batches, ())
    finally:
        await waiting.end()


class _Waiting:
    """Sends the signs from when they are due until it is ended."""

    def __init__(self, request: web.Request, response: web.StreamResponse, signs: Signs) -> None:
        self._request, self._response, self._signs = request, response, signs
        within_s = HEAD_WITHIN_S if signs.within_s is None else signs.within_s
        self._timer = asyncio.get_running_loop().call_later(within_s, self._begin)
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def end(self) -> None:
        """Send no more; what is being sent is sent to its end."""
        self._timer.cancel()
        if self._task is not None:
            self._over.set()
            with contextlib.suppress(ConnectionError):  # the client has gone: whoever answers it is being cancelled
                await self._task

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        if not self._response.prepared:
            await self._response.prepare(self._request)
            await self._write(self._signs.head())
        while not self._over.is_set():
            await self._write(self._signs.alive())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._signs.every_s):
                    await self._over.wait()

    async def _write(self, data: bytes) -> None:
        if data:
            await self._response.write(data)
