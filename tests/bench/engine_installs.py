"""How long an engine takes from nothing to tested, and how long nobody is answered when a version turns out to be bad.

Real engines from the package cache, in a gateway with a home of its own. A version is made bad as updates are: its
interpreter is replaced by a program that crashes, misses a library, or hangs. What writes nonsense never gets so far:
its test at the install finds it, and what was used answers meanwhile.
"""

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from app.client.discovery import find_running_gateway
from app.client.http import GatewayClient, quote_segment
from app.config.paths import Paths
from app.core.api import GUIDE
from app.core.engine_store import EngineJob, InstallEngine, UseEngine
from app.core.errors import RoundhouseError
from app.core.events import EngineJobChanged, Event
from app.core.models import UnloadModel
from tests.bench.figures import BenchFigure, at_most, not_measured
from tests.bench.programs import HOST, start_program, wait_for
from tests.ports import free_port

ENGINES = ("llama.cpp", "mlx-lm", "openvino", "onnxruntime-genai")
INSTALL_S = 30.0
BACK_S = 10.0
_LONGEST_S = 600.0
BAD = {
    "crash": "kill -SEGV $$",
    "missing library": "echo libx.so.1: cannot open shared object file >&2; exit 127",
    "hang": "exec sleep 600",
}
"""What a shell script in the interpreter's place does."""


class _RunningGateway(NamedTuple):
    client: GatewayClient
    port: int
    home: Path


def measure() -> Sequence[BenchFigure]:
    """Return the seconds of each install, from an empty store, and of each way back."""
    with run_gateway() as gateway:
        installs = [_install(gateway.client, engine) for engine in ENGINES]
        if installs[0].ok is None:
            return installs
        return [*installs, *(_measure_rollback(gateway, name, script) for name, script in BAD.items())]


def _install(client: GatewayClient, engine: str) -> BenchFigure:
    """Install once so that the packages are in the cache, remove it, and time it again from nothing."""
    name = f"install {engine}, cold environment to tested"
    try:
        version = wait_for_job(client, f"/engines/{quote_segment(engine)}/install", InstallEngine()).version
        client.post(f"/engines/{quote_segment(engine)}/use", UseEngine(version=version), object)
        client.delete(f"/engines/{quote_segment(engine)}/versions/{quote_segment(version)}")
        began = time.perf_counter()
        wait_for_job(client, f"/engines/{quote_segment(engine)}/install", InstallEngine())
    except RoundhouseError as error:
        return not_measured(name, f"<= {INSTALL_S:g} s", str(error))
    return at_most(name, time.perf_counter() - began, INSTALL_S, "s")


def wait_for_job(client: GatewayClient, path: str, body: object) -> EngineJob:
    """Begin a job of the engine store and return it once it is done. Raises RoundhouseError with what went wrong."""
    job = client.post(path, body, EngineJob, timeout_s=_LONGEST_S)
    for event in client.stream_events("/events", Event, timeout_s=_LONGEST_S):
        if isinstance(event, EngineJobChanged) and event.job.id == job.id and event.job.is_done:
            if event.job.error is not None:
                raise RoundhouseError(event.job.error.sentence)
            return event.job
    raise RoundhouseError("The gateway ended.")


def _measure_rollback(gateway: _RunningGateway, fault: str, script: str) -> BenchFigure:
    """Time the first answer after the version in use has gone bad."""
    engine = ENGINES[0]
    versions = sorted((gateway.home / "data" / "engines" / engine).glob("*/venv/bin/python"))
    python, name = versions[-1], versions[-1].parents[2].name
    gateway.client.post("/unload", UnloadModel(model=GUIDE), object)
    gateway.client.post(f"/engines/{quote_segment(engine)}/use", UseEngine(version=name), object)
    good = python.readlink()
    python.unlink()
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    try:
        began = time.perf_counter()
        _ask(gateway.port)
        took = time.perf_counter() - began
    finally:
        python.unlink()
        python.symlink_to(good)
    return at_most(f"bad version ({fault}) to an answer of the one before", took, BACK_S, "s")


def _ask(port: int) -> None:
    """Raise RuntimeError unless the Guide answers."""
    body = {"model": GUIDE, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    with closing(http.client.HTTPConnection(HOST, port, timeout=_LONGEST_S)) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
    if reply.status != http.client.OK:
        raise RuntimeError(f"nobody answered: {content.decode(errors='replace')}")


@contextmanager
def run_gateway(prepare: Callable[[Path], dict[str, str]] | None = None) -> Iterator[_RunningGateway]:
    """Run a gateway with a home of its own; `prepare` puts things there and returns more of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), free_port()
        environment = {"ROUNDHOUSE_HOME": folder, "ROUNDHOUSE_GATEWAY_PORT": str(port)}
        environment |= prepare(home) if prepare is not None else {}
        paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
        with start_program("app.gateway", environment=environment) as child:
            wait_for(port, child)
            port_file = find_running_gateway(paths)
            if port_file is None:
                raise RuntimeError("the gateway left no port file")
            yield _RunningGateway(GatewayClient(port_file, timeout_s=60.0), port, home)
