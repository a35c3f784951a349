"""What rounds come to: which of them count, what is said of disturbances, and figures that can be computed by hand."""

from typing import Any

import msgspec
import pytest

from app.benchmark.results import (
    LEAST_SWAP_BYTES,
    check_answers,
    compare_speeds,
    pick_rounds,
    round_disturbances,
    summarize_cost,
    summarize_level,
    summarize_prefix,
)
from tests.unit.benchmark.receipts import PROMPT, make_round, make_timing


def test_the_figures_of_a_level_are_those_of_its_requests() -> None:
    rounds = [make_round([make_timing(0.2, 0.01), make_timing(0.2, 0.01)])] * 3
    level = summarize_level(rounds)
    assert (level.requests, level.rounds, level.failures, level.spread) == (6, 3, 0, 0)
    assert level.ttft_s.median.value == pytest.approx(0.2)
    assert level.itl_s.count == 60
    assert level.tpot_s.median.value == pytest.approx(0.01)
    assert level.e2e_s.p99 == pytest.approx(0.3)
    assert level.decode_tokens_s.value == pytest.approx(100)
    assert level.prefill_tokens_s.value == pytest.approx(500), "100 tokens in 0.2 s"
    assert level.answer_tokens_s.value == pytest.approx(22 / 0.6)
    assert level.requests_s.value == pytest.approx(2 / 0.6)
    assert level.tokens_j is None
    with pytest.raises(ValueError, match="without answers"):
        summarize_level([make_round([])])


def test_quiet_rounds_count_before_disturbed_ones() -> None:
    quiet, busy = make_round([make_timing(0.1, 0.01)]), make_round([make_timing(0.1, 0.02)], is_busy=True)
    assert pick_rounds([busy, quiet, quiet, busy, quiet], 3) == [quiet] * 3
    assert pick_rounds([busy, quiet, busy], 2) == [quiet, busy]


@pytest.mark.parametrize(
    ("disturbance", "words"),
    [
        ({"is_busy": True, "other_share": 0.4}, "other programs used 40 %"),
        ({"swap_bytes": LEAST_SWAP_BYTES}, "to or from swap"),
        ({"throttles": 1}, "because of its heat"),
    ],
)
def test_what_disturbed_a_level_is_told(disturbance: dict[str, Any], words: str) -> None:
    quiet = make_round([make_timing(0.1, 0.01)])
    assert round_disturbances([quiet] * 3) == []
    (sentence,) = round_disturbances([quiet, make_round([make_timing(0.1, 0.01)], **disturbance), quiet])
    assert words in sentence
    assert not make_round([], **disturbance).is_quiet


def test_equal_rounds_that_differ_are_told_even_where_nothing_else_ran() -> None:
    (sentence,) = round_disturbances([make_round([make_timing(0.1, part)]) for part in (0.01, 0.01, 0.02)])
    assert "apart" in sentence


def test_answers_to_the_same_prompt_are_compared_and_json_is_checked() -> None:
    same = make_timing(0.1, 0.01)
    other = msgspec.structs.replace(same, answer="Why not?")
    assert check_answers([same]).equal_answers is None
    assert check_answers([same, same, other]).equal_answers == 0.5
    held_prompt = msgspec.structs.replace(PROMPT, json_schema={"type": msgspec.Raw(b'"object"')})
    assert check_answers([msgspec.structs.replace(same, prompt=held_prompt, answer="{}")]).valid_json == 1
    assert check_answers([msgspec.structs.replace(same, prompt=held_prompt, answer="{")]).valid_json == 0


def test_energy_and_cost_need_all_rounds_to_be_told() -> None:
    known_round = make_round([make_timing(0.1, 0.01)], joules=36.0, energy_source="RAPL")
    cost = summarize_cost([known_round] * 2, price_kwh=0.25)
    assert cost is not None
    assert cost.joules == 72
    assert cost.watts == pytest.approx(36 / 0.2)
    assert cost.price_per_million_tokens == pytest.approx(72 / 3.6e6 * 0.25 / 22 * 1e6)
    assert summarize_level([known_round] * 3).tokens_j == pytest.approx(11 / 36)
    assert summarize_cost([known_round, make_round([make_timing(0.1, 0.01)])], price_kwh=None) is None
    other = msgspec.structs.replace(known_round, energy_source="RAPL + NVML")
    assert summarize_cost([known_round, other], price_kwh=None) is None, "of other parts of the computer"


def test_prefix_reuse_is_cold_against_warm() -> None:
    cold, warm = make_timing(0.5, 0.01).sample, make_timing(0.05, 0.01).sample
    reuse = summarize_prefix([cold] * 3, [warm] * 3)
    assert reuse is not None
    assert (reuse.cold_ttft_s.value, reuse.warm_ttft_s.value) == (0.5, 0.05)
    assert summarize_prefix([], []) is None


def test_what_something_costs_is_a_ratio_of_the_same_prompts_with_and_without_it() -> None:
    without, with_it = [make_timing(0.1, 0.01)] * 6, [make_timing(0.3, 0.03)] * 6
    ratio = compare_speeds(without, with_it)
    assert ratio is not None
    assert [ratio.ttft.value, ratio.token.value] == pytest.approx([3, 3])
    assert compare_speeds([], with_it) is None
