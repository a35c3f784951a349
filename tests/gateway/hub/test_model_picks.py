"""Which models of the catalogue are recommended on described machines, and the sentences beside them."""

import json
from functools import cache
from pathlib import Path

import msgspec
import pytest

from app.core.advice import EstimateConfidence, Rate
from app.core.hub import HubCard, HubPick, HubUse
from app.gateway.advising.advice import ObservedSpeeds
from app.gateway.hub.model_picks import pick_models, recommend_completion
from app.gateway.hub.repositories import FitContext
from app.hardware.description import machine_from
from tests.catalogue_docs import shipped_entries
from tests.depth import sample
from tests.unit.advisor.engines import engines_on

MACHINES: dict[str, object] = json.loads(
    (Path(__file__).parents[2] / "data" / "expert-machines.json").read_text(encoding="utf-8")
)


@cache
def picks(machine: str, use: HubUse = HubUse.CHAT, least_speed: int = 10) -> list[HubPick]:
    return pick_models(shipped_entries(), use, ground_of(MACHINES[machine]), least_speed)


def ground_of(description: object) -> FitContext:
    described_machine = machine_from(msgspec.json.encode(description))
    return FitContext(described_machine, [], ObservedSpeeds(calibrations=[]), engines_on(described_machine))


def picks_on(description: object) -> list[HubPick]:
    return pick_models(shipped_entries(), HubUse.CHAT, ground_of(description), 10)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("machine", "expected_names"),
    [
        ("MacBook Pro M4 Pro 48 GB", {"Qwen3.8 27B"}),
        ("Mac Studio M4 Max 128 GB", {"Qwen3.8 27B", "Qwen3.8 Flash Next 125B-A6B"}),
        ("RTX 3090", {"Qwen3.8 27B"}),
        ("RTX 4090", {"Qwen3.8 27B"}),
        ("Strix Halo", {"Qwen3.8 27B", "Qwen3.8 Flash Next 125B-A6B"}),
        ("DGX Spark", {"Qwen3.8 27B", "Qwen3.8 Flash Next 125B-A6B"}),
    ],
)
def test_the_best_is_what_people_who_measure_run_there(machine: str, expected_names: set[str]) -> None:
    best = picks(machine)[0]
    assert best.is_best
    assert best.name in expected_names


def _writes(pick: HubPick) -> float:
    return pick.card.decode.tokens_per_second if pick.card.decode else 0.0


@pytest.mark.slow
@pytest.mark.parametrize("machine", sample(list(MACHINES), 3))  # planning takes a second each
def test_no_recommendation_is_too_slow_too_large_or_of_unknown_speed(machine: str) -> None:
    first, *others = picks(machine)
    assert not any(pick.is_best for pick in others)
    fast = [pick for pick in others if pick.is_fast]
    for pick in [first] if first.is_best else []:
        assert pick.card.fits
        assert pick.card.decode is not None
        assert pick.card.decode.tokens_per_second >= 5
        if pick.card.decode.tokens_per_second < 10:
            assert not any(
                other.is_recommended and _writes(other) >= 10 for other in others if not other.is_quality_derived
            )
    for pick in fast:
        assert pick.card.decode is not None
        assert first.card.decode is not None
        assert pick.card.decode.tokens_per_second >= 1.5 * first.card.decode.tokens_per_second
        assert first.quality > pick.quality >= first.quality / 2
        assert pick is others[0]


@pytest.mark.slow
def test_nothing_better_that_runs_well_is_passed_over() -> None:
    first, *others = picks("RTX 3090")
    assert first.card.decode is not None
    for pick in others:
        if pick.is_recommended and pick.quality > first.quality and not pick.is_quality_derived:
            assert pick.card.decode is not None
            if pick.name in first.reason:  # a part of it would lie in the system's memory
                assert pick.quality * 0.8 <= first.quality, pick.name
                assert "system's memory" in first.reason
                continue
            assert pick.quality * 0.95 <= first.quality, pick.name
            assert first.card.decode.tokens_per_second >= 1.5 * pick.card.decode.tokens_per_second


@pytest.mark.slow
@pytest.mark.parametrize("card", ["RTX 5090", "RTX A6000"])
def test_what_lies_wholly_on_the_cards_comes_before_what_is_hardly_better_and_does_not(card: str) -> None:
    machine = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 128, "gpus": [card]}
    best = picks_on(machine)[0]
    assert (best.name, best.is_best) == ("Qwen3.8 27B", True)
    assert "Qwen3.8 Flash Next 125B-A6B is ranked higher, but a part of it would lie in the system's" in best.reason


