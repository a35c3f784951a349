"""The window's figures: start, memory, stalls while an answer streams, opening a long conversation.

Measured by programs of the window itself, which run without a display and paint for real.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.config.programs import child_environment, module_command
from tests.bench.figures import BenchFigure, at_most
from tests.ports import free_port

RUNS = 5
START_S = 1.0
RESIDENT_MB = 160.0
_MB = 1e6
_PATIENCE_S = 600.0


def measure_start(runs: int = RUNS) -> Sequence[BenchFigure]:
    """Return the median time to an interactive window and the memory of the last run. The gateway starts with it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "ROUNDHOUSE_HOME": str(Path(folder) / "home"),
            "ROUNDHOUSE_GATEWAY_PORT": str(free_port()),
            "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        noted_frames = [
            _run_module("tests.bench.window_start", str(time.time()), environment=environment) for _ in range(runs + 1)
        ]
    counted_frames = noted_frames[1:]  # the first run compiles
    return [
        at_most(
            "window start to interactive", statistics.median(n["interactive_s"] for n in counted_frames), START_S, "s"
        ),
        at_most("window resident memory", counted_frames[-1]["resident_bytes"] / _MB, RESIDENT_MB, "MB"),
    ]


def measure_chat() -> Sequence[BenchFigure]:
    """Return what the chat page costs: 20,000 tokens that stream, typing, 5,000 messages, 50 pictures."""
    rows = _run_module("tests.bench.chat_window", "--json")
    return [at_most(row["name"], row["value"], row["limit"], row["unit"]) for row in rows]


def measure_chats() -> Sequence[BenchFigure]:
    """Return what 50,000 chats cost the database, and 20,000 rows the window."""
    rows = _run_module("tests.bench.chat_list", "--json")
    return [at_most(row["name"], row["value"], row["limit"], row["unit"]) for row in rows]


def _run_module(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 -- any JSON
    process = subprocess.run(
        module_command(module, *arguments),
        env=child_environment({"QT_QPA_PLATFORM": "offscreen", **(environment or {})}),
        stdout=subprocess.PIPE,
        timeout=_PATIENCE_S,
        check=False,  # 1 says that a figure is too large, which the table will say too
        text=True,
    )
    return json.loads(process.stdout)
