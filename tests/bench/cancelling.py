"""How soon an engine notices that the client it works for has gone.

Client and engine are both played here, on one clock; only the gateway between them is a program of its own. Half of the
clients go before the first byte, half in the middle of the answer.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence

import aiohttp

from tests.bench.figures import BenchFigure, at_most, percentile
from tests.bench.load import CHAT, BenchRoute, BenchTarget, dialect_routes
from tests.bench.programs import HOST
from tests.bench.proxied import GATEWAY, start_proxy

TARGET_MS = 50.0
COMPLETION_TARGET_MS = 10.0
"""The median, for code completion: an editor leaves with every key."""
CANCELS = 200
_COMPLETION = BenchRoute("/v1/completions", {"prompt": "a}]"}, CHAT.token)
"""Its prompt ends as the played engine expects a request to end."""
_KINDS = {"native": CHAT, "translated": dialect_routes()["Ollama"], "completion": _COMPLETION}
_GIVEN_UP_S = 10.0
_TOKEN_EVERY_S = 0.01
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
_MODELS = b'{"object":"list","data":[{"id":"guide","object":"model"}]}'
_LISTED = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_MODELS), _MODELS)
_TOKEN = f"{len(_EVENT):x}\r\n".encode() + _EVENT + b"\r\n"


class EndlessEngine:
    """Takes one request at a time and works until its connection ends. Tells when that was."""

    def __init__(self) -> None:
        self.speaks = True
        """Whether it says anything before the client goes."""
        self.expect_request()

    def expect_request(self) -> None:
        """Wait for the next request."""
        loop = asyncio.get_running_loop()
        self.arrival, self.departure = loop.create_future(), loop.create_future()

    async def answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request, and write tokens until nobody is there any more. A GET is for the models."""
        if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
            writer.write(_LISTED)
            writer.close()
            return
        await reader.readuntil(b"}]")  # the end of its messages
        self.arrival.set_result(None)
        writer_task = asyncio.create_task(_write_tokens(writer)) if self.speaks else None
        with contextlib.suppress(OSError):
            while await reader.read(4096):
                pass
        self.departure.set_result(time.perf_counter())
        if writer_task is not None:
            writer_task.cancel()
        writer.close()


def measure(cancels: int = CANCELS) -> Sequence[BenchFigure]:
    """Return for what is passed on and what is translated the 99th percentile."""
    names = {kind: f"a client goes until its engine knows, p99, {kind}" for kind in _KINDS}
    seconds_by_kind = asyncio.run(_measure_all(cancels))
    typed_on = percentile(seconds_by_kind["completion"], 50) * 1e3
    return [
        *(
            at_most(names[kind], percentile(seconds, 99) * 1e3, TARGET_MS, "ms")
            for kind, seconds in seconds_by_kind.items()
        ),
        at_most("an editor goes until its engine knows, p50", typed_on, COMPLETION_TARGET_MS, "ms"),
    ]


async def _measure_all(cancels: int) -> dict[str, list[float]]:
    engine = EndlessEngine()
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(engine.answer_request, HOST, 0))
        behind = BenchTarget(f"http://{HOST}:{server.sockets[0].getsockname()[1]}")
        proxy_start = start_proxy(GATEWAY, behind)
        gateway = await asyncio.to_thread(proxy_start.__enter__)
        stack.push(proxy_start.__exit__)
        seconds_by_kind: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        for number, (kind, route) in itertools.product(range(cancels + 2), _KINDS.items()):
            engine.speaks = number % 2 == 0
            seconds = await _cancel_once(engine, gateway.target, route)
            seconds_by_kind[kind] += [seconds] if number > 1 else []  # the first ones find modules not yet imported
        return seconds_by_kind


async def _cancel_once(engine: EndlessEngine, gateway: BenchTarget, route: BenchRoute) -> float:
    """Return the seconds from a client's going to the engine's knowing."""
    engine.expect_request()
    first_piece = asyncio.Event()
    client = asyncio.create_task(_send_request(gateway, route, first_piece))
    async with asyncio.timeout(_GIVEN_UP_S):
        await (first_piece.wait() if engine.speaks else engine.arrival)
        began = time.perf_counter()
        client.cancel()
        return float(await engine.departure) - began


async def _send_request(gateway: BenchTarget, route: BenchRoute, first_piece: asyncio.Event) -> None:
    body = {"model": "guide", **route.body, "stream": True}
    async with aiohttp.ClientSession() as http, http.post(gateway.url + route.path, json=body) as reply:
        async for _ in reply.content.iter_any():
            first_piece.set()


async def _write_tokens(writer: asyncio.StreamWriter) -> None:
    writer.write(_HEAD)
    while True:
        writer.write(_TOKEN)
        await asyncio.sleep(_TOKEN_EVERY_S)
