"""Bytes that mean nothing, sent now and then to a client that waits for a stream, so that it does not give up.

For the first seconds nothing is sent, so that what goes wrong then has a status of its own.
"""

import asyncio
from collections.abc import Mapping

from aiohttp import hdrs, web

QUIET_S = 5.0
"""Most refusals come sooner, and no client is known to give up sooner."""
EVERY_S = 10.0
"""Reverse proxies close what is silent for 30 to 60 s."""
COMMENT = b": waiting\n\n"
"""Every reader of server-sent events passes over it."""
_HEADERS = {hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store", "X-Accel-Buffering": "no"}


class Heartbeat:
    """Keeps one client waiting until it is stopped. `ping` means nothing in its dialect."""

    def __init__(self, request: web.Request, ping: bytes) -> None:
        self._request = request
        self._ping = ping
        self._held: web.StreamResponse | None = None
        self._stopped = asyncio.Event()
        self._beating = asyncio.create_task(self._beat())

    async def stop(self) -> web.StreamResponse | None:
        """Stop, and return the answer whose head has gone out, if it has. Raises ConnectionError for a client gone."""
        self._stopped.set()
        await self._beating
        return self._held

    async def _beat(self) -> None:
        if await self._is_stopped(within_s=QUIET_S):
            return
        response = web.StreamResponse(headers=_HEADERS)
        await response.prepare(self._request)
        self._held = response
        while not self._stopped.is_set():
            await response.write(self._ping)
            await self._is_stopped(within_s=EVERY_S)

    async def _is_stopped(self, *, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await self._stopped.wait()
        except TimeoutError:
            return False


HEARTBEAT = web.RequestKey("heartbeat", Heartbeat)


async def begun(request: web.Request, status: int, headers: Mapping[str, str]) -> web.StreamResponse:
    """Return an answer whose head has gone out: now, or while its client was kept waiting."""
    heartbeat: Heartbeat | None = request.get(HEARTBEAT)
    held = None if heartbeat is None else await heartbeat.stop()
    if held is not None:
        return held
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    return response
