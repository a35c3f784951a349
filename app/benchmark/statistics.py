"""What many measurements of one thing come to: percentiles, intervals by bootstrap, and whether they are too noisy.

Intervals come of drawing as many measurements again with repetition, many times, and looking at where 95 % of the
medians lie (Efron 1979): nothing is supposed about how they spread. A seed decides the draws, so they can be repeated.

Only the median of what is drawn matters, and where that lies among the sorted measurements is known: the k-th smallest
of n random places follows a beta distribution. So it is drawn by itself, with the same outcome as drawing and sorting
them all, which took a second for a benchmark's gaps between tokens.
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
MOST_SPREAD = 0.2
"""How far the slowest of equal rounds may be from the fastest; a quiet computer repeats to a few percent."""

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


def bootstrap(values: Sequence[float], *, seed: int = 0) -> Figure:
    """Return the median of the values with its interval. Raises ValueError for no values."""
    if not values:
        raise ValueError("There is no interval of nothing.")
    draw = random.Random(seed)  # noqa: S311 -- drawn to measure, not to hide
    sorted_values = sorted(values)
    value = median(sorted_values)
    results = [_draw_median(sorted_values, draw) for _ in range(DRAWS)]
    low, high = percentile(results, _TAIL), percentile(results, 1 - _TAIL)
    return Figure(value=value, low=min(low, value), high=max(high, value))


def _draw_median(sorted_values: Sequence[float], draw: random.Random) -> float:
    """Return the median of as many of the values as there are, drawn with repetition.

    Of `count` uniform numbers the k-th smallest is distributed as Beta(k, count + 1 - k), and the next one above it as
    the smallest of the `count - k` that are left.
    """
    count = len(sorted_values)
    half = (count + 1) // 2
    place = draw.betavariate(half, count + 1 - half)
    lower = sorted_values[min(count - 1, int(count * place))]
    if count % 2:
        return lower
    place += (1 - place) * draw.betavariate(1, half)
    return (lower + sorted_values[min(count - 1, int(count * place))]) / 2


def bootstrap_ratio(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Figure:
    """Return how many times the median of `first` the median of `second` is. Raises ValueError for no values."""
    if not first or not second:
        raise ValueError("There is no ratio to nothing.")
    draw = random.Random(seed)  # noqa: S311 -- as above
    before, after = sorted(first), sorted(second)
    results = [
        _draw_median(after, draw) / max(_draw_median(before, draw), 1e-12)  # no zero
        for _ in range(DRAWS)
    ]
    value = median(after) / max(median(before), 1e-12)
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
