"""A thousand kept-alive connections that say nothing, and streams beside them: is everybody served, and what it weighs.

Editors, chat programs and pools of HTTP clients hold connections open for minutes; only few of them ask at once.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp

from app.config.open_files import allow_many
from tests.bench.figures import Figure, at_most
from tests.bench.load import Route, Target, chat_route, dialect_routes, is_served, stream
from tests.bench.programs import HOST
from tests.bench.proxied import Proxy, proxied_engine

IDLE = 1000
STREAMS = 64
CHUNKS = 150
PER_SECOND = 25
"""Per stream, as people read: 1,600 chunks a second in all."""
PROMPT = f"{CHUNKS} tokens at {PER_SECOND} per second"
WEIGHT_MB = 200.0
_MB = 1e6
_AT_ONCE = 50
"""Connections opened together: fewer than any system's queue of those not yet accepted."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEALTH = f"GET /health HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


class Idle(NamedTuple):
    """One connection, kept open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def is_served(self) -> bool:
        """Ask for /health on it, and tell whether it was answered."""
        try:
            self.writer.write(_HEALTH)
            head = await self.reader.readuntil(b"\r\n\r\n")
            await self.reader.readexactly(int(_LENGTH.findall(head)[0]))
        except (OSError, EOFError, asyncio.LimitOverrunError, IndexError):
            return False
        return head.startswith(b"HTTP/1.1 200")


def measure(idle: int = IDLE, streams: int = STREAMS) -> Sequence[Figure]:
    """Return how many were not served, and the gateway's resident memory at its highest."""
    names = (f"not served of {idle} idle connections and {streams} streams", "gateway resident memory meanwhile")
    allow_many()
    with proxied_engine() as there:
        target = there.gateway.target
        spoken = (route for route in dialect_routes(PROMPT).values() if is_served(target, route))
        routes = [chat_route(PROMPT), *spoken]
        unserved, weight = asyncio.run(_crowd(there.gateway, idle, [routes[n % len(routes)] for n in range(streams)]))
    return [at_most(names[0], unserved, 0), at_most(names[1], weight / _MB, WEIGHT_MB, "MB")]


async def _crowd(gateway: Proxy, idle: int, routes: Sequence[Route]) -> tuple[int, int]:
    port = int(gateway.target.url.rpartition(":")[2])
    held: list[Idle] = []
    while len(held) < idle:
        opened = (asyncio.open_connection(HOST, port) for _ in range(min(_AT_ONCE, idle - len(held))))
        held += [Idle(*ends) for ends in await asyncio.gather(*opened)]
    unserved = await _unserved(held)
    broken, weight = await _streamed(gateway, routes)
    unserved += broken + await _unserved(held)
    for one in held:
        one.writer.close()
    return unserved, weight


async def _unserved(held: Sequence[Idle]) -> int:
    return sum(not served for served in await asyncio.gather(*(one.is_served() for one in held)))


async def _streamed(gateway: Proxy, routes: Sequence[Route]) -> tuple[int, int]:
    """Return how many streams were not whole, and the most bytes resident while they went on."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        all_of_them = asyncio.gather(*(_is_whole(http, gateway.target, route) for route in routes))
        weight = 0
        while not all_of_them.done():
            weight = max(weight, gateway.child.memory_info().rss)
            await asyncio.wait({all_of_them}, timeout=0.1)
        return sum(not whole for whole in all_of_them.result()), weight


async def _is_whole(http: aiohttp.ClientSession, target: Target, route: Route) -> bool:
    asked = route._replace(body={"model": "guide", **route.body, "stream": True})
    try:
        return (await stream(http, target, asked)).tokens >= CHUNKS
    except (aiohttp.ClientError, OSError):
        return False
