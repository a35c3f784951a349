"""Server-sent events: what an iterator yields goes out as it comes, and silence is broken every 15 seconds.

The heartbeat is a comment, which clients skip: it keeps proxies from closing the connection and shows us when a client
has gone without saying so.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import msgspec
from aiohttp import web

HEARTBEAT_S = 15.0
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream(request: web.Request, events: AsyncGenerator[msgspec.Struct, None]) -> web.StreamResponse:
    """Send every event, named by its tag, until there are no more or the client has gone."""
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    async with aclosing(events):
        with suppress(ConnectionError):  # the client has gone; nobody is left to tell
            await response.write(b": listening\n\n")  # the head goes out with the first bytes
            await _send(response, events)
            await response.write_eof()
    return response


def encoded(event: msgspec.Struct) -> bytes:
    """Return one event as it goes over the wire."""
    return f"event: {event.__struct_config__.tag}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"


async def _send(response: web.StreamResponse, events: AsyncGenerator[msgspec.Struct, None]) -> None:
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            if not (await asyncio.wait({coming}, timeout=HEARTBEAT_S))[0]:
                await response.write(b": still here\n\n")
                continue
            event = coming.result()
            if event is None:
                return
            coming = asyncio.ensure_future(anext(events, None))
            await response.write(encoded(event))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
