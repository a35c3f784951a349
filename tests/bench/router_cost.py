"""What a router for language models costs: its processor time for an answer and for a token that it passes on.

`ROUNDHOUSE_BENCH_ROUTERS` names a Python that has smg and vllm-router. Each stands before three scripted engines, is
told as Roundhouse tells it, but for keys, and takes turns with the gateway.
"""

import asyncio
import contextlib
import os
import statistics
from collections.abc import Iterator, Sequence

from app.config.programs import module_command
from tests.bench.figures import BenchFigure, not_measured, without_target
from tests.bench.load import BenchTarget
from tests.bench.programs import HOST, run_program, wait_for
from tests.bench.proxied import GATEWAY, Proxy, run_server, start_proxy
from tests.bench.proxy_turns import ProxyTurn, StreamPace, answer_s, chunk_s
from tests.ports import free_port

PYTHON = "ROUNDHOUSE_BENCH_ROUTERS"
MODULES = {"smg": "smg.launch_router", "vllm-router": "vllm_router.launch_router"}
POLICIES = ("round_robin", "cache_aware")
REPLICAS = 3
ROUNDS = 3
SECONDS = 1.5
PACE = StreamPace(streams=16, per_second=50)
US = 1e6


def measure() -> Sequence[BenchFigure]:
    """Return what each router and the gateway cost, the median of the rounds."""
    python = os.environ.get(PYTHON, "")
    if not python:
        return [not_measured("routers", "-", f"{PYTHON} names no Python with smg and vllm-router")]
    with contextlib.ExitStack() as stack:
        engines = [
            stack.enter_context(run_server(module_command("tests.bench.paced_engine"))).target for _ in range(REPLICAS)
        ]
        proxies = {"gateway": stack.enter_context(start_proxy(GATEWAY, engines[0]))}
        for name in MODULES:
            for policy in POLICIES:
                proxies[f"{name}, {policy}"] = stack.enter_context(run_router(python, name, policy, engines))
        return compare(proxies)


def compare(proxies: dict[str, Proxy]) -> Sequence[BenchFigure]:
    """Let the proxies take turns, and return two figures for each."""
    answers: dict[str, list[float]] = {name: [] for name in proxies}
    chunks: dict[str, list[float]] = {name: [] for name in proxies}
    for _ in range(ROUNDS):
        for name, proxy in proxies.items():
            answers[name].append(asyncio.run(answer_s(proxy, SECONDS)) * US)
            chunks[name].append(asyncio.run(chunk_s(ProxyTurn(proxy, PACE), SECONDS)) * US)
    return [
        without_target(f"{name}: {what}", f"{statistics.median(values):.0f} us ({min(values):.0f}-{max(values):.0f})")
        for name in proxies
        for what, values in (("a whole answer", answers[name]), ("a token of a stream", chunks[name]))
    ]


@contextlib.contextmanager
def run_router(python: str, name: str, policy: str, engines: Sequence[BenchTarget]) -> Iterator[Proxy]:
    """Start a router before the engines, and wait until it answers."""
    port = free_port()
    urls = [engine.url for engine in engines]
    words = ["--host", HOST, "--port", str(port), "--policy", policy, "--prometheus-port", str(free_port())]
    with run_program([python, "-m", MODULES[name], *words, "--worker-urls", *urls]) as child:
        wait_for(port, child)
        yield Proxy(child, BenchTarget(f"http://{HOST}:{port}"))
