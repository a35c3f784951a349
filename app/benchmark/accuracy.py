"""How far predictions were off: each benchmark against what was predicted before it, first ones by themselves.

The first of a model on an engine was predicted without anything measured of it, as for a model that is left out; later
ones were predicted from what was learned. The error is that of a ratio: twice too fast and twice too slow are alike.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from app.core.benchmarks import BenchmarkReceipt, PredictionAccuracy


def compare_with_predictions(receipts: Iterable[BenchmarkReceipt]) -> PredictionAccuracy:
    """Return the median errors of the first and of later benchmarks; disturbed ones say nothing."""
    firsts: list[float] = []
    later: list[float] = []
    known_pairs: set[tuple[str, str]] = set()
    for receipt in sorted(receipts, key=lambda part: part.at):
        key, error = (receipt.target.model, receipt.target.engine), _error_of(receipt)
        if error is not None and not receipt.disturbances:
            (later if key in known_pairs else firsts).append(error)
            known_pairs.add(key)
    return PredictionAccuracy(
        first_count=len(firsts), first_error=_median(firsts), later_count=len(later), later_error=_median(later)
    )


def add_left_out(accuracy: PredictionAccuracy, before: Sequence[float], after: Sequence[float]) -> PredictionAccuracy:
    """Return it with the medians of the errors of models that were left out, by the tables and by the others."""
    return msgspec.structs.replace(
        accuracy, left_out_count=len(before), left_out_before=_median(before), left_out_after=_median(after)
    )


def describe_accuracy(accuracy: PredictionAccuracy) -> str:
    """Return it in a sentence or two; empty where nothing was predicted and measured."""
    return " ".join(filter(None, (_describe_order(accuracy), _describe_left_out(accuracy))))


def _describe_left_out(accuracy: PredictionAccuracy) -> str:
    if accuracy.left_out_before is None or accuracy.left_out_after is None:
        return ""
    return (
        f"Each measured model predicted as if it were new: {accuracy.left_out_before * 100:.0f} % off by the tables, "
        f"{accuracy.left_out_after * 100:.0f} % off by what the others showed here "
        f"(median of {accuracy.left_out_count})."
    )


def _describe_order(accuracy: PredictionAccuracy) -> str:
    if accuracy.first_error is None:
        return ""
    first = f"Speeds were predicted {accuracy.first_error * 100:.0f} % off before anything was measured of a model"
    counts = f"(median of {accuracy.first_count})"
    if accuracy.later_error is None:
        return f"{first} {counts}."
    return f"{first} {counts}, and {accuracy.later_error * 100:.0f} % off after (median of {accuracy.later_count})."


def _error_of(receipt: BenchmarkReceipt) -> float | None:
    """Return how many times too fast or too slow, less one; None where nothing was predicted of one at a time."""
    prediction, level = receipt.prediction.decode_tokens_s, receipt.first_level
    measured_rate = level.decode_tokens_s.value
    if not prediction or level.concurrency != 1 or measured_rate <= 0:
        return None
    return math.exp(abs(math.log(measured_rate / prediction))) - 1


def _median(errors: Sequence[float]) -> float | None:
    return median(errors) if errors else None
