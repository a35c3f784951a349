"""The benchmarks work, in small, slow ones each night; what they measure is for `make bench`, on a quiet machine."""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from app.core.benchmarks import Figure, Workload
from tests.bench import __main__ as bench
from tests.bench import (
    cancelling,
    completing,
    crowd,
    disturbed_races,
    downloading,
    go_proxy,
    guide,
    indexing,
    proxies,
    proxy_turns,
    soak,
    startup,
    throughput,
    tuned,
)
from tests.bench.figures import BenchFigure, Measurement, at_least, at_most, figure_table, not_measured
from tests.bench.load import dialect_routes
from tests.bench.proxied import start_proxied_engine
from tests.bench.proxy_turns import ProxyTurn, StreamPace
from tests.demo.benchmarks import TUNING_RESULT
from tests.depth import deep_only
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

SLOW = deep_only("it measures for seconds")
FIGURES = [at_most("a thing", 1.25, 1.3), at_least("b", 0.8, 0.95, "s"), not_measured("c", "<= 1", "not here")]


def test_the_table_says_what_holds() -> None:
    assert figure_table(FIGURES).splitlines() == [
        "what    | measured | target    | ok",
        "--------+----------+-----------+----",
        "a thing | 1.25     | <= 1.3    | yes",
        "b       | 0.8 s    | >= 0.95 s | NO",
        "c       | not here | <= 1      | -",
    ]


def fine() -> Sequence[BenchFigure]:
    return [FIGURES[0], FIGURES[2]]


def list_missed() -> Sequence[BenchFigure]:
    return [FIGURES[1]]


def test_a_missed_target_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    here = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "measured_here", here)
    figures = (Measurement("fine", "measured_here:fine"), Measurement("missed", "measured_here:list_missed"))
    monkeypatch.setattr(bench, "MEASUREMENTS", figures)
    assert bench.main(["fine"]) == 0
    assert capsys.readouterr().out.count("\n") == 4
    assert bench.main([]) == 1
    assert "NO" in capsys.readouterr().out
    assert bench.main(["other"]) == 2
    assert "fine, missed" in capsys.readouterr().err


def test_what_lasts_is_told_for_how_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def measure_for(minutes: float = 1.0) -> Sequence[BenchFigure]:
        return [at_most("minutes", minutes, 60)]

    monkeypatch.setitem(sys.modules, "measured_here", SimpleNamespace(lasting=measure_for))
    monkeypatch.setattr(bench, "MEASUREMENTS", (Measurement("lasting", "measured_here:lasting", lasts=True),))
    assert bench.main(["lasting", "--minutes", "7"]) == 0
    assert "7" in capsys.readouterr().out


@pytest.mark.parametrize("measurement", bench.MEASUREMENTS)
def test_every_measurement_in_the_list_exists(measurement: Measurement) -> None:
    assert callable(bench._function(measurement))


def test_a_library_of_many_stores_is_looked_through() -> None:
    indexed_files, cold, restarted_s, again = indexing.measure(files=21)
    assert float(indexed_files.measurement) == 1
    assert float(cold.measurement.split()[0]) < 20
    assert float(restarted_s.measurement.split()[0]) < 20
    assert again.measurement.endswith("ms")


@SLOW
def test_startup_measures() -> None:
    seconds, spent_s, megabytes, up = startup.measure(runs=1, settle_s=0.1)
    for figure in (seconds, spent_s, up):
        assert 0.05 < float(figure.measurement.split()[0]) < 20
    assert 20 < float(megabytes.measurement.split()[0]) < 500


@SLOW
def test_all_proxies_are_measured_in_every_dialect_and_without_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_go() -> Path:
        raise go_proxy.GoUnavailable("there is no Go")

    monkeypatch.setattr(go_proxy, "build", no_go)
    extent = proxies.Extent(rounds=1, streams_s=0.1, answers_s=0.05, pairs=2, tokens=2)
    figures = {figure.name: figure for figure in proxies.measure(extent)}
    assert figures["Go's proxy"].measurement == "there is no Go"
    assert {figure.measurement for name, figure in figures.items() if name.endswith("/ Go")} == {"needs Go"}
    costs = figures["CPU per chunk, 16 x 50/s"].measurement
    assert all(f"{name} " in costs for name in ("bare aiohttp", "gateway", *dialect_routes()))
    assert figures["200 x 20/s at once: tokens and ends lost"].measurement == "0"
    for dialect in ("native", *dialect_routes()):
        assert "ms" in figures[f"added to the first token beside 8 x 50/s, {dialect}, p50"].measurement


