"""Who wins a race: the faster one where that is beyond noise, and the one of before where it is not."""

import random

import msgspec
import pytest

from app.benchmark.racing import LEAST_GAIN, describe_race, pick_winner, race_entry
from app.core.benchmarks import BenchmarkReceipt, Figure, RaceEntry
from tests.unit.benchmark.receipts import make_receipt

OLD, NEW = "llama.cpp", "openvino"
NAMES = {OLD: "llama.cpp", NEW: "OpenVINO"}


def receipt_of(draw: random.Random, engine: str, token_s: float) -> BenchmarkReceipt:
    return make_receipt([token_s * draw.gauss(1, 0.04) for _ in range(8)], engine=engine)


def entries_of(old: BenchmarkReceipt, new: BenchmarkReceipt) -> list[RaceEntry]:
    return [race_entry(receipt, old) for receipt in (old, new)]


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("seed", range(20))
def test_the_faster_engine_wins(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 -- drawn to measure
    entries = entries_of(receipt_of(draw, OLD, 0.10), receipt_of(draw, NEW, 0.07))
    assert pick_winner(entries, OLD) == NEW
    assert "OpenVINO is used from now on: its answers take at most" in describe_race(entries, OLD, NEW, NAMES)


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("seed", range(20))
def test_the_engine_of_before_stays_where_the_difference_is_noise(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 -- as above
    entries = entries_of(receipt_of(draw, OLD, 0.10), receipt_of(draw, NEW, 0.10))
    assert pick_winner(entries, OLD) == OLD
    sentence = "llama.cpp stays: no other engine is clearly faster (by at least 5 %, with 95 % confidence)."
    assert describe_race(entries, OLD, OLD, NAMES) == sentence


def test_a_gain_that_nobody_feels_changes_nothing() -> None:
    steady = [0.1] * 8
    new = make_receipt([part * (1 - LEAST_GAIN / 2) for part in steady], engine=NEW)
    assert pick_winner(entries_of(make_receipt(steady), new), OLD) == OLD


def test_a_gain_that_may_be_too_small_changes_nothing() -> None:
    entry = RaceEntry(engine=NEW, e2e_s=0.9, ratio=Figure(value=0.9, low=0.83, high=0.97))
    assert pick_winner([RaceEntry(engine=OLD, e2e_s=1.0), entry], OLD) == OLD
    certain = msgspec.structs.replace(entry, ratio=Figure(value=0.9, low=0.85, high=0.94))
    entries = [RaceEntry(engine=OLD, e2e_s=1.0), certain]
    assert pick_winner(entries, OLD) == NEW
    assert describe_race(entries, OLD, NEW, NAMES) == (
        "OpenVINO is used from now on: its answers take at most 0.94 times as long as with llama.cpp, with 95 % "
        "confidence (0.90 measured)."
    )


def test_the_fastest_of_several_wins() -> None:
    old = make_receipt([0.1] * 8)
    others = [make_receipt([token_s] * 8, engine=name) for name, token_s in (("a", 0.05), ("b", 0.03), ("c", 0.08))]
    assert pick_winner([race_entry(part, old) for part in (old, *others)], OLD) == "b"


def test_an_engine_that_came_to_nothing_is_replaced_by_one_that_runs() -> None:
    entries = [RaceEntry(engine=OLD, problem="It died."), race_entry(make_receipt([0.1] * 8, engine=NEW), None)]
    assert pick_winner(entries, OLD) == NEW
    assert "could not be measured" in describe_race(entries, OLD, NEW, NAMES)
    assert pick_winner([msgspec.structs.replace(entries[0])], OLD) == OLD
