"""Rounds are compared within themselves, and whoever goes first in one goes last in the next."""

import asyncio
from typing import Any, cast

import pytest

from tests.bench.figures import at_least, percentile
from tests.bench.proxies import GO, OURS, Extent, ProxyComparison, _against_go
from tests.bench.proxy_turns import StreamPace

ROUNDS = [{GO: 10.0, OURS: 20.0}, {GO: 100.0, OURS: 50.0}, {GO: 1.0, OURS: 0.7}]


def test_the_median_is_that_of_the_rounds_ratios() -> None:
    figure = _against_go("cost", ROUNDS, OURS, 0.75)
    assert (figure.measurement, figure.target, figure.ok) == ("0.7", "<= 0.75", True)
    assert _against_go("cost", ROUNDS, OURS, 0.6).ok is False
    assert _against_go("answers", ROUNDS, OURS, 0.5, at_least).ok is True


def test_without_go_there_is_no_ratio() -> None:
    figure = _against_go("answers", [{OURS: 1.0}], OURS, 0.5, at_least)
    assert (figure.measurement, figure.target, figure.ok) == ("needs Go", ">= 0.5", None)


def test_everybody_has_a_turn_in_every_round_and_goes_first_once() -> None:
    order = []

    async def turn(name: str) -> str:
        order.append(name)
        return name.upper()

    sides = ProxyComparison(engine=cast("Any", None), proxies={}, extent=Extent(rounds=3))
    rounds = asyncio.run(sides.run_rounds(["a", "b", "c"], turn))
    assert rounds == [{"a": "A", "b": "B", "c": "C"}] * 3
    assert "".join(order) == "abcbcacab"


def test_a_pace_is_put_as_the_scripted_engine_reads_it() -> None:
    assert StreamPace(16, 50).prompt_text(7) == "7 tokens at 50 per second"
    assert StreamPace(16, 50, in_step=True).prompt_text(7) == "7 tokens at 50 per second in step"
    assert str(StreamPace(16, 50, in_step=True)) == "16 x 50/s in step"


@pytest.mark.parametrize(("percent", "value"), [(50, 50.0), (98, 98.0), (99, 99.0)])
def test_a_percentile_is_not_exceeded_by_so_many(percent: int, value: float) -> None:
    assert percentile(range(101), percent) == value
