"""Each measured model predicted as if it were new: by the tables, and by what the others showed."""

import pytest

from app.advisor.speed.left_out import measure_left_out
from tests.unit.advisor.test_calibration import sample, seconds

SIZES = {"a": (0.3, 12.0), "b": (1.1, 16.0), "c": (4.7, 36.0), "d": (8.0, 32.0)}


def test_what_others_showed_predicts_a_model_better_than_the_tables() -> None:
    by_model = {
        name: [sample(size, layers, seconds(size, layers, efficiency=0.5, layer_s=50e-6))] * 3
        for name, (size, layers) in SIZES.items()
    }
    errors = measure_left_out(by_model)
    assert len(errors.before) == len(errors.after) == 4
    assert min(errors.before) > 0.3, "the tables expect 0.85"
    assert max(errors.after) < 0.1


def test_a_model_is_not_predicted_from_its_own_answers() -> None:
    honest = sample(4.7, 36.0, seconds(4.7, 36.0, efficiency=0.85, layer_s=50e-6))
    strange = sample(4.7, 36.0, 2 * seconds(4.7, 36.0, efficiency=0.85, layer_s=50e-6))
    errors = measure_left_out({"usual": [honest] * 5, "strange": [strange] * 5})
    assert sorted(errors.before) == pytest.approx([0.0, 1.0], abs=0.01)
    assert max(errors.after) == pytest.approx(1.0, abs=0.1), "nothing of its own made it better"


def test_a_model_alone_on_its_engine_build_says_nothing() -> None:
    errors = measure_left_out({"a": [sample(1, 10, 0.1)], "b": [sample(1, 10, 0.1, version="2")]})
    assert errors.before == errors.after == []