@pytest.mark.slow
def test_a_much_better_model_comes_first_though_its_experts_lie_in_system_memory() -> None:
    best = picks_on({"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 32, "gpus": ["RTX 4060"]})[0]
    assert (best.name, best.card.format) == ("Qwen3.6 35B-A3B", "gguf")


@pytest.mark.slow
def test_a_part_in_system_memory_is_no_fast_one_beside_a_model_that_drafts() -> None:
    card = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": ["RTX 3090"]}
    first, second = pick_models(shipped_entries(), HubUse.REASONING, ground_of(card), 10)[:2]
    assert (first.name, second.is_fast) == ("Qwen3.8 27B", True)
    assert second.name != "Qwen3 Next 80B-A3B Thinking", "50 GB of it would lie in system memory"


@pytest.mark.slow
def test_on_memory_that_a_graphics_chip_shares_no_form_is_taken_that_fills_it() -> None:
    best = picks_on({"os": "macos", "cpu": "Apple M4 Max", "ram_gb": 128})[0]
    assert (best.name, best.card.format) == ("Qwen3.8 Flash Next 125B-A6B", "gguf"), "MLX cannot map the table"
    assert best.card.memory_bytes is not None
    assert best.card.memory_bytes < 0.72 * 128 * 2**30


@pytest.mark.slow
def test_a_sentence_says_why_not_the_next_better() -> None:
    reason = picks("MacBook Pro M4 Pro 48 GB")[0].reason
    assert "at about" in reason
    assert "The next better, " in reason
    assert "more than there is" in reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "expected_names"),
    [
        ({"os": "macos", "cpu": "Apple M4", "ram_gb": 16}, {"Qwen3.5 4B", "Qwen3.5 9B", "Gemma 4 12B"}),
        (
            {"os": "windows", "cpu": "Intel Core i5-1235U", "ram_gb": 16, "ram_bandwidth_gb_s": 51.2},
            {"Qwen3.5 4B", "Qwen3.5 9B", "LFM2.5 8B-A1B"},
        ),
    ],
)
def test_few_bits_and_a_full_memory_are_not_recommended(machine: dict[str, object], expected_names: set[str]) -> None:
    described_machine = machine_from(msgspec.json.encode(machine))
    ground = FitContext(described_machine, [], ObservedSpeeds(calibrations=[]), engines_on(described_machine))
    first, *others = pick_models(shipped_entries(), HubUse.CHAT, ground, 10)
    assert first.name in expected_names
    for pick in (first, *(other for other in others if other.is_recommended)):
        assert "IQ2_XXS" not in pick.card.quantization
        assert (pick.card.memory_bytes or 0) < 16 * 1024**3 - 5e9


@pytest.mark.slow
def test_without_a_known_speed_nothing_is_recommended_and_the_next_step_is_named() -> None:
    first = picks("Core Ultra laptop")[0]
    assert first.card.decode is None
    assert not first.is_best
    assert "calibrate" in first.reason


@pytest.mark.slow
def test_the_least_speed_of_the_settings_decides() -> None:
    patient, hurried_pick = picks("RTX 3090", least_speed=1)[0], picks("RTX 3090", least_speed=100)[0]
    assert patient.quality >= picks("RTX 3090")[0].quality > hurried_pick.quality


@pytest.mark.slow
@pytest.mark.parametrize("use", sample([use for use in HubUse if use is not HubUse.AUTOCOMPLETE], 3))
def test_every_use_has_an_answer_where_there_is_memory(use: HubUse) -> None:
    first = picks("RTX 3090", use)[0]
    assert first.is_best
    assert first.use is use


def pick(name: str, parameters: float, speed: float | None, *, fits: bool = True) -> HubPick:
    decode = (
        None
        if speed is None
        else Rate(tokens_per_second=speed, low=speed, high=speed, confidence=EstimateConfidence.TABLE)
    )
    card = HubCard(base=name, title=name, repositories=[], parameters=int(parameters), fits=fits, decode=decode)
    return HubPick(name=name, pull=name, repository=name, use=HubUse.AUTOCOMPLETE, card=card)


def test_code_is_completed_by_the_largest_model_that_is_fast_enough_while_somebody_types() -> None:
    known_picks = [pick("small", 1.5e9, 90), pick("large", 7e9, 45), pick("slow", 8e9, 20), pick("chat", 30e9, 80)]
    first, *rest = recommend_completion([*known_picks, pick("unknown", 3e9, None), pick("huge", 9e9, 80, fits=False)])
    assert (first.name, first.is_best, first.is_recommended) == ("large", True, True)
    assert "40 tokens per second" in first.reason
    assert [each.name for each in rest if each.is_recommended] == ["small"]
    assert not any(each.is_best for each in rest)
    assert not any(each.is_best for each in recommend_completion(known_picks[2:])), (
        "none rather than one that is in the way"
    )
