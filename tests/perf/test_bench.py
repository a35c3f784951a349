"""The benchmarks work, in small; what they measure is for `make bench`, on a quiet machine."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.bench import __main__ as bench
from app.bench import proxy_cost, startup, throughput, ttft_cost
from app.bench.figures import Figure, Measurement, at_least, at_most, not_measured, table
from tests.gguf_files import TinyLlama

FIGURES = [at_most("a thing", 1.25, 1.3), at_least("b", 0.8, 0.95, "s"), not_measured("c", "<= 1", "not here")]


def test_the_table_says_what_holds() -> None:
    assert table(FIGURES).splitlines() == [
        "what    | measured | target    | ok",
        "--------+----------+-----------+----",
        "a thing | 1.25     | <= 1.3    | yes",
        "b       | 0.8 s    | >= 0.95 s | NO",
        "c       | not here | <= 1      | -",
    ]


def fine() -> Sequence[Figure]:
    return [FIGURES[0], FIGURES[2]]


def missed() -> Sequence[Figure]:
    return [FIGURES[1]]


def test_a_missed_target_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    here = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "measured_here", here)
    listed = (Measurement("fine", "measured_here:fine"), Measurement("missed", "measured_here:missed"))
    monkeypatch.setattr(bench, "MEASUREMENTS", listed)
    assert bench.main(["fine"]) == 0
    assert capsys.readouterr().out.count("\n") == 4
    assert bench.main([]) == 1
    assert "NO" in capsys.readouterr().out
    assert bench.main(["other"]) == 2
    assert "fine, missed" in capsys.readouterr().err


@pytest.mark.parametrize("measurement", bench.MEASUREMENTS)
def test_every_measurement_in_the_list_exists(measurement: Measurement) -> None:
    assert callable(bench._function(measurement))


def test_startup_measures() -> None:
    seconds, megabytes = startup.measure(runs=1, settle_s=0.1)
    assert 0.05 < float(seconds.measured.split()[0]) < 20
    assert 20 < float(megabytes.measured.split()[0]) < 500


def test_both_proxies_are_measured_in_the_same_run() -> None:
    ratio, spent = proxy_cost.measure(rounds=1, chunks=60)
    assert float(ratio.measured) > 0.2
    assert spent.ok is None


def test_added_time_is_measured() -> None:
    ratio, added = ttft_cost.measure(waves=1)
    assert ratio.ok is not None
    assert "ms" in added.measured


@pytest.mark.real_engine
def test_throughput_is_measured_with_the_real_engine(tmp_path: Path) -> None:
    share, speed, *_ = throughput.measure(TinyLlama().write(tmp_path / "tiny.gguf"), rounds=1, tokens=50)
    assert float(share.measured) > 0.1
    assert speed.measured.endswith("tokens/s")


def test_without_a_model_it_says_what_is_missing(tmp_path: Path) -> None:
    assert [figure.ok for figure in throughput.measure(tmp_path / "none.gguf")] == [None, None]
