"""What one change would bring: each figure is the one the changed plan really has."""

import re

import msgspec
import pytest

from app.advisor.memory.estimate import sum_components
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.advisor.plans.trials import SettingTrial
from app.core import words
from app.core.advice import Counterfactual, Intent, Plan
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.hardware.description import machine_from
from tests.unit.advisor.engines import ENGINES, setting_for
from tests.unit.advisor.made_models import EIGHT, FOURTEEN, MIXTURE, SEVENTY, SLIDING, THIRTY_TWO, Made

MIB = 1 << 20
GIB = 1 << 30


def machine(card: str, *, vram_gb: float | None = None, ram_gb: float = 64) -> Machine:
    gpu = {"name": card} | ({"vram_gb": vram_gb} if vram_gb else {})
    return machine_from(
        msgspec.json.encode({"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": ram_gb, "gpus": [gpu]})
    )


RTX_4090 = machine("RTX 4090")
RTX_5070 = machine("RTX 5070")
MAC_64 = machine_from(b'{"os": "macos", "cpu": "Apple M3 Max", "ram_gb": 64}')


def first(
    where: Machine,
    candidates: list[ModelFacts],
    intent: Intent = Intent.CHAT,
    context: int | None = None,
    users: int = 1,
) -> Plan:
    inputs = PlanInputs(
        traits=ENGINES,
        machine=where,
        model="it",
        candidates=candidates,
        intent=intent,
        context=context,
        users=users,
    )
    return build_advice(inputs).plans[0]


def only_counterfactual(plan: Plan, change: str) -> Counterfactual:
    others = [other for other in plan.counterfactuals if change in other.change]
    assert len(others) == 1, plan.counterfactuals
    return others[0]


def names(plan: Plan) -> list[str]:
    return [name for other in plan.counterfactuals for name in other.change]


def test_eight_bit_kv_gives_the_context_it_says() -> None:
    plan = first(RTX_4090, THIRTY_TWO.every("exl2"))
    counterfactual = only_counterfactual(plan, "kv_type")
    changed_advice = build_advice(
        PlanInputs(
            traits=ENGINES,
            machine=RTX_4090,
            model="it",
            candidates=[THIRTY_TWO.facts("4.0bpw", "exl2")],
            kv_type="q8_0",
        )
    ).plans[0]
    assert changed_advice.estimate is not None
    assert counterfactual.context == changed_advice.estimate.largest_context
    assert re.fullmatch(r"With q8_0 KV the context grows to 40k, from \d+k\.", counterfactual.text)


def test_a_smaller_file_that_needs_no_system_memory_is_named_with_both_speeds() -> None:
    candidates = [FOURTEEN.facts("Q4_K_M"), FOURTEEN.facts("Q2_K")]  # two bits come after a part in system memory
    plan = first(machine("RTX 3080"), candidates, context=8192)
    assert plan.offload is not None
    assert plan.offload.gpu_layers < plan.offload.layers
    counterfactual = next(other for other in plan.counterfactuals if "One size lower" in other.text)
    assert "fits wholly in GPU memory" in counterfactual.text
    assert plan.estimate is not None
    assert plan.estimate.decode is not None
    assert counterfactual.tokens_per_second is not None
    assert counterfactual.tokens_per_second > 1.5 * plan.estimate.decode.tokens_per_second
    smaller = next(facts for facts in candidates if facts.quantization == counterfactual.change["quantization"])
    whole = setting_for(engine="llama.cpp", backend="cuda", context=8192)
    assert SettingTrial(smaller, machine("RTX 3080")).fits_memory(whole)


def test_a_larger_file_says_what_it_would_cost() -> None:
    plan = first(RTX_4090, THIRTY_TWO.every("gguf"))
    counterfactual = next(other for other in plan.counterfactuals if "One size higher" in other.text)
    assert counterfactual.change == {"quantization": "Q5_K_M"}
    assert "system memory" in counterfactual.text
    assert counterfactual.tokens_per_second is not None
    assert plan.estimate is not None
    assert plan.estimate.decode is not None
    assert counterfactual.tokens_per_second < plan.estimate.decode.tokens_per_second


