"""Races beside busy loops: `python -m tests.bench.disturbed_races --write`, or `python -m tests.bench disturbance`.

The Guide races on llama.cpp and mistral.rs, once in quiet, which says who is faster, and then twenty times while loops
come and go on every processor, by a seed. Half of the races begin with the slower engine in use, which has to change,
half with the faster one, which has to stay. A race may be refused; what it must not be is wrong. Takes half an hour at
most, and a computer that is quiet otherwise.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.client.http import GatewayClient, quote_segment
from app.core.api import GUIDE
from app.core.benchmarks import BenchmarkSettings, RaceResult, StartRace
from app.core.engine_store import InstallEngine
from app.core.errors import RoundhouseError
from app.core.events import RaceChanged
from app.core.models import ModelSettings, SetModel
from tests.bench.doc_spans import write_span
from tests.bench.engine_installs import run_gateway, wait_for_job
from tests.bench.figures import BenchFigure, at_most, not_measured
from tests.bench.real_engines import LONGEST_S, PAGE, follow_job, note

SPAN = "disturbed races"
ENGINES = ("llama.cpp", "mistral.rs")
RACES = 20
ATTEMPTS = 3
"""For a verdict in quiet."""
REFUSALS = frozenset({"benchmark_disturbed", "benchmark_noisy"})
REFUSED = "refused"
_SETTINGS = BenchmarkSettings(requests=4, answer_tokens=48)
_LOOP = """
import random, sys, time
draw = random.Random(sys.argv[1])
while True:
    end = time.monotonic() + draw.uniform(0.5, 8)
    while time.monotonic() < end:
        pass
    time.sleep(draw.uniform(0.5, 15))
"""
"""What is busy for up to eight seconds, rests for up to fifteen, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbedRaces:
    """Who is faster in quiet, and what each race beside the loops came to: an engine, `REFUSED`, or what went wrong."""

    right: str
    outcomes: list[str]
    duration_s: float

    @property
    def wrong(self) -> int:
        """How many named the slower engine, or failed."""
        return sum(outcome not in {self.right, REFUSED} for outcome in self.outcomes)


def measure() -> Sequence[BenchFigure]:
    """Return how many races beside busy loops were wrong."""
    name = f"races beside busy loops, wrong of {RACES}"
    try:
        races = run_races(RACES)
    except RoundhouseError as error:
        return [not_measured(name, "<= 0", str(error))]
    return [at_most(name, races.wrong, 0)]


def run_races(count: int) -> DisturbedRaces:
    """Run them. Raises RoundhouseError where the computer is never quiet enough for a verdict without the loops."""
    began = time.monotonic()
    with run_gateway() as (client, _, _):
        wait_for_job(client, f"/engines/{quote_segment(ENGINES[1])}/install", InstallEngine())
        right = _race_in_quiet(client)
        outcomes: list[str] = []
        for number in range(count):
            note(f"race {number + 1} beside busy loops")
            with run_busy_loops(number):
                outcomes.append(_race_once(client, ENGINES[number % len(ENGINES)]))
    return DisturbedRaces(right=right, outcomes=outcomes, duration_s=time.monotonic() - began)


@contextmanager
def run_busy_loops(seed: int) -> Iterator[None]:
    """Keep a loop on every processor busy, with rests."""
    seeds = [f"{seed}-{number}" for number in range(os.cpu_count() or 2)]
    loops = [subprocess.Popen((sys.executable, "-c", _LOOP, part)) for part in seeds]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _race_in_quiet(client: GatewayClient) -> str:
    for attempt in range(ATTEMPTS):
        note(f"race in quiet, attempt {attempt + 1}")
        outcome = _race_once(client, ENGINES[0])
        if outcome in ENGINES:
            return outcome
    raise RoundhouseError(f"In quiet it came to no verdict: {outcome}.")


def _race_once(client: GatewayClient, engine: str) -> str:
    """Return who won with `engine` in use before, `REFUSED`, or what went wrong."""
    client.post("/model-settings", SetModel(model=GUIDE, settings=ModelSettings(engine=engine)), object)
    try:
        client.post("/races", StartRace(model=GUIDE, settings=_SETTINGS), RaceChanged, timeout_s=LONGEST_S)
        result: RaceResult | None = follow_job(client, RaceChanged).result
    except RoundhouseError as error:
        return REFUSED if error.code in REFUSALS else str(error)
    return result.winner if result is not None else "no result"


def describe_races(races: DisturbedRaces) -> Iterator[str]:
    """Yield the lines of the docs."""
    counts = Counter(races.outcomes)
    yield (
        f"The Guide on {' and '.join(ENGINES)}, loops that come and go on {os.cpu_count()} processors, on "
        f"{time.strftime('%d %B %Y')}, in {races.duration_s / 60:.0f} min: of {len(races.outcomes)} races "
        f"{counts[REFUSED]} were refused, {counts[races.right]} named {races.right}, which is the faster one in quiet, "
        f"and {races.wrong} were wrong."
    )


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with `--write` put it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.disturbed_races", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    parser.add_argument("--races", type=int, default=RACES, help="how many")
    options = parser.parse_args(arguments)
    races = run_races(options.races)
    text = "\n".join(describe_races(races))
    sys.stdout.write(f"{text}\n")
    for outcome in races.outcomes:
        note(outcome)
    if options.write:
        write_span(PAGE, SPAN, text)
    return int(races.wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
