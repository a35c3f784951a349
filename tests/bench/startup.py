"""From `python -m app.gateway`, and from `roundhouse up`, to the first 200, and what the idle gateway weighs.

Measured as installed: with compiled bytecode, which the first, uncounted run writes to a folder of its own.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.commands import lend_commands
from tests.bench.figures import BenchFigure, at_most, not_measured
from tests.bench.programs import cpu_s, start_program, wait_for
from tests.ports import free_port

RUNS = 7
TARGET_S = 0.8
UP_S = 0.8
TARGET_MB = 70.0
SETTLE_S = 3.0
"""Looking through folders and asking engines for their version are over by then."""
_MB = 1e6


def measure(runs: int = RUNS, settle_s: float = SETTLE_S) -> Sequence[BenchFigure]:
    """Return the median start-up times, how much of the gateway's is work, and the resident memory of its last run."""
    with tempfile.TemporaryDirectory() as folder:
        _run_gateway(Path(folder), settle_s=settle_s)
        results = [_run_gateway(Path(folder)) for _ in range(runs - 1)]
        last = _run_gateway(Path(folder), settle_s=settle_s)
    results.append(last)
    spent_s = statistics.median(result.processor_s for result in results)
    return [
        at_most("gateway start to /health 200", statistics.median(result.seconds for result in results), TARGET_S, "s"),
        not_measured("gateway start, of the processor", "-", f"{spent_s:.3g} s"),
        at_most("gateway resident memory, idle", last.megabytes, TARGET_MB, "MB"),
        at_most("roundhouse up to /health 200", _measure_up(runs), UP_S, "s"),
    ]


class _StartResult(NamedTuple):
    """One start: seconds to the first answer and of the processor until then, megabytes resident later on."""

    seconds: float
    processor_s: float
    megabytes: float


def _measure_up(runs: int) -> float:
    """Return the median from the command to the gateway's first answer, each time without a gateway before."""
    with lend_commands() as roundhouse:
        times = []
        for _ in range(runs + 1):
            times.append(roundhouse.start_service())
            roundhouse.run("down")
    return statistics.median(times[1:])


def _run_gateway(folder: Path, *, settle_s: float = 0.0) -> _StartResult:
    """Start a gateway, and look at it again after `settle_s`."""
    port = free_port()
    environment = {
        "ROUNDHOUSE_HOME": str(folder / "home"),
        "ROUNDHOUSE_GATEWAY_PORT": str(port),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    with start_program("app.gateway", environment=environment) as child:
        seconds = wait_for(port, child)
        processor_s = cpu_s(child)
        time.sleep(settle_s)
        return _StartResult(seconds, processor_s, child.memory_info().rss / _MB)
