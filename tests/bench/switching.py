"""What it costs to go from one model to another when only one may stay: beyond what the engine itself takes to load.

Two models of the same size take turns at a real gateway, each asked for one token. The same engine is started on the
same file directly, in turns with that, and asked for one token as soon as it can be: that much is the engine's own.
"""

import http.client
import json
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.hub.synthetic import write_synthetic
from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.registry import ADAPTERS
from tests.bench.figures import BenchFigure, at_most
from tests.bench.programs import HOST, run_program, start_program, wait_for
from tests.ports import free_port

ENGINE = "llama.cpp"
ROUNDS = 7
TARGET_S = 0.25
CONTEXT, SLOTS = 1024, 1
_PATIENCE_S = 120.0
_NAMES = ("first", "second")


def measure(rounds: int = ROUNDS) -> Sequence[BenchFigure]:
    """Return the median of what switching took beyond the engine's own load, and both times."""
    with tempfile.TemporaryDirectory() as folder:
        file = _models(Path(folder))
        with start_program("app.gateway", environment=_gateway_environment(folder, port := free_port())) as child:
            wait_for(port, child)
            for name in _NAMES:  # not counted: looking at the files and the machine for the first time
                _time_token(port, name)
            pairs = [(_time_token(port, _NAMES[at % 2]), _time_engine(file)) for at in range(rounds)]
    more = statistics.median(switched_s - own for switched_s, own in pairs)
    return [
        at_most("switch to another model beyond the engine's own load", more, TARGET_S, "s"),
        BenchFigure(
            name="switch to another model, first token",
            measurement=f"{statistics.median(switched_s for switched_s, _ in pairs):.2f} s",
            target="-",
            ok=None,
        ),
    ]


def _models(folder: Path) -> Path:
    """Put two models into a new home's folder; return the file of one."""
    models = folder / "data" / "models"
    models.mkdir(parents=True)
    first, second = (models / f"{name}.gguf" for name in _NAMES)
    write_synthetic(first)
    shutil.copyfile(first, second)
    return first


def _gateway_environment(folder: str, port: int) -> dict[str, str]:
    return {
        "ROUNDHOUSE_HOME": folder,
        "ROUNDHOUSE_GATEWAY_PORT": str(port),
        "ROUNDHOUSE_MODELS_MAX_LOADED": "1",
        "ROUNDHOUSE_MODELS_CONTEXT": str(CONTEXT),
        "ROUNDHOUSE_MODELS_SLOTS": str(SLOTS),
    }


def _time_engine(file: Path) -> float:
    """Return the seconds from starting the engine directly to its first token."""
    adapter = ADAPTERS[ENGINE]
    installation = adapter.probe()
    if not isinstance(installation, EngineInstallation):
        raise RuntimeError(installation.sentence)  # noqa: TRY004 -- not a wrong type: the engine is missing
    net = ListenOptions(host=HOST, port=free_port(), key=secrets.token_hex(16))
    source = ModelSource(name=file.stem, path=file, format=ModelFormat.GGUF)
    plan = adapter.plan(source, LaunchOptions(context=CONTEXT, slots=SLOTS), net, installation)
    (process,) = plan.processes
    began = time.perf_counter()
    with run_program(process.argv, {**process.env, **process.secrets}) as child:
        wait_for(net.port, child, plan.readiness.path)
        _time_token(net.port, plan.served_name, key=net.key)
        return time.perf_counter() - began


def _time_token(port: int, model: str, *, key: str = "none") -> float:
    """Return the seconds one token took, the loading of its model included."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(HOST, port, timeout=_PATIENCE_S)
    try:
        body = json.dumps({"model": model, "prompt": "Hi", "max_tokens": 1})
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", body, headers)
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != http.client.OK:
            raise RuntimeError(f"{model} answered {reply.status}: {content[:300].decode(errors='replace')}")
    finally:
        connection.close()
    return time.perf_counter() - began
