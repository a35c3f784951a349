"""Predictions against what was measured: before anything was known of a model, and after."""

import msgspec
import pytest

from app.benchmark.accuracy import compare_with_predictions, describe_accuracy
from app.core.benchmarks import BenchmarkPrediction, BenchmarkReceipt, PredictionAccuracy
from tests.unit.benchmark.receipts import make_receipt


def make_measured(
    at: float, predicted_tokens_s: float | None, *, model: str = "m", levels: tuple[int, ...] = (1,)
) -> BenchmarkReceipt:
    """Return a receipt of 10 tokens per second."""
    receipt = make_receipt([0.1] * 4, model=model, levels=levels)
    return msgspec.structs.replace(receipt, at=at, prediction=BenchmarkPrediction(decode_tokens_s=predicted_tokens_s))


def test_the_first_of_each_model_is_kept_apart_from_later_ones() -> None:
    accuracy = compare_with_predictions(
        [
            make_measured(3, 10.5),
            make_measured(1, 20),
            make_measured(2, 5, model="n"),
            make_measured(4, 9.5),
            make_measured(5, 8, model="n"),
        ]
    )
    assert (accuracy.first_count, accuracy.later_count) == (2, 3)
    assert accuracy.first_error == pytest.approx(1.0), "twice too fast and twice too slow are alike"
    assert accuracy.later_error == pytest.approx(10 / 9.5 - 1)
    assert "100 % off before" in describe_accuracy(accuracy)
    assert "5 % off after (median of 3)" in describe_accuracy(accuracy)


def test_models_left_out_are_said_beside() -> None:
    accuracy = PredictionAccuracy(
        first_count=0,
        first_error=None,
        later_count=0,
        later_error=None,
        left_out_count=5,
        left_out_before=0.42,
        left_out_after=0.07,
    )
    assert "42 % off by the tables, 7 % off by what the others showed here (median of 5)" in describe_accuracy(accuracy)


def test_what_was_disturbed_or_not_predicted_says_nothing() -> None:
    disturbed_receipt = msgspec.structs.replace(make_measured(1, 20), disturbances=["Busy."])
    accuracy = compare_with_predictions([disturbed_receipt, make_measured(2, None), make_measured(3, 20, levels=(2,))])
    assert accuracy.first_error is accuracy.later_error is None
    assert describe_accuracy(accuracy) == ""
    only = compare_with_predictions([disturbed_receipt, make_measured(2, 11)])
    assert (only.first_count, only.later_count) == (1, 0)
    assert "after" not in describe_accuracy(only)
