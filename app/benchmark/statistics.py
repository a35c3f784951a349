"""What many measurements of one thing come to: percentiles, intervals by bootstrap, and whether they are too noisy.

Intervals come of drawing as many measurements again with repetition, many times, and looking at where 95 % of the
results lie (Efron 1979): nothing is supposed about how they spread. A seed decides the draws, so they can be repeated.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, pstdev

from app.core.benchmarks import BenchmarkSample, Distribution, Figure

DRAWS = 400
"""The ends of an interval move by a tenth of its width from seed to seed."""
_TAIL = 0.025
_MOST_DRAWN = 2000
"""Values drawn from at most: gaps between tokens are tens of thousands, and their median is known well from these."""
MOST_SPREAD = 0.2
"""How far the slowest of equal rounds may be from the fastest; a quiet computer repeats to a few percent."""

Statistic = Callable[[Sequence[float]], float]
SampleTime = Callable[[BenchmarkSample], float]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0..1) of them lie, between two neighbours in proportion, as NumPy does.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("There is no percentile of nothing.")
    sorted_values = sorted(values)
    position = (len(sorted_values) - 1) * share
    below = math.floor(position)
    above = min(below + 1, len(sorted_values) - 1)
    return sorted_values[below] + (sorted_values[above] - sorted_values[below]) * (position - below)


def bootstrap(values: Sequence[float], statistic: Statistic = median, *, seed: int = 0) -> Figure:
    """Return a statistic of the values with its interval. Raises ValueError for no values."""
    if not values:
        raise ValueError("There is no interval of nothing.")
    value = statistic(values)
    draw = random.Random(seed)  # noqa: S311 -- drawn to measure, not to hide
    pool = list(values) if len(values) <= _MOST_DRAWN else draw.sample(list(values), _MOST_DRAWN)
    results = [statistic(draw.choices(pool, k=len(pool))) for _ in range(DRAWS)] if len(pool) > 1 else [value]
    low, high = percentile(results, _TAIL), percentile(results, 1 - _TAIL)
    return Figure(value=value, low=min(low, value), high=max(high, value))


def bootstrap_ratio(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Figure:
    """Return how many times the median of `first` the median of `second` is. Raises ValueError for no values."""
    if not first or not second:
        raise ValueError("There is no ratio to nothing.")
    draw = random.Random(seed)  # noqa: S311 -- as above
    results = [
        median(draw.choices(second, k=len(second))) / max(median(draw.choices(first, k=len(first))), 1e-12)  # no zero
        for _ in range(DRAWS)
    ]
    value = median(second) / max(median(first), 1e-12)
    return Figure(value=value, low=percentile(results, _TAIL), high=percentile(results, 1 - _TAIL))


def bootstrap_time_ratio(
    first: Sequence[BenchmarkSample], second: Sequence[BenchmarkSample], time_of: SampleTime, *, seed: int = 0
) -> Figure:
    """Return how many times as long the requests of `second` take as those of `first`, like with like.

    Each time is divided by the median of its prompt on both sides before ratios are drawn: a workload has short and
    long prompts, and how much these differ from each other says nothing about who is faster. Prompts that only one side
    was asked count for nothing. Raises ValueError where the sides have no prompt in common.
    """
    sides = [_times_by_prompt(samples, time_of) for samples in (first, second)]
    usual = {prompt: median([*sides[0][prompt], *sides[1][prompt]]) for prompt in sides[0].keys() & sides[1].keys()}
    before, after = ([time / max(usual[prompt], 1e-12) for prompt in usual for time in side[prompt]] for side in sides)
    return bootstrap_ratio(before, after, seed=seed)


def _times_by_prompt(samples: Sequence[BenchmarkSample], time_of: SampleTime) -> Mapping[int, list[float]]:
    times: defaultdict[int, list[float]] = defaultdict(list)
    for sample in samples:
        times[sample.prompt].append(time_of(sample))
    return times


def describe_values(values: Sequence[float], *, seed: int = 0) -> Distribution:
    """Return how the values spread; all zero for no values."""
    if not values:
        return Distribution(count=0, mean=0.0, median=Figure(value=0.0, low=0.0, high=0.0), p95=0.0, p99=0.0)
    return Distribution(
        count=len(values),
        mean=fmean(values),
        median=bootstrap(values, seed=seed),
        p95=percentile(values, 0.95),
        p99=percentile(values, 0.99),
        deviation=pstdev(values),
    )


def spread(values: Sequence[float]) -> float:
    """Return how far values that should be equal differ: from smallest to largest, of the median."""
    middle = median(values) if values else 0.0
    return (max(values) - min(values)) / middle if middle else 0.0


def is_noisy(rates: Sequence[float]) -> bool:
    """Return whether equal rounds differ by so much that their median says little."""
    return spread(rates) > MOST_SPREAD
