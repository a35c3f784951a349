import msgspec
import pytest

from app.advisor.speed.calibration import (
    LEAST_SPREAD,
    correct_by_answers,
    depth_of,
    predict_answers,
    refine_calibration,
    sample_from,
    solve_calibration,
)
from app.advisor.speed.estimate import decode_rate
from app.core.advice import EstimateConfidence, Generation
from tests.unit.advisor.made_models import EIGHT, FOURTEEN, SMALL
from tests.unit.advisor.speed_cases import CUDA, with_card

RTX_3090 = with_card("NVIDIA GeForce RTX 3090")
Q4 = EIGHT.facts("Q4_K_M")


def generation(seconds_per_token: float, **changes: object) -> Generation:
    plain = Generation(
        model="m",
        engine="llama.cpp",
        version="1",
        backend="cuda",
        device="gpu0.0",
        prompt_tokens=300,
        cached_tokens=100,
        completion_tokens=200,
        prefill_s=0.1,
        decode_s=200 * seconds_per_token,
    )
    return msgspec.structs.replace(plain, **changes)


def test_an_answer_becomes_a_sample_at_the_depth_it_was_written_at() -> None:
    answer = generation(0.01, at=5.0)
    sample = sample_from(answer, Q4, RTX_3090, CUDA)
    assert sample is not None
    assert depth_of(answer) == 500
    weights = Q4.file_bytes - next(g.bytes for g in Q4.weights if g.kind == "input_embedding")
    assert sample.bytes == weights + 32 * 500 * 8 * 256 * 2
    assert (sample.seconds, sample.bandwidth_gb_s, sample.at) == (0.01, 936.2, 5.0)
    assert sample.prefill_operations > 0


def test_short_prompts_say_nothing_of_prefill() -> None:
    sample = sample_from(generation(0.01, prompt_tokens=20), Q4, RTX_3090, CUDA)
    assert sample is not None
    assert sample.prefill_operations == 0


@pytest.mark.parametrize("changes", [{"concurrent": 2}, {"completion_tokens": 5}])
def test_answers_that_say_nothing_are_no_samples(changes: dict[str, int]) -> None:
    assert sample_from(generation(0.01, **changes), Q4, RTX_3090, CUDA) is None


def test_what_rests_on_two_memories_is_no_sample() -> None:
    assert sample_from(generation(0.1), Q4, RTX_3090, msgspec.structs.replace(CUDA, gpu_layers=10)) is None
    two = with_card("RTX 3090", count=2)
    assert sample_from(generation(0.01), Q4, two, msgspec.structs.replace(CUDA, gpus=2)) is None


def test_two_models_predict_a_third() -> None:
    """A machine a fifth slower than the tables say shows it on two models and is believed for another."""
    runs = []
    for made_model in (SMALL, FOURTEEN):
        facts = made_model.facts("Q4_K_M")
        expected_rate = decode_rate(facts, RTX_3090, CUDA, depth=500)
        assert expected_rate is not None
        runs.append(sample_from(generation(1.2 / expected_rate.tokens_per_second), facts, RTX_3090, CUDA))
    solution = solve_calibration([run for run in runs if run])
    third = decode_rate(Q4, RTX_3090, CUDA, depth=500, calibration=solution)
    plain = decode_rate(Q4, RTX_3090, CUDA, depth=500)
    assert third is not None
    assert plain is not None
    assert third.tokens_per_second == pytest.approx(plain.tokens_per_second / 1.2, rel=0.03)


def test_answers_refine_the_calibration_they_are_predicted_with() -> None:
    run = sample_from(generation(0.012), Q4, RTX_3090, CUDA)
    assert run is not None
    solution = solve_calibration([run, run])
    slower = sample_from(generation(0.014), Q4, RTX_3090, CUDA)
    assert slower is not None
    assert refine_calibration(solution, slower).efficiency < solution.efficiency


def test_what_a_model_did_here_beats_what_was_predicted() -> None:
    prediction = decode_rate(Q4, RTX_3090, CUDA, depth=4000)
    assert prediction is not None
    seconds = 1.25 / prediction.tokens_per_second
    answers = [generation(seconds, cached_tokens=3600 - 100 * index) for index in range(3)]
    corrected_rate = correct_by_answers(prediction, predict_answers(answers, Q4, RTX_3090, CUDA), answers)
    assert corrected_rate.confidence is EstimateConfidence.MEASURED
    assert corrected_rate.tokens_per_second == pytest.approx(prediction.tokens_per_second / 1.25, rel=0.02)
    assert corrected_rate.high / corrected_rate.tokens_per_second == pytest.approx(1 + LEAST_SPREAD, rel=0.02)


def test_answers_that_differ_widen_the_interval() -> None:
    prediction = decode_rate(Q4, RTX_3090, CUDA, depth=500)
    assert prediction is not None
    answers = [generation(seconds) for seconds in (0.01, 0.011, 0.015, 0.02)]
    corrected_rate = correct_by_answers(prediction, predict_answers(answers, Q4, RTX_3090, CUDA), answers)
    assert corrected_rate.high / corrected_rate.tokens_per_second > 1.3


def test_answers_beside_others_leave_the_prediction_as_it_is() -> None:
    prediction = decode_rate(Q4, RTX_3090, CUDA, depth=500)
    assert prediction is not None
    answers = [generation(0.5, concurrent=4)]
    assert correct_by_answers(prediction, predict_answers(answers, Q4, RTX_3090, CUDA), answers) == prediction
