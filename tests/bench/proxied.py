"""The scripted engine, and the proxies before it that are compared; each a process of its own."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from app.config.programs import command
from tests.bench.load import Target
from tests.bench.programs import HOST, free_port, running, wait_for

BARE = "tests.bench.bare_proxy"
GATEWAY = "tests.bench.gateway_before_engine"


class Proxy(NamedTuple):
    """A running proxy, or what is in its place, and its address."""

    child: psutil.Popen
    target: Target


class ProxiedEngine(NamedTuple):
    """The scripted engine, and the gateway before it."""

    engine: Proxy
    gateway: Proxy


@contextlib.contextmanager
def proxied_engine() -> Iterator[ProxiedEngine]:
    """Start a scripted engine and the gateway before it."""
    with run_server(command("tests.bench.paced_engine")) as engine, proxy(GATEWAY, engine.target) as gateway:
        yield ProxiedEngine(engine, gateway)


def proxy(module: str, engine: Target) -> contextlib.AbstractContextManager[Proxy]:
    """Start a proxy of ours before the engine."""
    return run_server(command(module), engine.url, engine.key)


@contextlib.contextmanager
def run_server(
    program: Sequence[str], *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Proxy]:
    """Start a program that takes its port as the first argument, and wait until it answers."""
    port = free_port()
    with running([*program, str(port), *arguments], environment) as child:
        wait_for(port, child)
        yield Proxy(child, Target(f"http://{HOST}:{port}"))
