"""What is lost: next tokens of a text, as engines name them, set side by side."""

import json
import math

import pytest

from app.benchmark.loss import POSITIONS, TEXT, TextPlace, compare_distributions, read_distribution, text_places

PLACE = TextPlace("The sky is", " blue today.")


def test_places_lie_at_the_ends_of_words_all_over_the_text() -> None:
    places = text_places()
    assert len(places) == POSITIONS
    assert all(place.before + place.after == TEXT for place in places)
    assert all(place.after.startswith(" ") for place in places)
    assert len(places[-1].before) > 0.8 * len(TEXT)
    assert [place.before for place in places] == sorted((place.before for place in places), key=len)


def test_both_shapes_of_answers_are_read() -> None:
    pairs = [{"token": " blue", "logprob": math.log(0.5)}, {"token": " red", "logprob": math.log(0.25)}]
    llama = {"choices": [{"logprobs": {"content": [{"token": " blue", "top_logprobs": pairs}]}}]}
    openai = {"choices": [{"logprobs": {"top_logprobs": [{part["token"]: part["logprob"] for part in pairs}]}}]}
    for answer in (llama, openai):
        distribution = read_distribution(json.dumps(answer).encode())
        assert dict(distribution) == pytest.approx({" blue": 0.5, " red": 0.25})


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[]",
        "{}",
        '{"choices": []}',
        '{"choices": [{"logprobs": null}]}',
        '{"choices": [{"logprobs": {}}]}',
        '{"choices": [{"logprobs": {"content": []}}]}',
        '{"choices": [{"logprobs": {"top_logprobs": [{}]}}]}',
        '{"choices": [{"logprobs": {"content": [{"top_logprobs": [{"token": "a", "logprob": "x"}]}]}}]}',
    ],
)
def test_an_answer_without_next_tokens_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="next tokens"):
        read_distribution(answer.encode())


def test_equal_models_lose_nothing() -> None:
    same = [{" blue": 0.5, " red": 0.3}]
    loss = compare_distributions([PLACE], same, same)
    assert loss.kl_divergence == pytest.approx(0.0)
    assert (loss.same_likeliest, loss.positions) == (1.0, 1)
    assert loss.perplexity == loss.perplexity_before == pytest.approx(2.0)


def test_a_loss_is_the_divergence_over_named_tokens_and_the_rest() -> None:
    before, after = {" blue": 0.6, " red": 0.3}, {" blue": 0.3, " red": 0.6}
    loss = compare_distributions([PLACE], [before], [after])
    assert loss.kl_divergence == pytest.approx(0.6 * math.log(2) - 0.3 * math.log(2), rel=1e-6)
    assert loss.same_likeliest == 0.0
    assert loss.perplexity == pytest.approx(1 / 0.3)


def test_what_a_model_does_not_name_is_unlikely_and_not_impossible() -> None:
    loss = compare_distributions([PLACE], [{" blue": 0.9}], [{" green": 0.99}])
    assert 1 < loss.kl_divergence < 20
    assert math.isfinite(loss.perplexity)


def test_no_places_have_no_loss() -> None:
    with pytest.raises(ValueError, match="no place"):
        compare_distributions([], [], [])
