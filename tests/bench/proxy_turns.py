"""One turn of each comparison of proxies: what a chunk, a first token and a whole answer cost, and a crowd of streams.

A turn asks one proxy; who compares lets them take turns.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from tests.bench.figures import percentile
from tests.bench.load import CHAT, BenchRoute, BenchTarget, chat_route, dialect_routes
from tests.bench.programs import cpu_s
from tests.bench.proxied import Proxy
from tests.bench.wire import RepeatClient, StreamClient, connect, request_to

ENDLESS = 1_000_000
CONNECTIONS = 8
"""Clients that ask for whole answers, each on a connection it keeps."""
_WARM_UP_S = 0.2
_PAUSE_S = (0.002, 0.008)
"""Between two requests whose first tokens are timed: of no one length, or they fall into step with the streams."""
_WITHIN_S = 60.0


class StreamPace(NamedTuple):
    """How many streams go on at once, the tokens per second of each, and whether they come at the same moments."""

    streams: int
    per_second: int
    in_step: bool = False

    def prompt_text(self, tokens: int = ENDLESS) -> str:
        """Return what the scripted engine is asked for."""
        return f"{tokens} tokens at {self.per_second} per second{' in step' if self.in_step else ''}"

    def __str__(self) -> str:
        return f"{self.streams} x {self.per_second}/s{' in step' if self.in_step else ''}"


_TIMED = StreamPace(1, 1000)
"""Streams whose first token is timed: over soon after it, yet not together with it."""


class CrowdResult(NamedTuple):
    """What became of many streams: tokens that did not arrive, and the 99th percentile between two that did."""

    lost_count: int
    gap_s: float


class ProxyTurn(NamedTuple):
    """A proxy, the dialect it is asked in ("" for the engine's own), and the streams it has."""

    proxy: Proxy
    pace: StreamPace
    dialect: str = ""

    def stream_route(self, tokens: int = ENDLESS) -> BenchRoute:
        """Return where streams of so many tokens are asked for."""
        prompt = self.pace.prompt_text(tokens)
        return dialect_routes(prompt)[self.dialect] if self.dialect else chat_route(prompt)


async def chunk_s(turn: ProxyTurn, seconds: float) -> float:
    """Return the processor time per token of streams, from when all have begun: their requests do not count."""
    async with _under_way(turn) as clients:
        await asyncio.sleep(_WARM_UP_S)
        spent_s, tokens = -cpu_s(turn.proxy.child), -_count_tokens(clients)
        await asyncio.sleep(seconds)
        return (spent_s + cpu_s(turn.proxy.child)) / (tokens + _count_tokens(clients))


async def delays_s(turn: ProxyTurn, engine: BenchTarget, pairs: int) -> list[float]:
    """Return how much later a first token comes through the proxy than from the engine, beside the proxy's streams."""
    timed_turn = turn._replace(pace=_TIMED)
    through, straight = (turn.proxy.target, timed_turn.stream_route(2)), (engine, chat_route(_TIMED.prompt_text(2)))
    delays = []
    async with _under_way(turn):
        for number in range(pairs):
            order = (through, straight) if number % 2 else (straight, through)
            ttfts = {target: await _ttft_s(target, route) for target, route in order}
            delays.append(ttfts[turn.proxy.target] - ttfts[engine])
    return delays


async def answer_s(proxy: Proxy, seconds: float) -> float:
    """Return the processor time per whole answer, asked for on connections that are kept."""
    request = request_to(proxy.target, CHAT, stream=False)
    clients = [await connect(proxy.target, lambda: RepeatClient(request)) for _ in range(CONNECTIONS)]
    await asyncio.sleep(_WARM_UP_S)
    spent_s, answers = -cpu_s(proxy.child), -sum(client.answers for client in clients)
    await asyncio.sleep(seconds)
    spent_s, answers = spent_s + cpu_s(proxy.child), answers + sum(client.answers for client in clients)
    for client in clients:
        client.stop()
    async with asyncio.timeout(_WITHIN_S):
        await asyncio.gather(*(client.end for client in clients))
    return spent_s / answers


async def run_crowd(turn: ProxyTurn, tokens: int) -> CrowdResult:
    """Return what becomes of streams that are asked for at once and run to their end."""
    clients = await _send_all(turn.proxy.target, turn.stream_route(tokens), turn.pace.streams)
    async with asyncio.timeout(_WITHIN_S):
        await asyncio.gather(*(client.end for client in clients))
    lost_count = sum(abs(tokens - client.tokens) + (not client.is_whole) for client in clients)
    for client in clients:
        client.close()
    return CrowdResult(lost_count, percentile([gap for client in clients for gap in client.gaps_s], 99))


@contextlib.asynccontextmanager
async def _under_way(turn: ProxyTurn) -> AsyncIterator[Sequence[StreamClient]]:
    """Keep streams going, from when each has its first token."""
    clients = await _send_all(turn.proxy.target, turn.stream_route(), turn.pace.streams)
    try:
        async with asyncio.timeout(_WITHIN_S):
            await asyncio.gather(*(client.first_token for client in clients))
        for client in clients:
            client.check_begun()
        yield clients
    finally:
        for client in clients:
            client.close()


async def _send_all(target: BenchTarget, route: BenchRoute, streams: int) -> Sequence[StreamClient]:
    request = request_to(target, route)
    clients = [await connect(target, lambda: StreamClient(route.token)) for _ in range(streams)]
    for client in clients:
        client.send(request)
    return clients


async def _ttft_s(target: BenchTarget, route: BenchRoute) -> float:
    await asyncio.sleep(random.uniform(*_PAUSE_S))  # noqa: S311 -- no secret
    (client,) = await _send_all(target, route, 1)
    async with asyncio.timeout(_WITHIN_S):
        await client.end
    client.close()
    client.check_begun()
    return client.first_at - client.sent_at


def _count_tokens(clients: Sequence[StreamClient]) -> int:
    """Return how many have come. Raises RuntimeError if a stream is over, which endless ones are not."""
    if any(client.end.done() for client in clients):
        raise RuntimeError("a stream ended that has no end")
    return sum(client.tokens for client in clients)
