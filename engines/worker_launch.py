"""The adapter's side of `worker_base.run`: the process that runs one of our workers in an engine's environment.

The one place to change for a frozen application, where the interpreter and the workers' files lie elsewhere.

The supervisor's side of `worker_base.emit`: one line of a worker's standard output, as log events.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from engines import worker_base
from engines.api import (
    BufferAllocated,
    ContextSet,
    EngineInstallation,
    LoadProgress,
    LogEvent,
    MetricsOpened,
    PortOpened,
    ProcessSpec,
)


def worker_process(
    installation: EngineInstallation, module: str, config: Mapping[str, object], key: str, *, env: Mapping[str, str]
) -> ProcessSpec:
    """Return the process that serves `config` with the worker in `module`; the key is kept out of what is logged."""
    return ProcessSpec(
        role="server",
        argv=worker_argv(installation, module),
        env={worker_base.CONFIG_VARIABLE: json.dumps(config), **worker_environment(), **env},
        secrets={worker_base.KEY_VARIABLE: key},
        stdin_lifeline=True,
    )


def foreign_process(
    installation: EngineInstallation, module: str, arguments: Sequence[str], key: str, *, env: Mapping[str, str]
) -> ProcessSpec:
    """Return the process that runs a server of another program behind the key (see `foreign_worker`)."""
    return ProcessSpec(
        role="server",
        argv=worker_argv(installation, "engines.foreign_worker", module, *arguments),
        env={**worker_environment(), **env},
        secrets={worker_base.KEY_VARIABLE: key},
        stdin_lifeline=True,
    )


def worker_argv(installation: EngineInstallation, module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that starts a worker. Raises ValueError for an installation that has no Python.

    `-P` keeps the folder it happens to be started in off the import path.
    """
    if installation.python is None:
        raise ValueError(f"This installation of {installation.engine} has no Python to run it.")
    return (str(installation.python), "-P", "-m", module, *arguments)


def worker_environment() -> dict[str, str]:
    """Return what an interpreter is started with to find our `engines`, whatever else it has of that name."""
    return {"PYTHONPATH": str(_above_engines())}


def own_python() -> Path:
    """Return what runs workers of engines that came with Roundhouse: this interpreter, or the frozen application's."""
    executable = Path(sys.executable)
    return executable.with_name("roundhouse-engine" + executable.suffix) if _is_frozen() else executable


def _above_engines() -> Path:
    """Return the folder from which an environment without our packages can import `engines`, and nothing else of ours.

    The frozen application keeps these files apart from the packages it brings along.
    """
    root = Path(__file__).resolve().parents[1]
    return root / "foreign" if _is_frozen() else root


def _is_frozen() -> bool:
    return bool(getattr(sys, "frozen", False))


class _WorkerLine(msgspec.Struct):
    event: str
    stage: str = ""
    fraction: float | None = None
    port: int = 0
    tokens: int = 0
    slots: int | None = None
    device: str = ""
    purpose: str = ""
    size_bytes: int = 0


_PORTS = 1 << 16
_DECODER = msgspec.json.Decoder(_WorkerLine)


def read_worker_line(line: str) -> Sequence[LogEvent] | None:
    """Return what a worker's line means; None when it is not a worker's line."""
    if not line.startswith('{"event"'):
        return None
    try:
        record = _DECODER.decode(line)
    except msgspec.DecodeError:
        return None
    return _events_of(record)


def _events_of(record: _WorkerLine) -> Sequence[LogEvent]:
    match record.event:
        case "progress":
            return (LoadProgress(stage=record.stage, fraction=record.fraction),)
        case "listening":
            return (PortOpened(port=record.port),)
        case "metrics" if 0 < record.port < _PORTS:
            return (MetricsOpened(port=record.port),)
        case "context":
            return (ContextSet(tokens=record.tokens, slots=record.slots),)
        case "buffer":
            return (BufferAllocated(device=record.device, purpose=record.purpose, size_bytes=record.size_bytes),)
        case _:
            return ()
