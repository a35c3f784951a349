"""Percentiles, intervals and noise, against what is known of them."""

import random
from bisect import bisect_right
from statistics import median

import msgspec
import pytest

from app.benchmark.statistics import (
    MOST_SPREAD,
    _draw_median,
    bootstrap,
    bootstrap_ratio,
    bootstrap_time_ratio,
    describe_values,
    is_noisy,
    percentile,
    spread,
)
from tests.unit.benchmark.receipts import make_timing


@pytest.mark.parametrize(
    ("values", "share", "expected_value"),
    [
        ([3.0], 0.95, 3.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.5, 3.0),
        ([5.0, 1.0, 4.0, 2.0], 0.5, 3.0),
        ([0.0, 10.0], 0.95, 9.5),
        (list(map(float, range(101))), 0.99, 99.0),
    ],
)
def test_a_percentile_is_what_numpy_says(values: list[float], share: float, expected_value: float) -> None:
    assert percentile(values, share) == pytest.approx(expected_value)


def test_there_is_no_percentile_and_no_interval_of_nothing() -> None:
    with pytest.raises(ValueError, match="percentile of nothing"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="interval of nothing"):
        bootstrap([])
    with pytest.raises(ValueError, match="ratio to nothing"):
        bootstrap_ratio([1.0], [])
    assert describe_values([]).count == 0


@pytest.mark.slow
def test_an_interval_holds_the_true_median_nineteen_times_of_twenty() -> None:
    draw = random.Random(1)  # noqa: S311 -- drawn to measure
    trials = 200
    hits = 0
    for seed in range(trials):
        figure = bootstrap([draw.gauss(10.0, 1.0) for _ in range(30)], seed=seed)
        hits += figure.low <= 10.0 <= figure.high
    assert 0.88 <= hits / trials <= 1.0


def test_an_interval_is_the_same_for_the_same_seed_and_narrows_with_more_values() -> None:
    draw = random.Random(2)  # noqa: S311 -- drawn to measure
    values = [draw.uniform(1, 2) for _ in range(400)]
    assert bootstrap(values, seed=5) == bootstrap(values, seed=5)
    few, many = bootstrap(values[:20]), bootstrap(values)
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 10])
def test_a_median_drawn_by_itself_is_as_likely_as_that_of_all_values_drawn(count: int) -> None:
    """Shares of 4,000 draws below each value: one standard error of their difference is 0.011."""
    draw, values, draws = random.Random(4), [float(number * number) for number in range(count)], 4_000  # noqa: S311 -- drawn to measure
    alone = sorted(_draw_median(values, draw) for _ in range(draws))
    of_all = sorted(median(draw.choices(values, k=count)) for _ in range(draws))
    for value in {*values, *of_all[:: draws // 50]}:
        assert bisect_right(alone, value) / draws == pytest.approx(bisect_right(of_all, value) / draws, abs=0.04)


def test_many_values_are_described_by_all_of_them() -> None:
    values = [float(number % 100) for number in range(50_000)]
    description = describe_values(values)
    assert description.count == 50_000
    assert description.median.value == 49.5
    assert description.median.low <= 49.5 <= description.median.high


def test_equal_values_have_no_spread_and_a_ratio_of_one() -> None:
    assert spread([2.0, 2.0, 2.0]) == 0
    figure = bootstrap_ratio([2.0] * 5, [2.0] * 5)
    assert (figure.low, figure.value, figure.high) == (1, 1, 1)


def test_a_ratio_leaves_out_one_where_the_difference_is_real_and_holds_it_where_it_is_noise() -> None:
    draw = random.Random(3)  # noqa: S311 -- drawn to measure
    first = [draw.gauss(10, 0.5) for _ in range(30)]
    slower = bootstrap_ratio(first, [draw.gauss(12, 0.5) for _ in range(30)])
    assert slower.low > 1
    same = bootstrap_ratio(first, [draw.gauss(10, 0.5) for _ in range(30)])
    assert same.low <= 1 <= same.high


def test_short_and_long_prompts_are_compared_each_with_its_own() -> None:
    first = [make_timing(length, 0.0, prompt=place).sample for _ in range(3) for place, length in enumerate([1, 5, 20])]
    second = [msgspec.structs.replace(sample, ttft_s=sample.ttft_s * 0.9, e2e_s=sample.e2e_s * 0.9) for sample in first]
    unlike = bootstrap_ratio([sample.e2e_s for sample in first], [sample.e2e_s for sample in second])
    alike = bootstrap_time_ratio(first, second, lambda sample: sample.e2e_s)
    assert unlike.low < 0.5
    assert unlike.high > 1
    assert [alike.low, alike.value, alike.high] == pytest.approx([0.9] * 3)


def test_prompts_that_one_side_was_not_asked_count_for_nothing() -> None:
    first = [make_timing(1.0, 0.0, prompt=0).sample, make_timing(9.0, 0.0, prompt=1).sample]
    second = [make_timing(2.0, 0.0, prompt=0).sample]
    assert bootstrap_time_ratio(first, second, lambda sample: sample.e2e_s).value == 2
    with pytest.raises(ValueError, match="no ratio"):
        bootstrap_time_ratio(first[1:], second, lambda sample: sample.e2e_s)


def test_rounds_are_too_noisy_beyond_a_fifth() -> None:
    assert not is_noisy([100.0, 100.0 + 100 * MOST_SPREAD / 2, 100.0])
    assert is_noisy([100.0, 130.0, 100.0])
    assert not is_noisy([])
