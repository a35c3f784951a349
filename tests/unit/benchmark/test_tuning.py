"""Self-tuning's choices: what is tried, who stays in, and what counts as faster."""

from collections.abc import Sequence

import msgspec
import pytest

from app.benchmark.tuning import (
    BEFORE,
    CandidateScope,
    SettingCandidate,
    answer_ratios,
    candidate_result,
    combine_candidates,
    describe_tuning,
    describe_unconfirmed,
    halve_candidates,
    is_better,
    list_untried,
    propose_candidates,
    ratio_to_before,
)
from app.core.benchmarks import AnswerRatios, BenchmarkSample, Figure
from app.core.models import ModelSettings
from tests.unit.benchmark.receipts import make_timing

SCOPE = CandidateScope(
    takes=frozenset({"threads", "batch_tokens", "flash_attention", "gpu_layers"}),
    engine="llama.cpp",
    threads=4,
    logical_cores=8,
    usable_cores=8.0,
)
NOWHERE = CandidateScope(takes=frozenset(), engine="MLX-LM", threads=None, logical_cores=None, usable_cores=None)
THREE = SettingCandidate(kind="threads", value=3)
EIGHT = SettingCandidate(kind="threads", value=8)
BATCH = SettingCandidate(kind="batch_tokens", value=128)


def make_samples(*token_s: float) -> list[BenchmarkSample]:
    return [make_timing(0.1, part).sample for part in token_s]


def names_of(candidates: Sequence[SettingCandidate]) -> set[str]:
    return {candidate.name for candidate in candidates}


def test_what_the_engine_has_an_option_for_is_tried() -> None:
    names = names_of(propose_candidates(ModelSettings(), SCOPE))
    assert names == {
        "threads 2",
        "threads 3",
        "threads 8",
        "batch 128",
        "batch 256",
        "batch 1024",
        "batch 2048",
        "flash attention on",
        "flash attention off",
    }
    bare = msgspec.structs.replace(SCOPE, takes=frozenset({"threads"}), logical_cores=4, usable_cores=4.0)
    assert names_of(propose_candidates(ModelSettings(), bare)) == {"threads 2", "threads 3"}
    assert propose_candidates(ModelSettings(), NOWHERE) == []


def test_no_more_threads_than_may_run_are_tried() -> None:
    scope = msgspec.structs.replace(SCOPE, takes=frozenset({"threads"}), threads=1, logical_cores=64, usable_cores=2.0)
    assert names_of(propose_candidates(ModelSettings(), scope)) == {"threads 2"}


def test_what_is_set_already_is_no_candidate_and_a_smaller_cache_needs_flash_attention() -> None:
    scope = msgspec.structs.replace(NOWHERE, takes=SCOPE.takes, gpu_layers=1, tries_kv=True)
    names = names_of(propose_candidates(ModelSettings(batch_tokens=128, kv_type="q8_0"), scope))
    assert names == {
        *("batch 256", "batch 1024", "batch 2048", "flash attention on", "KV cache q4_0"),
        *("GPU layers 3", "GPU layers 5"),
    }
    assert not {
        name for name in names_of(propose_candidates(ModelSettings(flash_attention="off"), scope)) if "KV" in name
    }


def test_experts_are_tried_around_the_plan_where_some_stay_in_system_memory() -> None:
    def experts_tried(cpu_moe_layers: int | None) -> set[str]:
        scope = msgspec.structs.replace(NOWHERE, takes=frozenset({"cpu_moe_layers"}), cpu_moe_layers=cpu_moe_layers)
        return names_of(propose_candidates(ModelSettings(), scope))

    assert experts_tried(None) == set()
    assert experts_tried(2) == {f"layers with experts in memory {count}" for count in (1, 3, 4)}


def test_slots_are_tried_where_several_requests_come_at_once() -> None:
    def slots_tried(slots: int, concurrency: int) -> set[str]:
        scope = msgspec.structs.replace(NOWHERE, slots=slots, concurrency=concurrency)
        return names_of(propose_candidates(ModelSettings(), scope))

    assert slots_tried(1, 1) == set()
    assert slots_tried(1, 8) == {"slots 4", "slots 8"}
    assert slots_tried(4, 2) == {"slots 1", "slots 2"}


def test_a_draft_is_tried_and_where_there_is_one_its_absence() -> None:
    none = msgspec.structs.replace(NOWHERE, draft_candidates=("mtp", "ngram", "small"))
    assert names_of(propose_candidates(ModelSettings(), none)) == {"draft mtp", "draft ngram", "draft small"}
    drafting_scope = msgspec.structs.replace(NOWHERE, draft_candidates=("mtp", "ngram"), draft="mtp")
    assert names_of(propose_candidates(ModelSettings(), drafting_scope)) == {"draft ngram", "draft off"}


