"""ExLlamaV3's speed: its own published points, the constants they give, and the interval they lie in."""

import pytest

from app.advisor.speed.estimate import decode_rate
from app.advisor.speed.families import DEVICES, SOFTWARE
from tests.bench.fit_exl3 import class_of, exl3_parts, left_out_errors
from tests.bench.fit_speed import EFFICIENCY, LAYER, fit_constants
from tests.bench.speed_rows import exl3_rows


def test_what_is_shipped_is_what_its_points_give() -> None:
    fit = fit_constants(exl3_rows(), exl3_parts).constants
    for name in ("exl3", "exl3 ampere"):
        share = DEVICES["geforce"].efficiency * SOFTWARE[name].read_share
        assert 1 / fit[f"{EFFICIENCY} {name}"] == pytest.approx(share, rel=0.01)
        assert fit[f"{LAYER} {name}"] == pytest.approx(1e6 * SOFTWARE[name].layer_s, rel=0.02)


def test_nine_of_ten_points_lie_in_the_interval_that_is_stated() -> None:
    rates = [(row, decode_rate(row.facts, row.machine, row.setting, depth=row.depth)) for row in exl3_rows()]
    inside = [rate is not None and rate.low <= row.decode <= rate.high for row, rate in rates]
    assert sum(inside) >= 0.9 * len(inside) >= 18


def test_a_card_is_predicted_without_its_own_points() -> None:
    errors = sorted(error for of_class in left_out_errors().values() for error in of_class)
    assert errors[len(errors) // 2] < 0.1
    assert errors[int(0.9 * len(errors))] < 0.3


def test_ampere_cards_unpack_trellises_more_slowly() -> None:
    classes = {row.chip: class_of(row) for row in exl3_rows()}
    assert classes["NVIDIA GeForce RTX 3090"] == "exl3 ampere"
    assert classes["NVIDIA GeForce RTX 4090"] == classes["NVIDIA GeForce RTX 5090"] == "exl3"
