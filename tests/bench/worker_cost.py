"""What our own server costs a library: tokens a second against the library's own loop, and the time until it is ready.

Tokens a second by the clock, and of the processor time of each. With the Guide, of which a token takes a fraction of a
millisecond: with any larger model it is a smaller share. Both load the same files in the same environment and run in
turns, and the best round of each counts: what other programs take meanwhile is nobody's cost.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.worker_against_loop import STREAMS

RATIO = 0.95
EXTRA_MS = 300.0
ROUNDS = 6
_MODULE = "tests.bench.worker_against_loop"
_LONGEST_S = 1800.0


def measure(rounds: int = ROUNDS) -> Sequence[BenchFigure]:
    """Return the ratios at 1 to 64 streams and the extra start of each library's worker."""
    name = "worker's tokens/s / library's own loop"
    argv = (sys.executable, "-m", _MODULE, str(rounds))
    process = subprocess.run(argv, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    if process.returncode:
        return [not_measured(name, f">= {RATIO:g}", (process.stderr.strip().splitlines() or ["it failed"])[-1])]
    results: dict[str, dict[str, float] | None] = json.loads(process.stdout)
    return [figure for library, figures in results.items() for figure in _library_figures(library, figures)]


def _library_figures(library: str, ratios: dict[str, float] | None) -> Iterator[BenchFigure]:
    if ratios is None:
        yield not_measured(f"{library}: worker's tokens/s / its own loop", f">= {RATIO:g}", "`make test-engines` first")
        return
    for streams in STREAMS:
        ratio, processor = ratios[f"ratio_{streams}"], ratios[f"processor_{streams}"]
        yield at_least(f"{library}: worker's tokens/s / its own loop, {streams} at once", ratio, RATIO)
        yield at_least(f"{library}: likewise, tokens / s of processor time, {streams} at once", processor, RATIO)
    extra_ms = ratios["extra_start_s"] * 1e3
    yield at_most(f"{library}: worker ready, beyond the library's own load", extra_ms, EXTRA_MS, "ms")
