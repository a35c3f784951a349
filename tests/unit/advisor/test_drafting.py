"""A model's own head: where it is planned to draft, what it adds to the sum, and where nobody should load it."""

from typing import Any

import msgspec
import pytest

from app.advisor.plans.drafting import DENSE_GAIN, EXPERT_GAIN
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core.advice import Intent, Plan
from app.core.model_facts import ModelFacts, WeightKind
from app.gateway.hub.entry_forms import estimate_download, list_forms
from app.hardware.description import machine_from
from tests.expert_docs import entries
from tests.unit.advisor.engines import engines_on

CARD = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": ["RTX 5090"]}
SMALL_CARD = {**CARD, "ram_gb": 32, "gpus": ["RTX 4070"]}
BOARD = {"os": "linux", "cpu": "Raspberry Pi 5", "ram_gb": 8}
HEAD_BYTES = round(425_000_000 * 6 / 8)
"""Qwen3.8 27B's head in six bits: what turboderp's branches weigh beyond text and vision tower."""


def read_form(title: str, kind: str, quantization: str) -> ModelFacts:
    forms = list_forms(entries()[title])
    return next(facts for facts in forms if (facts.format, facts.quantization) == (kind, quantization))


def plan_on(machine: dict[str, Any], title: str, engine: str, **wishes: Any) -> Plan:  # noqa: ANN401 -- fields of the inputs
    described_machine = machine_from(msgspec.json.encode(machine))
    inputs = PlanInputs(
        traits=engines_on(described_machine),
        machine=described_machine,
        candidates=list(list_forms(entries()[title])),
        model=title,
        **wishes,
    )
    return next(plan for plan in build_advice(inputs).plans if plan.engine == engine)


def head_reasons(plan: Plan) -> list[str]:
    return [reason.text for reason in plan.reasons if reason.value == "mtp"]


@pytest.mark.parametrize("engine", ["exllamav3", "llama.cpp"])
def test_a_head_that_pays_is_planned_and_stands_in_the_sum_by_itself(engine: str) -> None:
    drafting_plan, plain = (plan_on(CARD, "Qwen3.8 27B", engine, **more) for more in ({}, {"drafts": {engine: ""}}))
    assert drafting_plan.draft == "mtp"
    assert drafting_plan.estimate is not None
    assert drafting_plan.estimate.draft is not None
    assert f"{DENSE_GAIN:.2f} times" in head_reasons(drafting_plan)[0]
    assert " draft" in drafting_plan.estimate.sentence
    assert plain.estimate is not None
    assert (plain.draft, plain.estimate.draft, head_reasons(plain)) == ("", None, [])
    assert drafting_plan.estimate.total.bytes - plain.estimate.total.bytes == drafting_plan.estimate.draft.bytes
    assert drafting_plan.estimate.weights == plain.estimate.weights, "the head's weights are not among the model's"
    assert drafting_plan.estimate.draft.bytes > HEAD_BYTES


def test_its_weights_are_those_that_published_branches_carry() -> None:
    """13.84 GB at three bits and 16.86 at four are text, vision tower and head."""
    for rate, measured_bytes in (("3.0bpw", 13.84e9), ("4.0bpw", 16.86e9)):
        facts = read_form("Qwen3.8 27B", "exl3", rate)
        head = sum(group.bytes for group in facts.weights if group.kind is WeightKind.DRAFT)
        assert head == HEAD_BYTES
        assert estimate_download(entries()["Qwen3.8 27B"], facts) == pytest.approx(measured_bytes, rel=0.01)


def test_what_no_repository_of_the_format_carries_is_not_planned() -> None:
    assert not read_form("Qwen3.8 27B", "awq", "4bit").has_draft_head
    assert read_form("Qwen3.5 9B", "exl3", "4.0bpw").has_draft_head


def test_experts_in_fast_memory_draft_and_those_in_system_memory_do_not() -> None:
    large, small = (plan_on(machine, "Qwen3.6 35B-A3B", "llama.cpp") for machine in (CARD, SMALL_CARD))
    assert (large.draft, small.draft) == ("mtp", "")
    assert f"{EXPERT_GAIN:.2f} times" in head_reasons(large)[0]
    assert "in system memory" in head_reasons(small)[0]
    assert small.estimate is not None
    assert small.estimate.draft is None


def test_a_processor_and_many_people_leave_the_head_alone() -> None:
    board = plan_on(BOARD, "Qwen3.5 9B", "llama.cpp")
    assert board.draft == ""
    assert "a trial tells" in head_reasons(board)[0]
    team = plan_on(CARD, "Qwen3.8 27B", "llama.cpp", users=8, intent=Intent.TEAM)
    assert (team.draft, team.parallelism.slots > 1) == ("", True)


@pytest.mark.parametrize(
    ("engine", "draft"), [("sglang", "mtp"), ("vllm", "mtp"), ("tensorrt-llm", ""), ("lmdeploy", "")]
)
def test_an_engine_whose_heads_are_of_other_models_is_not_planned_with_one(engine: str, draft: str) -> None:
    """TensorRT-LLM's and LMDeploy's are documented for DeepSeek's models only; SGLang's and vLLM's for Qwen's too."""
    server = {"os": "linux", "cpu": "AMD EPYC 9554", "ram_gb": 256, "gpus": ["H100"]}
    assert plan_on(server, "Qwen3.8 27B", engine).draft == draft


def test_what_a_person_or_a_trial_decided_stays() -> None:
    assert plan_on(CARD, "Qwen3.8 27B", "llama.cpp", drafts={"llama.cpp": "ngram"}).draft == "ngram"
    assert plan_on(CARD, "Qwen3.8 27B", "llama.cpp", drafts={"llama.cpp": ""}).draft == ""
