from statistics import median
from xml.etree import ElementTree as ET

import msgspec
import pytest

from tests.bench import speed_accuracy
from tests.bench.speed_accuracy import (
    COVERAGE,
    MEDIAN,
    P90,
    SpeedCase,
    coverage,
    cross_validated_cases,
    fit_without,
    p90,
    predict_row,
)
from tests.bench.speed_plot import plot_family, render_svg
from tests.bench.speed_rows import SpeedRow, evaluation_rows, fit_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cases() -> tuple[SpeedCase, ...]:
    return cross_validated_cases()


def test_machines_never_seen_are_predicted_as_well_as_promised(cases: tuple[SpeedCase, ...]) -> None:
    errors = [abs(case.error) for case in cases]
    assert len(cases) > 250
    assert 100 * median(errors) <= MEDIAN
    assert 100 * p90(errors) <= P90
    assert 100 * coverage(cases) >= COVERAGE


def test_leaving_a_chip_out_changes_what_is_predicted_for_it() -> None:
    row = next(row for row in evaluation_rows() if row.chip in {other.chip for other in fit_rows()})
    with_it, without = (predict_row(row, fit_without(chip)) for chip in ("no such chip", row.chip))
    assert with_it.prediction != without.prediction
    assert with_it.high / with_it.prediction == pytest.approx(without.high / without.prediction)


def test_a_case_knows_whether_its_interval_held() -> None:
    row = evaluation_rows()[0]
    assert SpeedCase(row, 2 * row.decode, 0.9 * row.decode, 3 * row.decode).is_covered
    assert not SpeedCase(row, 2 * row.decode, 1.1 * row.decode, 3 * row.decode).is_covered
    assert SpeedCase(row, 2 * row.decode, 0, 0).error == 1


def test_nine_of_ten_errors_are_no_larger_than_p90() -> None:
    errors = [index / 100 for index in range(100)]
    assert p90(errors) == 0.9
    assert p90([0.5]) == 0.5


def test_two_models_tell_the_speed_of_the_others() -> None:
    """A machine made up to be a fourth slower than predicted is predicted right after two of its models."""
    rows = [row for row in evaluation_rows() if row.device.startswith("NVIDIA GeForce RTX 5070")]
    slower = [
        msgspec.structs.replace(row, decode=0.8 * predict_row(row, fit_without(row.chip)).prediction) for row in rows
    ]
    errors = list(speed_accuracy._after_pairs(slower))
    assert median(errors) < 0.02


def test_the_plot_has_a_point_for_every_case(cases: tuple[SpeedCase, ...]) -> None:
    drawn_plot = ET.fromstring(render_svg(cases))  # noqa: S314 -- our own
    points = [mark for mark in drawn_plot.iter("{http://www.w3.org/2000/svg}circle") if mark.get("r") == "3"]
    assert len(points) == len(cases)
    for mark in points:
        assert 0 < float(mark.get("cx", 0)) < 640 > float(mark.get("cy", 0)) > 0


def test_each_family_is_drawn_as_its_own(cases: tuple[SpeedCase, ...]) -> None:
    def of(row: SpeedRow) -> str:
        return next(plot_family(case) for case in cases if case.row is row)

    rows = evaluation_rows()
    assert of(next(row for row in rows if "1050 Ti" in row.device)) == "GeForce GTX 10"
    assert of(next(row for row in rows if "GB10" in row.device)) == "shared memory (GB10, Strix Halo)"
    assert of(next(row for row in rows if row.setting.engine.id == "mlx-lm")) == "Apple, MLX"