def test_one_conversation_at_a_time_frees_what_the_others_take() -> None:
    plan = first(RTX_4090, EIGHT.every("gguf"), Intent.TEAM, users=8)
    counterfactual = only_counterfactual(plan, "slots")
    many = setting_for(
        engine="llama.cpp", backend="cuda", context=plan.context, slots=plan.parallelism.slots, kv_type=plan.kv_type
    )
    alone, facts = msgspec.structs.replace(many, slots=1), EIGHT.facts(plan.quantization)
    freed_bytes = sum_components(facts, many).total.bytes - sum_components(facts, alone).total.bytes
    assert f"frees {words.format_bytes(freed_bytes)} against {plan.parallelism.slots} at once" in counterfactual.text


def test_what_is_planned_already_is_no_change() -> None:
    assert "slots" not in names(first(RTX_4090, SLIDING.every("gguf")))


def test_experts_in_system_memory_make_room() -> None:
    plan = first(RTX_4090, MIXTURE.every("gguf"), Intent.CODING)
    counterfactual = only_counterfactual(plan, "cpu_moe_layers")
    assert counterfactual.change == {"cpu_moe_layers": 48}
    assert plan.estimate is not None
    assert counterfactual.context is not None
    assert counterfactual.context >= plan.estimate.largest_context
    assert re.search(r"at \d+(\.\d)? instead of \d+(\.\d)? tok/s\.$", counterfactual.text)


def test_experts_stay_where_they_are_when_their_place_is_no_use() -> None:
    roomy = machine_from(b'{"os": "linux", "ram_gb": 512, "gpus": [{"name": "MI300X"}]}')
    assert "cpu_moe_layers" not in names(first(roomy, MIXTURE.every("gguf")))


@pytest.mark.parametrize("model", [SEVENTY, THIRTY_TWO, MIXTURE])
@pytest.mark.parametrize("intent", [Intent.CHAT, Intent.CODING])
def test_no_line_speaks_of_no_context_at_all(model: Made, intent: Intent) -> None:
    plan = first(machine("RTX 2060", ram_gb=16), model.every("gguf"), intent)
    assert not [other.text for other in plan.counterfactuals if other.context == 0 or re.search(r"\b0\b", other.text)]


def test_the_wired_limit_of_a_mac_is_exact_and_warned_of() -> None:
    plan = first(MAC_64, SEVENTY.every("mlx"), Intent.CODING)
    counterfactual = only_counterfactual(plan, "iogpu.wired_limit_mb")
    assert counterfactual.change == {"iogpu.wired_limit_mb": 56 * 1024}
    assert "`sudo sysctl iogpu.wired_limit_mb=57344`" in counterfactual.text
    assert "The risk:" in counterfactual.text
    assert plan.estimate is not None
    assert (counterfactual.context or 0) > plan.estimate.largest_context


def test_the_wired_limit_is_kept_quiet_about_where_all_fits() -> None:
    assert "iogpu.wired_limit_mb" not in names(first(MAC_64, EIGHT.every("mlx")))


def test_a_second_card_is_offered_where_one_is_short() -> None:
    counterfactual = only_counterfactual(first(machine("RTX 4080"), THIRTY_TWO.every("gguf")), "gpus")
    assert counterfactual.text.startswith("With a second RTX 4080 it fits wholly: ")
    assert "gpus" not in names(first(RTX_4090, EIGHT.every("gguf")))


def test_twice_the_context_says_what_it_takes() -> None:
    plan = first(RTX_4090, EIGHT.every("gguf"))
    counterfactual = only_counterfactual(plan, "context")
    assert counterfactual.change == {"context": 32_768}
    assert counterfactual.text == "32k of context instead of 16k take 2.0 GiB more, and fit."


@pytest.mark.parametrize("where", [RTX_4090, RTX_5070, MAC_64], ids=["24 GB", "12 GB", "Mac"])
@pytest.mark.parametrize("model", [EIGHT, THIRTY_TWO, MIXTURE, SLIDING], ids=lambda model: model.name)
def test_every_line_is_a_sentence_with_a_change_and_figures(where: Machine, model: Made) -> None:
    plan = first(where, model.every())
    assert plan.counterfactuals
    for counterfactual in plan.counterfactuals:
        assert counterfactual.text.endswith(".")
        assert len(counterfactual.change) == 1
        assert "None" not in counterfactual.text
        assert counterfactual.context is not None or counterfactual.tokens_per_second is not None
