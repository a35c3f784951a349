"""Answers side by side: where they part, what they come to, and the sentence."""

import msgspec
import pytest

from app.benchmark.trials import WrittenAnswer, compare_answers, summarize_side, summarize_trial
from app.core.benchmarks import BenchmarkTarget
from app.core.trials import TrialAnswer, TrialResult, TrialSide


def answer(*pieces: str, **fields: float) -> WrittenAnswer:
    about = {"tokens": len(pieces), "ttft_s": 0.5, "e2e_s": 1.0, **fields}
    return WrittenAnswer(pieces=list(pieces), about=TrialAnswer(**about))  # type: ignore[arg-type] # numbers of both kinds


FAILURE = WrittenAnswer(about=TrialAnswer(error="refused"))


@pytest.mark.parametrize(
    ("second", "character", "token"),
    [
        (("One", " two", " three"), None, None),
        (("One", " t", "ens", " three"), 5, 1),
        (("Two",), 0, 0),
        (("One", " two"), 7, 2),
        (("One", " two", " three", " four"), 13, 3),
        ((), 0, 0),
    ],
    ids=["equal", "inside", "at once", "shorter", "longer", "nothing"],
)
def test_the_first_character_and_token_that_differ(
    second: tuple[str, ...], character: int | None, token: int | None
) -> None:
    comparison = compare_answers("r", "prompt", answer("One", " two", " three"), answer(*second))
    assert comparison.is_equal is (character is None)
    assert (comparison.diverges_at, comparison.diverges_at_token) == (character, token)
    assert comparison.prompt_length == 6


def test_what_was_not_answered_is_neither_equal_nor_different() -> None:
    comparison = compare_answers("r", "prompt", answer("One"), FAILURE)
    assert (comparison.is_equal, comparison.second.error, comparison.second.sha256) == (None, "refused", "")


def test_shares_are_of_calls_and_of_answers_with_a_schema() -> None:
    answers = [
        TrialAnswer(tokens=11, ttft_s=1, e2e_s=2, calls=3, valid_calls=2, is_valid_json=True),
        TrialAnswer(tokens=21, ttft_s=3, e2e_s=4, calls=1, valid_calls=1, is_valid_json=False),
        TrialAnswer(error="refused", calls=9),
    ]
    side = summarize_side(TrialSide(target=BenchmarkTarget(model="m")), answers)
    assert (side.answered, side.ttft_s, side.tokens_s) == (2, 2, 15)
    assert (side.valid_calls, side.valid_json) == (0.75, 0.5)
    empty = summarize_side(TrialSide(target=BenchmarkTarget(model="m")), [])
    assert empty == TrialSide(target=BenchmarkTarget(model="m"))


def test_ratios_are_of_what_both_answered() -> None:
    side = TrialSide(target=BenchmarkTarget(model="m"))
    comparisons = [
        compare_answers("a", "p", answer("One"), answer("One", ttft_s=1.0, e2e_s=3.0)),
        compare_answers("b", "p", answer("One", ttft_s=99.0), FAILURE),
    ]
    empty = TrialResult(at=1, roundhouse="0", model="m", first=side, second=side, requests=[])
    result = summarize_trial(msgspec.structs.replace(empty, requests=comparisons))
    assert result.ttft_ratio is not None
    assert result.e2e_ratio is not None
    assert (result.ttft_ratio.value, result.e2e_ratio.value, result.equal) == (2, 3, 1)
    disturbed_trial = summarize_trial(
        msgspec.structs.replace(empty, requests=comparisons, disturbances=["Others ran."])
    )
    assert (disturbed_trial.ttft_ratio, disturbed_trial.e2e_ratio, disturbed_trial.equal) == (None, None, 1)
    nothing = summarize_trial(empty)
    assert (nothing.equal, nothing.can_switch, nothing.ttft_ratio) == (None, False, None)


def test_an_answer_that_came_all_at_once_has_no_rate() -> None:
    assert TrialAnswer(tokens=41, ttft_s=1.0, e2e_s=3.0).tokens_s == 20
    assert TrialAnswer(tokens=41, ttft_s=1.0, e2e_s=1.0001).tokens_s is None
    assert TrialAnswer(tokens=1, ttft_s=1.0, e2e_s=1.0).tokens_s is None
