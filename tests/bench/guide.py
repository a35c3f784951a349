"""Whether the Guide knows its answers, by the training's own examination; how soon it and the command line come."""

import json
import statistics
import subprocess
import time
from collections.abc import Sequence

from app.config.paths import guide_gguf
from app.config.programs import module_command
from tests.bench.commands import CommandRunner, lend_commands
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.programs import ROOT
from tests.unit.guide.test_questions import entry_of, is_accepted, read_strangers

ASK = 95.0
RECOGNISED, DECLINED = 90.0, 95.0
OPEN_SETS = ("strangers_open", "newcomers_open")
HELD_OUT = 80.0
HELP_MS = 150.0
ASK_S = 0.25
COLD_S, WARM_S = 2.0, 0.4
RUNS = 9
QUESTIONS = ("status", "ps", "list", "settings", "downloads", "requests", "usage", "room", "keys", "--version")
"""Commands that only ask a gateway, as nearly all do."""
_EXAMINATION = ROOT / "resources" / "guide" / "training" / "evaluate.py"


def measure() -> Sequence[BenchFigure]:
    """Return how soon the Guide answers, and how often rightly."""
    return [*measure_first_tokens(), *_examine(), *measure_recognition()]


def measure_first_tokens(runs: int = RUNS) -> Sequence[BenchFigure]:
    """Return the median time to the first token of `roundhouse run guide`, without a gateway and with all loaded."""
    with lend_commands() as roundhouse:
        cold = [_first_token(roundhouse, is_cold=True) for _ in range(runs + 1)][1:]
        warm = [_first_token(roundhouse) for _ in range(runs + 1)][1:]
    return [
        at_most("roundhouse run guide, cold, to the first token", statistics.median(cold), COLD_S, "s"),
        at_most("roundhouse run guide, loaded, to the first token", statistics.median(warm), WARM_S, "s"),
    ]


def _first_token(roundhouse: CommandRunner, *, is_cold: bool = False) -> float:
    if is_cold:
        roundhouse.run("down")
    return roundhouse.first_output("run", "guide", "--temperature", "0", "say hi")  # as plain, it is looked up


def _examine() -> Sequence[BenchFigure]:
    """Return the shares of trained questions and of held-out paraphrases that get the right answer, greedily."""
    if not (_EXAMINATION.exists() and guide_gguf().exists()):
        return [not_measured("Guide, right answers", f">= {ASK:g} %", "needs a checkout")]
    python = module_command("app.gui")[0]
    examination = subprocess.run([python, str(_EXAMINATION), "--json"], stdout=subprocess.PIPE, check=False, text=True)
    results = json.loads(examination.stdout)
    return [
        at_least("Guide, trained questions right", 100 * results["ask"]["accuracy"], ASK, "%"),
        at_least("Guide, held-out paraphrases right", 100 * results["held_out"]["accuracy"], HELD_OUT, "%"),
    ]


def measure_recognition() -> Sequence[BenchFigure]:
    """Return how many questions are recognised, and how many others declined, as the window recognises them.

    Those are the sets that phrasings were improved with; the blind one is measured by its test alone. What the network
    knows of phrasings that it never saw, only a training without them says (`recogniser.py --folds`).
    """
    sets = [read_strangers(name) for name in OPEN_SETS]
    right = [is_accepted(entry_of(q), group.accept) for part in sets for group in part.answerable for q in group.ask]
    is_declined = [entry_of(question) is None for part in sets for question in part.unknown]
    return [
        at_least("Guide, questions of strangers recognised", 100 * sum(right) / len(right), RECOGNISED, "%"),
        at_least(
            "Guide, questions about other things declined", 100 * sum(is_declined) / len(is_declined), DECLINED, "%"
        ),
    ]


def measure_help(runs: int = RUNS) -> Sequence[BenchFigure]:
    """Return the median time of `roundhouse --help`, and of the slowest command that only asks."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(module_command("app.cli", "--help"), stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return [at_most("roundhouse --help", 1000 * statistics.median(times), HELP_MS, "ms"), _slowest_question(runs)]


def _slowest_question(runs: int) -> BenchFigure:
    with lend_commands() as roundhouse:
        roundhouse.start_service()
        rounds = [{name: roundhouse.run(name) for name in QUESTIONS} for _ in range(runs + 1)][1:]
    medians = {name: statistics.median(times[name] for times in rounds) for name in QUESTIONS}
    slowest = max(medians, key=medians.__getitem__)
    return at_most(f"the slowest command that only asks ({slowest})", medians[slowest], ASK_S, "s")
