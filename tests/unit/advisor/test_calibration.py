import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.advisor.speed.calibration import (
    BOUNDS_EFFICIENCY,
    BOUNDS_LAYER_S,
    LEAST_TOKENS,
    SpeedSample,
    is_usable,
    refine_calibration,
    solve_calibration,
)
from app.core.advice import Calibration, Generation

GB_S = 500.0


def sample(gigabytes: float, layers: float, seconds: float, **more: object) -> SpeedSample:
    plain: dict[str, object] = {
        "device": "gpu0",
        "engine": "llama.cpp",
        "version": "1",
        "backend": "cuda",
        "bandwidth_gb_s": GB_S,
        "bytes": gigabytes * 1e9,
        "layers": layers,
        "seconds": seconds,
        "expected_efficiency": 0.85,
        "expected_layer_s": 50e-6,
    }
    return msgspec.convert({**plain, **more}, SpeedSample)


def seconds(gigabytes: float, layers: float, *, efficiency: float, layer_s: float) -> float:
    return gigabytes / (efficiency * GB_S) + layers * layer_s


def truth(sizes: Sequence[tuple[float, float]], *, efficiency: float, layer_s: float) -> list[SpeedSample]:
    return [sample(gb, layers, seconds(gb, layers, efficiency=efficiency, layer_s=layer_s)) for gb, layers in sizes]


SIZES = ((0.3, 12.0), (4.7, 36.0))


@pytest.mark.parametrize(("efficiency", "layer_s"), [(0.85, 50e-6), (0.6, 150e-6), (0.95, 20e-6), (0.4, 300e-6)])
def test_two_models_give_back_the_machine_they_ran_on(efficiency: float, layer_s: float) -> None:
    calibration_found = solve_calibration(truth(SIZES, efficiency=efficiency, layer_s=layer_s))
    assert calibration_found.efficiency == pytest.approx(efficiency, rel=0.03)
    assert calibration_found.layer_seconds == pytest.approx(layer_s, rel=0.06)
    predicted_s = seconds(2.0, 28, efficiency=calibration_found.efficiency, layer_s=calibration_found.layer_seconds)
    assert predicted_s == pytest.approx(seconds(2.0, 28, efficiency=efficiency, layer_s=layer_s), rel=0.02)


def test_models_of_one_kind_are_told_apart_by_what_the_tables_say() -> None:
    calibration_found = solve_calibration(truth(((1.0, 10.0), (2.0, 20.0)), efficiency=0.85, layer_s=50e-6))
    assert calibration_found.efficiency == pytest.approx(0.85, rel=0.02)
    assert calibration_found.layer_seconds == pytest.approx(50e-6, rel=0.1)


def test_one_wild_run_among_five_hardly_counts() -> None:
    good = truth(((0.3, 12), (1.0, 20), (2.5, 28), (4.7, 36)), efficiency=0.7, layer_s=80e-6)
    wild = sample(3.0, 30, 5 * seconds(3.0, 30, efficiency=0.7, layer_s=80e-6))
    calibration_found = solve_calibration([*good, wild])
    assert calibration_found.efficiency == pytest.approx(0.7, rel=0.08)


def test_what_it_was_solved_from_is_kept() -> None:
    first, second = truth(SIZES, efficiency=0.8, layer_s=5e-5)
    calibration_found = solve_calibration([msgspec.structs.replace(first, at=3.0), second])
    assert (
        calibration_found.device,
        calibration_found.engine,
        calibration_found.version,
        calibration_found.backend,
    ) == ("gpu0", "llama.cpp", "1", "cuda")
    assert (calibration_found.samples, calibration_found.measured_at, calibration_found.bandwidth_gb_s) == (
        2,
        3.0,
        GB_S,
    )
    assert calibration_found.source == "calibration run"


def test_the_best_prompt_sets_the_prefill_rate() -> None:
    first, second = truth(SIZES, efficiency=0.8, layer_s=5e-5)
    runs = [
        msgspec.structs.replace(first, prefill_operations=1e12, prefill_s=0.5),
        msgspec.structs.replace(second, prefill_operations=8e12, prefill_s=1.0),
    ]
    assert solve_calibration(runs).prefill_flops == 8e12
    assert solve_calibration([first, second]).prefill_flops is None


@pytest.mark.parametrize("field", ["device", "engine", "version", "backend"])
def test_samples_of_two_devices_or_builds_are_refused(field: str) -> None:
    first, second = truth(SIZES, efficiency=0.8, layer_s=5e-5)
    with pytest.raises(ValueError, match="one device"):
        solve_calibration([first, msgspec.structs.replace(second, **{field: "other"})])
    with pytest.raises(ValueError, match="one device"):
        solve_calibration([])