@SLOW
def test_commands_are_measured() -> None:
    for figure in guide.measure_help(runs=1):
        assert 0.01 < float(figure.measurement.split()[0]) < 20_000
        assert figure.ok is not None


@SLOW
@pytest.mark.real_engine
def test_first_tokens_are_measured() -> None:
    for figure in guide.measure_first_tokens(runs=1):
        assert 0.05 < float(figure.measurement.split()[0]) < 60


@SLOW
@pytest.mark.skipif(shutil.which("curl") is None, reason="it is what pulling is compared with")
def test_pulling_is_measured() -> None:
    (figure,) = downloading.measure_pull(size=1_000_000, pulls=1)
    assert 0.01 < float(figure.measurement.split()[0]) < 60


@pytest.mark.slow
def test_every_token_is_counted_once_in_every_dialect() -> None:
    with start_proxied_engine() as there:
        turns = {name: ProxyTurn(there.gateway, StreamPace(3, 500), name) for name in ("", *dialect_routes())}
        lost_by_name = {
            name: asyncio.run(proxy_turns.run_crowd(turn, tokens=7)).lost_count for name, turn in turns.items()
        }
    assert lost_by_name == dict.fromkeys(turns, 0)


@SLOW
def test_a_crowd_is_served() -> None:
    unserved_count, weight = crowd.measure(idle=70, streams=8)
    assert unserved_count.measurement == "0"
    assert 20 < float(weight.measurement.split()[0]) < 500


@pytest.mark.slow
def test_engines_learn_that_their_clients_have_gone() -> None:
    for figure in cancelling.measure(cancels=4):
        assert 0 < float(figure.measurement.split()[0]) < 10_000


@SLOW
def test_a_soak_finds_nothing_wrong_and_sees_what_is() -> None:
    figures = {figure.name: figure for figure in soak.measure(minutes=0.15)}
    assert figures["soak: wrong answers"].measurement == "0"
    assert figures["soak: processes left behind"].measurement == "0"
    assert int(figures["soak: right"].measurement) > 10
    assert "Ollama chat, streamed" in figures["soak: asked in"].measurement
    assert 20 < float(figures["soak: gateway resident memory at the end"].measurement.split()[0]) < 500


@SLOW
@pytest.mark.real_engine
def test_typing_on_is_measured_against_reading_anew() -> None:
    share, cold, typed_share = completing.measure(rounds=1)
    milliseconds = [float(figure.measurement.split()[0].replace(",", "")) for figure in (cold, typed_share)]
    assert all(0 < value < 60_000 for value in milliseconds)
    assert float(share.measurement) > 0


@pytest.mark.slow
@pytest.mark.real_engine
def test_throughput_is_measured_with_the_real_engine(tmp_path: Path) -> None:
    share, speed, *_ = throughput.measure(TinyLlama().write(tmp_path / "tiny.gguf"), rounds=1, tokens=50)
    assert float(share.measurement) > 0.1
    assert speed.measurement.endswith("tokens/s")


def test_without_a_model_it_says_what_is_missing(tmp_path: Path) -> None:
    assert [figure.ok for figure in throughput.measure(tmp_path / "none.gguf")] == [None, None]


def test_a_gain_is_what_is_certain_of_it() -> None:
    ratios = {"first token": Figure(value=0.5, low=0.4, high=1.1), "each token": Figure(value=0.7, low=0.6, high=0.8)}
    model = tuned.TunedModel(name="m", workload=Workload.CHAT, tune=TUNING_RESULT, ratios=ratios, disturbances=[])
    assert model.best_gain == pytest.approx(25)
    assert "| 25 % |" in "\n".join(tuned.describe_tunings({("m", Workload.CHAT): model}, duration_s=60))


def test_a_race_beside_busy_loops_is_right_refused_or_wrong() -> None:
    races = disturbed_races.DisturbedRaces(right="a", outcomes=["a", "refused", "b", "It died.", "a"], duration_s=60)
    assert races.wrong == 2
    (line,) = disturbed_races.describe_races(races)
    assert "of 5 races 1 were refused, 2 named a, which is the faster one in quiet, and 2 were wrong." in line


def test_the_loops_are_busy_and_end() -> None:
    before = psutil.Process().children()
    with disturbed_races.run_busy_loops(1):
        loops = [child for child in psutil.Process().children() if child not in before]
        wait_until(lambda: all(sum(loop.cpu_times()[:2]) > 0.1 for loop in loops))
    assert loops
    assert not any(loop.is_running() for loop in loops)
