"""From `python -m app.gateway` to the first 200, and what the idle gateway weighs.

Measured as installed: with compiled bytecode, which the first, uncounted run writes to a folder of its own.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.bench.figures import Figure, at_most
from app.bench.programs import free_port, started, wait_for

RUNS = 7
TARGET_S = 0.8
TARGET_MB = 70.0
SETTLE_S = 3.0
"""Looking through folders and asking engines for their version are over by then."""
_MB = 1e6


def measure(runs: int = RUNS, settle_s: float = SETTLE_S) -> Sequence[Figure]:
    """Return the median start-up time and the resident memory of the last run."""
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder))
        results = [_run(Path(folder)) for _ in range(runs - 1)]
        last = _run(Path(folder), settle_s=settle_s)
    seconds = statistics.median(result[0] for result in [*results, last])
    return [
        at_most("gateway start to /health 200", seconds, TARGET_S, "s"),
        at_most("gateway resident memory, idle", last[1], TARGET_MB, "MB"),
    ]


def _run(folder: Path, *, settle_s: float = 0.0) -> tuple[float, float]:
    """Return seconds to the first answer and megabytes resident after `settle_s`."""
    port = free_port()
    environment = {
        "ROUNDHOUSE_HOME": str(folder / "home"),
        "ROUNDHOUSE_GATEWAY_PORT": str(port),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    with started("app.gateway", environment=environment) as child:
        seconds = wait_for(port, child)
        time.sleep(settle_s)
        return seconds, child.memory_info().rss / _MB