def test_the_faster_half_goes_on_and_what_is_there_always_does() -> None:
    measured_samples = {
        BEFORE: make_samples(9),
        "a": make_samples(1),
        "b": make_samples(2),
        "c": make_samples(3),
        "d": make_samples(4),
        "e": make_samples(5),
    }
    assert halve_candidates(measured_samples) == [BEFORE, "a", "b", "c"]
    assert halve_candidates({**measured_samples, "a": []}) == [BEFORE, "b", "c"]


def test_only_what_is_better_beyond_noise_is_put_together_one_of_each_kind() -> None:
    steady = [0.1, 0.101, 0.099, 0.1, 0.102, 0.098]
    measured_samples = {
        BEFORE: make_samples(*steady),
        THREE.name: make_samples(*(part * 0.8 for part in steady)),
        EIGHT.name: make_samples(*(part * 0.7 for part in steady)),
        BATCH.name: make_samples(*(part * 0.995 for part in steady)),
    }
    assert combine_candidates([THREE, EIGHT, BATCH], measured_samples) == [EIGHT]
    assert combine_candidates([THREE], {BEFORE: make_samples(*steady)}) == []


@pytest.mark.parametrize(
    ("ratio", "better"),
    [
        ((0.9, 0.85, 0.95), True),
        ((0.9, 0.8, 0.99), False),
        ((0.9, 0.7, 1.1), False),
        ((0.99, 0.985, 0.995), False),
        ((1.2, 1.1, 1.3), False),
    ],
)
def test_better_is_with_confidence_and_by_enough(ratio: tuple[float, float, float], *, better: bool) -> None:
    value, low, high = ratio
    assert is_better(Figure(value=value, low=low, high=high)) == better


def test_an_entry_says_how_often_and_how_much() -> None:
    measured_samples = {BEFORE: make_samples(0.2, 0.2), THREE.name: make_samples(0.1, 0.1)}
    entry = candidate_result(THREE, measured_samples, is_kept=True, loss=0.01)
    assert (entry.name, entry.requests, entry.is_kept, entry.loss) == ("threads 3", 2, True, 0.01)
    assert ratio_to_before(measured_samples, THREE.name) == entry.ratio
    assert entry.ratio is not None
    assert entry.ratio.value == pytest.approx(1.1 / 2.1)
    assert candidate_result(BATCH, measured_samples, is_kept=False, problem="It died.").e2e_s is None


def test_the_sentence_promises_no_more_than_is_certain() -> None:
    ratios = AnswerRatios(
        ttft=Figure(value=0.97, low=0.8, high=1.2),
        tpot=Figure(value=0.5, low=0.49, high=0.52),
        e2e=Figure(value=0.52, low=0.5, high=0.55),
    )
    assert describe_tuning([EIGHT, BATCH], ratios) == (
        "Faster: threads 8, batch 128. Whole answers take at most 0.55 times as long as before, with 95 % confidence "
        "(0.52 measured). First token: no difference beyond noise; each token after it: 0.50 (0.49 to 0.52) times as "
        "long."
    )
    assert "at least 2 %, with 95 % confidence" in describe_tuning([], ratios)
    assert describe_tuning([], ratios, ["batch 128"]).endswith("was not when compared in turns: batch 128.")
    assert describe_unconfirmed(ratios.ttft) == "Not confirmed: 0.97 (0.80 to 1.20) when compared in turns."


def test_each_part_of_an_answer_has_a_ratio_of_its_own() -> None:
    ratios = answer_ratios(make_samples(0.2, 0.2), make_samples(0.1, 0.1))
    assert ratios.ttft.value == 1
    assert ratios.tpot.value == pytest.approx(0.5)
    assert ratios.e2e.value == pytest.approx(1.1 / 2.1)


def test_what_an_engine_has_no_option_for_is_named() -> None:
    assert {part.name: part.problem for part in list_untried(NOWHERE)} == {
        "threads": "MLX-LM has no option for it.",
        "batch": "MLX-LM has no option for it.",
        "flash attention": "MLX-LM has no option for it.",
        "draft": "Nothing here drafts for it with MLX-LM.",
    }
    whole = msgspec.structs.replace(SCOPE, draft_candidates=("ngram",), gpu_layers=4, cpu_moe_layers=2)
    assert [part.name for part in list_untried(whole)] == ["layers with experts in memory"]
    drafting_scope = msgspec.structs.replace(SCOPE, draft="ngram", kv_problem="It does not say.")
    assert {part.name: part.problem for part in list_untried(drafting_scope)} == {"KV cache": "It does not say."}
