"""Server-sent events for whoever follows what happens in the gateway.

Silence is broken every 15 seconds by a comment, which clients skip: it keeps proxies from closing the connection and
shows us when a client has gone without saying so.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

from aiohttp import web

T = TypeVar("T")

HEARTBEAT_S = 15.0
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def send_events(
    request: web.Request, events: AsyncGenerator[T, None], encode: Callable[[T], bytes]
) -> web.StreamResponse:
    """Send every event as `encode` writes it, until there are no more or the client has gone."""
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    async with aclosing(events):
        with suppress(ConnectionError):  # the client has gone; nobody is left to tell
            await response.write(b": listening\n\n")  # the head goes out with the first bytes
            await _send_each(response, events, encode)
            await response.write_eof()
    return response


async def _send_each(
    response: web.StreamResponse, events: AsyncGenerator[T, None], encode: Callable[[T], bytes]
) -> None:
    next_event = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            if not (await asyncio.wait({next_event}, timeout=HEARTBEAT_S))[0]:
                await response.write(b": still here\n\n")
                continue
            event = next_event.result()
            if event is None:
                return
            next_event = asyncio.ensure_future(anext(events, None))
            await response.write(encode(event))
    finally:
        next_event.cancel()
        await asyncio.gather(next_event, return_exceptions=True)
