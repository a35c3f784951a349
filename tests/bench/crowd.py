"""A thousand kept-alive connections that say nothing, and streams beside them: is everybody served, and what it weighs.

Editors, chat programs and pools of HTTP clients hold connections open for minutes; only few of them ask at once.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp

from app.config.open_files import raise_open_file_limit
from tests.bench.figures import BenchFigure, at_most
from tests.bench.load import BenchRoute, BenchTarget, chat_route, dialect_routes, is_served, read_stream
from tests.bench.programs import HOST
from tests.bench.proxied import Proxy, start_proxied_engine

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


class IdleConnection(NamedTuple):
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


def measure(idle: int = IDLE, streams: int = STREAMS) -> Sequence[BenchFigure]:
    """Return how many were not served, and the gateway's resident memory at its highest."""
    names = (f"not served of {idle} idle connections and {streams} streams", "gateway resident memory meanwhile")
    raise_open_file_limit()
    with start_proxied_engine() as there:
        target = there.gateway.target
        spoken_routes = (route for route in dialect_routes(PROMPT).values() if is_served(target, route))
        routes = [chat_route(PROMPT), *spoken_routes]
        unserved_count, weight = asyncio.run(
            _measure_crowd(there.gateway, idle, [routes[n % len(routes)] for n in range(streams)])
        )
    return [at_most(names[0], unserved_count, 0), at_most(names[1], weight / _MB, WEIGHT_MB, "MB")]


async def _measure_crowd(gateway: Proxy, idle: int, routes: Sequence[BenchRoute]) -> tuple[int, int]:
    port = int(gateway.target.url.rpartition(":")[2])
    connections: list[IdleConnection] = []
    while len(connections) < idle:
        dials = (asyncio.open_connection(HOST, port) for _ in range(min(_AT_ONCE, idle - len(connections))))
        connections += [IdleConnection(*ends) for ends in await asyncio.gather(*dials)]
    unserved_count = await _count_unserved(connections)
    broken_count, weight = await _measure_streams(gateway, routes)
    unserved_count += broken_count + await _count_unserved(connections)
    for connection in connections:
        connection.writer.close()
    return unserved_count, weight


async def _count_unserved(connections: Sequence[IdleConnection]) -> int:
    return sum(
        not is_served for is_served in await asyncio.gather(*(connection.is_served() for connection in connections))
    )


async def _measure_streams(gateway: Proxy, routes: Sequence[BenchRoute]) -> tuple[int, int]:
    """Return how many streams were not whole, and the most bytes resident while they went on."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        all_of_them = asyncio.gather(*(_is_whole(http, gateway.target, route) for route in routes))
        weight = 0
        while not all_of_them.done():
            weight = max(weight, gateway.child.memory_info().rss)
            await asyncio.wait({all_of_them}, timeout=0.1)
        return sum(not whole for whole in all_of_them.result()), weight


async def _is_whole(http: aiohttp.ClientSession, target: BenchTarget, route: BenchRoute) -> bool:
    streaming_route = route._replace(body={"model": "guide", **route.body, "stream": True})
    try:
        return (await read_stream(http, target, streaming_route)).tokens >= CHUNKS
    except (aiohttp.ClientError, OSError):
        return False
