"""Races beside busy loops: each refuses or is right, 20 times of 20, by counts that a test plays instead of a clock.

Real are the repeats, what counts as quiet, the refusals, the intervals and the verdict. Played is what a round takes:
other programs slow an engine down by what they take of its processors, whether or not they take enough to be noticed.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.benchmark.results import BenchmarkRound
from app.core.benchmarks import StartRace
from app.core.models import ModelSettings
from app.gateway.benchmarking import run as benchmark_run
from app.gateway.benchmarking.run import BenchmarkRun
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.gateway.benchmarking.test_race import NEW, OLD, run_race
from tests.unit.benchmark.receipts import make_round, make_timing

parts = test_race.parts
RACES = 20
REQUESTS = 6
TOKEN_S = 0.01
LOUD, FAINT = 0.5, 0.02
"""Shares of the processors that busy loops take: two of four, and what nobody would notice."""


class BusyComputer:
    """Rounds as they would take on a computer where busy loops come and go, drawn by a seed."""

    def __init__(self, seed: int, ratio: float, loudness: float) -> None:
        self._draw = random.Random(seed)  # noqa: S311 -- a played computer
        self._paces = {OLD: TOKEN_S, NEW: TOKEN_S * ratio}
        self._loudness = loudness
        self.rounds = 0

    async def run_round(self, engine: str, level: int) -> BenchmarkRound:
        self.rounds += 1
        share = self._draw.choice((LOUD, 0.2)) if self._draw.random() < self._loudness else self._draw.uniform(0, FAINT)
        slowdown = 1 / (1 - share)
        times = [self._paces[engine] * slowdown * self._draw.gauss(1, 0.02) for _ in range(REQUESTS)]
        return make_round(
            [make_timing(0.1, token_s, concurrency=level) for token_s in times],
            concurrency=level,
            other_share=share,
            is_busy=not benchmark_run._is_quiet(share, "cpu"),
        )


PlayComputer = Callable[[BusyComputer], None]


@pytest.fixture
def play_computer(monkeypatch: pytest.MonkeyPatch) -> PlayComputer:
    async def warm_up(*_: object) -> None:
        return

    async def ask_again(*_: object) -> tuple[list[object], list[object]]:
        return [], []

    def install_computer(computer: BusyComputer) -> None:
        async def run_round(_run: object, _client: object, _target: object, request: Any, level: int) -> BenchmarkRound:  # noqa: ANN401 -- a StartBenchmark
            return await computer.run_round(request.settings.engine, level)

        monkeypatch.setattr(BenchmarkRun, "_run_round", run_round)

    monkeypatch.setattr(BenchmarkRun, "_warm_up", warm_up)
    monkeypatch.setattr(BenchmarkRun, "_measure_prefix", ask_again)
    return install_computer


async def race_often(
    services: Services, play_computer: PlayComputer, *, ratio: float, loudness: float
) -> Sequence[str]:
    """Return who won each time; empty for a race that was refused. Each begins with nothing set."""
    winners: list[str] = []
    for seed in range(RACES):
        play_computer(BusyComputer(seed, ratio, loudness))
        services.model_settings.change_settings("guide", ModelSettings())
        end = await run_race(services, StartRace(model="guide"))
        if end.result is None:
            assert end.code in {"benchmark_disturbed", "benchmark_noisy"}
            assert services.model_settings.settings_of("guide") == ModelSettings()
        winners.append(end.result.winner if end.result is not None else "")
    return winners


@pytest.mark.slow
@pytest.mark.usefixtures("upstream")
@pytest.mark.parametrize("loudness", [0.3, 0.6, 0.95])
@pytest.mark.parametrize(("ratio", "right"), [(0.8, NEW), (1.0, OLD), (1.25, OLD)])
async def test_a_race_beside_busy_loops_refuses_or_is_right_every_time(
    parts: Services,
    play_computer: PlayComputer,
    ratio: float,
    right: str,
    loudness: float,
) -> None:
    winners = await race_often(parts, play_computer, ratio=ratio, loudness=loudness)
    assert set(winners) <= {right, ""}
    if loudness < 0.5:
        assert right in winners, "with rests between the loops it comes to a verdict"


@pytest.mark.slow
@pytest.mark.usefixtures("upstream")
async def test_a_quiet_computer_always_comes_to_the_right_verdict(parts: Services, play_computer: PlayComputer) -> None:
    assert set(await race_often(parts, play_computer, ratio=0.8, loudness=0.0)) == {NEW}


@pytest.mark.slow
@pytest.mark.usefixtures("upstream")
async def test_without_repeats_and_refusals_busy_loops_would_decide(
    parts: Services,
    play_computer: PlayComputer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is played is able to deceive: this is what the watch is for."""
    monkeypatch.setattr(BenchmarkRun, "_needs_round", staticmethod(lambda *_: False))
    monkeypatch.setattr(benchmark_run, "round_disturbances", lambda _: [])
    winners = await race_often(parts, play_computer, ratio=1.0, loudness=0.6)
    assert NEW in winners
