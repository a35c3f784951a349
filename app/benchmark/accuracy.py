"""How far predictions were off: each benchmark against what was predicted before it, first ones by themselves.

The first of a model on an engine was predicted without anything measured of it, as for a model that is left out; later
ones were predicted from what was learned. The error is that of a ratio: twice too fast and twice too slow are alike.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from app.core.benchmarks import BenchmarkReceipt, PredictionAccuracy


def compare_with_predictions(receipts: Iterable[BenchmarkReceipt]) -> PredictionAccuracy:
    """Return the median errors of the first and of later benchmarks; disturbed ones say nothing."""
    firsts: list[float] = []
    later: list[float] = []
    known: set[tuple[str, str]] = set()
    for receipt in sorted(receipts, key=lambda part: part.at):
        key, error = (receipt.target.model, receipt.target.engine), _error_of(receipt)
        if error is not None and not receipt.disturbances:
            (later if key in known else firsts).append(error)
            known.add(key)
    return PredictionAccuracy(
        first_count=len(firsts), first_error=_median(firsts), later_count=len(later), later_error=_median(later)
    )


def describe_accuracy(accuracy: PredictionAccuracy) -> str:
    """Return it in a sentence; empty where nothing was predicted and measured."""
    if accuracy.first_error is None:
        return ""
    first = f"Speeds were predicted {accuracy.first_error * 100:.0f} % off before anything was measured of a model"
    counts = f"(median of {accuracy.first_count})"
    if accuracy.later_error is None:
        return f"{first} {counts}."
    return f"{first} {counts}, and {accuracy.later_error * 100:.0f} % off after (median of {accuracy.later_count})."


def _error_of(receipt: BenchmarkReceipt) -> float | None:
    """Return how many times too fast or too slow, less one; None where nothing was predicted of one at a time."""
    predicted, level = receipt.prediction.decode_tokens_s, receipt.first_level
    measured = level.decode_tokens_s.value
    if not predicted or level.concurrency != 1 or measured <= 0:
        return None
    return math.exp(abs(math.log(measured / predicted))) - 1


def _median(errors: Sequence[float]) -> float | None:
    return median(errors) if errors else None
