"""Whether the Guide knows its answers, by the training's own examination, and how soon the command line is there."""

import json
import statistics
import subprocess
import time
from collections.abc import Sequence

from app.bench.figures import Figure, at_least, at_most, not_measured
from app.bench.programs import ROOT
from app.config.paths import guide_gguf
from app.config.programs import command

ASK = 95.0
HELD_OUT = 80.0
HELP_MS = 150.0
RUNS = 9
_EXAMINATION = ROOT / "resources" / "guide" / "training" / "evaluate.py"


def measure() -> Sequence[Figure]:
    """Return the shares of trained questions and of held-out paraphrases that get the right answer, greedily."""
    if not (_EXAMINATION.exists() and guide_gguf().exists()):
        return [not_measured("Guide, right answers", f">= {ASK:g} %", "needs a checkout")]
    python = command("app.gui")[0]
    done = subprocess.run([python, str(_EXAMINATION), "--json"], stdout=subprocess.PIPE, check=False, text=True)
    found = json.loads(done.stdout)
    return [
        at_least("Guide, trained questions right", 100 * found["ask"]["accuracy"], ASK, "%"),
        at_least("Guide, held-out paraphrases right", 100 * found["held_out"]["accuracy"], HELD_OUT, "%"),
    ]


def measure_help(runs: int = RUNS) -> Sequence[Figure]:
    """Return the median time of `roundhouse --help`."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command("app.cli", "--help"), stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return [at_most("roundhouse --help", 1000 * statistics.median(times), HELP_MS, "ms")]
