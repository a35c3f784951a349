"""What a streamed chunk costs the gateway in processor time, in units of a proxy that does nothing but proxy.

Both stand before the same paced engine in the same run, in turns; the clients and the engine are other processes.
"""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from app.bench.figures import Figure, at_most, not_measured
from app.bench.load import CHAT, Route, Target, stream_all
from app.bench.programs import HOST, cpu_s, free_port, is_checkout, started, wait_for

NAME = "gateway CPU per streamed chunk / bare proxy"
TARGET = 1.3
STREAMS = 16
CHUNKS = 600
PER_SECOND = 200
"""Per stream: 3,200 chunks a second in all, which keeps both proxies well below one core."""
ROUNDS = 4


class Proxy(NamedTuple):
    """A running proxy and its address."""

    child: psutil.Popen
    target: Target


class Arena(NamedTuple):
    """The paced engine's address, and the two proxies before it."""

    engine: Target
    bare: Proxy
    gateway: Proxy


def measure(rounds: int = ROUNDS, chunks: int = CHUNKS) -> Sequence[Figure]:
    """Return the ratio of processor time per chunk."""
    if not is_checkout():
        return [not_measured(NAME, f"<= {TARGET:g}", "needs a source checkout")]
    with arena(chunks=chunks, per_second=PER_SECOND) as there:
        for proxy in (there.bare, there.gateway):
            stream_all(proxy.target, streams=STREAMS, request={})
        ratios = [per_chunk(there.gateway) / per_chunk(there.bare) for _ in range(rounds)]
        spent = per_chunk(there.gateway)
    ratio = at_most(NAME, statistics.median(ratios), TARGET)
    return [ratio, Figure(name="gateway CPU per streamed chunk", measured=f"{spent * 1e6:.0f} us", target="-", ok=None)]


@contextlib.contextmanager
def arena(*, chunks: int, per_second: float) -> Iterator[Arena]:
    """Start a paced engine and both proxies before it."""
    with contextlib.ExitStack() as stack:
        port = free_port()
        engine = stack.enter_context(started("tests.perf.paced_engine", str(port), str(chunks), str(per_second)))
        wait_for(port, engine)
        target = Target(f"http://{HOST}:{port}")
        bare = stack.enter_context(proxy("tests.perf.bare_proxy", target))
        gateway = stack.enter_context(proxy("tests.perf.gateway_before_engine", target))
        yield Arena(target, bare, gateway)


@contextlib.contextmanager
def proxy(module: str, engine: Target) -> Iterator[Proxy]:
    """Start a proxy before the engine."""
    port = free_port()
    with started(module, str(port), engine.url, engine.key) as child:
        wait_for(port, child)
        yield Proxy(child, Target(f"http://{HOST}:{port}"))


def per_chunk(one: Proxy, route: Route = CHAT) -> float:
    """Return the seconds of processor time that a proxy spends on each chunk of some streams."""
    before = cpu_s(one.child)
    streams, _ = stream_all(one.target, streams=STREAMS, request={}, route=route)
    return (cpu_s(one.child) - before) / sum(stream.tokens for stream in streams)
