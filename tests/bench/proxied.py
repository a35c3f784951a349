"""The scripted engine, and the proxies before it that are compared; each a process of its own."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from app.config.programs import module_command
from tests.bench.load import BenchTarget
from tests.bench.programs import HOST, run_program, wait_for
from tests.ports import free_port

BARE = "tests.bench.bare_proxy"
GATEWAY = "tests.bench.gateway_before_engine"


class Proxy(NamedTuple):
    """A running proxy, or what is in its place, and its address."""

    child: psutil.Popen
    target: BenchTarget


class EngineBehindGateway(NamedTuple):
    """The scripted engine, and the gateway before it."""

    engine: Proxy
    gateway: Proxy


@contextlib.contextmanager
def start_proxied_engine() -> Iterator[EngineBehindGateway]:
    """Start a scripted engine and the gateway before it."""
    with (
        run_server(module_command("tests.bench.paced_engine")) as engine,
        start_proxy(GATEWAY, engine.target) as gateway,
    ):
        yield EngineBehindGateway(engine, gateway)


def start_proxy(module: str, engine: BenchTarget, *arguments: str) -> contextlib.AbstractContextManager[Proxy]:
    """Start a proxy of ours before the engine."""
    return run_server(module_command(module), engine.url, engine.key, *arguments)


@contextlib.contextmanager
def run_server(
    program: Sequence[str], *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Proxy]:
    """Start a program that takes its port as the first argument, and wait until it answers."""
    port = free_port()
    with run_program([*program, str(port), *arguments], environment) as child:
        wait_for(port, child)
        yield Proxy(child, BenchTarget(f"http://{HOST}:{port}"))