@given(
    runs=st.lists(
        st.tuples(
            st.floats(1e-3, 100), st.floats(1, 200), st.floats(1e-5, 10), st.floats(0.1, 1), st.floats(1e-6, 1e-3)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_was_measured_the_figures_stay_physical(runs: list[tuple[float, float, float, float, float]]) -> None:
    calibration_found = solve_calibration(
        [sample(gb, layers, s, expected_efficiency=e, expected_layer_s=t) for gb, layers, s, e, t in runs]
    )
    assert BOUNDS_EFFICIENCY[0] <= calibration_found.efficiency <= BOUNDS_EFFICIENCY[1]
    assert BOUNDS_LAYER_S[0] <= calibration_found.layer_seconds <= BOUNDS_LAYER_S[1]


def calibration(**changes: object) -> Calibration:
    solution = solve_calibration(truth(SIZES, efficiency=0.85, layer_s=50e-6))
    return msgspec.structs.replace(solution, **changes)


def predict_s(solution: Calibration, gigabytes: float, layers: float) -> float:
    return seconds(gigabytes, layers, efficiency=solution.efficiency, layer_s=solution.layer_seconds)


def test_answers_draw_a_calibration_to_what_they_show() -> None:
    solution, noise = calibration(), random.Random(1)  # noqa: S311 -- noise, not secrets
    for index in range(60):
        gigabytes, layers = ((0.8, 16), (4.7, 36), (8.0, 40))[index % 3]
        real = seconds(gigabytes, layers, efficiency=0.72, layer_s=60e-6) * noise.gauss(1, 0.05)
        solution = refine_calibration(solution, sample(gigabytes, layers, real))
    for gigabytes, layers in ((0.8, 16), (4.7, 36), (8.0, 40)):
        real = seconds(gigabytes, layers, efficiency=0.72, layer_s=60e-6)
        assert predict_s(solution, gigabytes, layers) == pytest.approx(real, rel=0.05)
    assert solution.samples == 62
    assert solution.source == "generations"


def test_an_answer_as_expected_changes_nothing_but_the_count() -> None:
    before = calibration()
    after = refine_calibration(before, sample(4.7, 36, predict_s(before, 4.7, 36), at=9.0))
    assert after.efficiency == pytest.approx(before.efficiency)
    assert after.layer_seconds == pytest.approx(before.layer_seconds)
    assert (after.samples, after.measured_at) == (before.samples + 1, 9.0)


def test_a_slower_answer_moves_it_a_little_the_right_way() -> None:
    before = calibration()
    usual = predict_s(before, 4.7, 36)
    after = refine_calibration(before, sample(4.7, 36, 1.2 * usual))
    assert usual < predict_s(after, 4.7, 36) < 1.1 * usual


@pytest.mark.parametrize("factor", [0.4, 2.5, 1000.0])
def test_an_answer_far_off_had_another_cause(factor: float) -> None:
    before = calibration()
    assert refine_calibration(before, sample(4.7, 36, factor * predict_s(before, 4.7, 36))) == before


@pytest.mark.parametrize("field", ["device", "engine", "version", "backend"])
def test_an_answer_of_another_device_or_build_is_not_learned_from(field: str) -> None:
    before = calibration()
    other = msgspec.structs.replace(sample(4.7, 36, 0.012), **{field: "other"})
    assert refine_calibration(before, other) == before


def test_the_more_it_rests_on_the_less_one_answer_moves_it() -> None:
    slow = sample(4.7, 36, 1.15 * predict_s(calibration(), 4.7, 36))
    fresh, settled_calibration = (
        refine_calibration(calibration(samples=2), slow),
        refine_calibration(calibration(samples=50), slow),
    )
    start = calibration().efficiency
    assert start - fresh.efficiency > 2 * (start - settled_calibration.efficiency) > 0


def test_prompts_refine_the_prefill_rate_and_wild_ones_do_not() -> None:
    before = calibration(prefill_flops=10e12)
    run = sample(4.7, 36, predict_s(before, 4.7, 36), prefill_operations=8e12, prefill_s=1.0)
    after = refine_calibration(before, run)
    assert after.prefill_flops is not None
    assert 8e12 < after.prefill_flops < 10e12
    wild = msgspec.structs.replace(run, prefill_s=10.0)
    assert refine_calibration(before, wild).prefill_flops == 10e12
    assert refine_calibration(calibration(), run).prefill_flops == 8e12


def generation(**changes: object) -> Generation:
    plain = Generation(
        model="m",
        engine="llama.cpp",
        version="1",
        backend="cuda",
        device="gpu0",
        prompt_tokens=200,
        cached_tokens=0,
        completion_tokens=100,
        prefill_s=0.1,
        decode_s=1.0,
    )
    return msgspec.structs.replace(plain, **changes)


def test_answers_beside_others_and_short_ones_do_not_count() -> None:
    assert is_usable(generation())
    assert not is_usable(generation(concurrent=2))
    assert not is_usable(generation(completion_tokens=LEAST_TOKENS - 1))
    assert not is_usable(generation(decode_s=0.0))
