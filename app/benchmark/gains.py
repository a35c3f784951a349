"""Whether something takes less time than before, and how that is said: by the end of the interval that is certain.

A ratio is how many times as long something takes. With 95 % confidence the true one lies in its interval, so what is
promised is `high`, and the median is only what was measured.
"""

from collections.abc import Sequence

from app.core.benchmarks import BenchmarkLevel, Figure

LEAST_GROWTH = 0.05
"""More tokens a second than that, all requests together, are worth having requests wait for each other."""


def is_faster_by(ratio: Figure, least_gain: float) -> bool:
    """Tell whether at least that share of the time is saved, with 95 % confidence."""
    return ratio.high <= 1 - least_gain


def is_noise(ratio: Figure) -> bool:
    """Tell whether the two may as well take equally long."""
    return ratio.low <= 1 <= ratio.high


def certain_gain(ratio: Figure) -> float:
    """Return by what share more is done in the same time, at least; below 0 where it may be less."""
    return 1 / ratio.high - 1


def find_saturation(levels: Sequence[BenchmarkLevel]) -> int | None:
    """Return the fewest requests at once beyond which no more is written; None where the most still gain."""
    *lower_levels, _most = sorted(levels, key=lambda level: level.concurrency)
    for level in lower_levels:
        rates = [part.answer_tokens_s.value for part in levels if part.concurrency > level.concurrency]
        if max(rates) <= (1 + LEAST_GROWTH) * level.answer_tokens_s.value:
            return level.concurrency
    return None


def format_ratio(ratio: Figure) -> str:
    """Return a ratio with its interval."""
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def describe_bound(ratio: Figure, other: str) -> str:
    """Return how long something takes at most, as in "at most 0.91 times as long as `other`"."""
    return f"at most {ratio.high:.2f} times as long as {other}, with 95 % confidence ({ratio.value:.2f} measured)"


def describe_change(ratio: Figure) -> str:
    """Return how many times as long something takes, or that nobody can tell it from before."""
    return "no difference beyond noise" if is_noise(ratio) else f"{format_ratio(ratio)} times as long"
