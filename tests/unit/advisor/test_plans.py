"""What a plan says: file, context, KV type, spread; that it holds for any machine and wish; and how quickly."""

import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.advisor.choosing.engine_table import NOWHERE
from app.advisor.choosing.intents import INTENTS
from app.advisor.choosing.targets import find_target
from app.advisor.memory import estimate as memory
from app.advisor.plans.quantisations import nominal_bits
from app.advisor.plans.ranking import ESTIMATED, PlanInputs, build_advice
from app.core.advice import Advice, Calibration, EstimateConfidence, Intent, Plan
from app.core.machine import Confidence, Machine
from app.core.model_facts import ModelFacts, WeightKind
from app.gateway.advising.advice import forms_of
from app.hardware.description import machine_from
from app.hardware.pools import with_pools
from tests.unit.advisor.boxes import Box, gpu
from tests.unit.advisor.engines import ENGINES, engines_on
from tests.unit.advisor.made_models import (
    EIGHT,
    FOURTEEN,
    GIANT,
    MIXTURE,
    SEVENTY,
    SLIDING,
    SMALL,
    THIRTY_TWO,
    Made,
)

Json = dict[str, Any]
GIB = 1 << 30


def machine(
    system: str = "linux", *cards: tuple[str, int], ram_gb: float = 64, cpu: str = "AMD Ryzen 9 7950X"
) -> Machine:
    gpus = [{"name": name, "count": count} for name, count in cards]
    return machine_from(msgspec.json.encode({"os": system, "cpu": cpu, "ram_gb": ram_gb, "gpus": gpus}))


def plans_for(where: Machine, model: Made | None = None, *formats: str, **fields: Any) -> list[Plan]:  # noqa: ANN401 -- fields of PlanInputs
    return [plan for plan in asked_of(where, model, *formats, **fields).plans if not plan.refused]


def asked_of(where: Machine, model: Made | None = None, *formats: str, **fields: Any) -> Advice:  # noqa: ANN401 -- as above
    candidates = model.every(*formats) if model else []
    return build_advice(
        PlanInputs(traits=ENGINES, machine=where, model=model.name if model else "", candidates=candidates, **fields)
    )


RTX_4090 = machine("linux", ("RTX 4090", 1))
RTX_5070 = machine("linux", ("RTX 5070", 1))
TWO_3090 = machine("linux", ("RTX 3090", 2))
H100 = machine("linux", ("H100", 8), ram_gb=1024)
MAC = machine("macos", cpu="Apple M3 Max", ram_gb=64)
LAPTOP = machine("linux", cpu="AMD Ryzen 7 7730U", ram_gb=16)


def test_the_sentence_is_one_a_person_understands() -> None:
    first = plans_for(RTX_4090, EIGHT)[0]
    assert first.sentence == (
        "ExLlamaV2 with EXL2, because one RTX 4090 is NVIDIA, Ampere or newer, and the model fits in its 24 GB."
    )


SENTENCES = {
    "mac": "MLX-LM with MLX weights, because this Mac's 64 GB are one pool at 300 GB/s.",
    "two cards": "ExLlamaV3 with EXL3, because 2 x RTX 3090 are NVIDIA, Ampere or newer, and it splits tensors and "
    "experts across consumer cards.",
    "server": "vLLM with FP8, because 8 x H100 are made for servers, and it is made to answer 30 people at once.",
    "laptop": "llama.cpp with GGUF, because it runs on any processor (no GPU here could do the work).",
}


def test_sentences_without_a_model() -> None:
    advice = {
        "mac": asked_of(MAC),
        "two cards": asked_of(TWO_3090),
        "server": asked_of(H100, intent=Intent.TEAM, users=30),
        "laptop": asked_of(LAPTOP),
    }
    assert {name: recommendation.plans[0].sentence for name, recommendation in advice.items()} == SENTENCES


@pytest.mark.parametrize(
    ("where", "model", "quantization", "context", "kv_type"),
    [
        (RTX_4090, EIGHT, "5.0bpw", 16_384, "f16"),
        (RTX_4090, FOURTEEN, "5.0bpw", 16_384, "f16"),
        (RTX_4090, THIRTY_TWO, "4.0bpw", 16_384, "f16"),
        (RTX_5070, EIGHT, "5.0bpw", 16_384, "f16"),
        (RTX_5070, FOURTEEN, "4.0bpw", 16_384, "f16"),
        (MAC, SEVENTY, "4-bit", 16_384, "f16"),
        (LAPTOP, SMALL, "Q5_K_M", 16_384, "f16"),
    ],
)
def test_the_smallest_of_full_quality_else_the_largest_that_fits_wholly(
    where: Machine, model: Made, quantization: str, context: int, kv_type: str
) -> None:
    first = plans_for(where, model)[0]
    assert (first.quantization, first.context, first.kv_type) == (quantization, context, kv_type)
    assert first.estimate is not None
    assert first.estimate.fits


def test_speed_decides_where_memory_does_not() -> None:
    """On 300 GB/s, 32B at 8 bits decode below 10 tokens a second; a smaller file does not."""
    first = plans_for(MAC, THIRTY_TWO, "mlx")[0]
    assert first.quantization == "4-bit"
    assert first.estimate is not None
    assert first.estimate.decode is not None
    assert first.estimate.decode.tokens_per_second >= INTENTS[Intent.CHAT].floor


def test_coding_gets_80k_and_8_bit_kv_if_it_must() -> None:
    first = plans_for(RTX_4090, MIXTURE, "exl3", intent=Intent.CODING)[0]
    assert (first.context, first.kv_type, first.quantization) == (81_920, "q8_0", "4.0bpw")
    assert any("8 bits" in reason.text for reason in first.reasons)


def test_context_gives_way_before_quality_drops_below_four_bits() -> None:
    first = plans_for(RTX_4090, THIRTY_TWO, "exl2", intent=Intent.CODING)[0]
    assert first.quantization == "4.0bpw"
    assert first.context <= 40_960


def test_below_four_bits_only_where_nothing_else_fits_and_it_is_said() -> None:
    first = plans_for(machine("linux", ("RTX 5090", 1)), SEVENTY, "exl2")[0]
    assert first.quantization == "3.0bpw", "a shorter context comes before two bits"
    assert any("fewer than four bits" in warning for warning in first.warnings)


@pytest.mark.parametrize("card", ["RTX 4060", "RX 7600", "Arc A750"])
def test_a_model_of_12b_is_whole_on_a_card_of_8_gib(card: str) -> None:
    nemo = forms_of("Mistral Nemo 12B")
    plans = build_advice(
        PlanInputs(
            traits=engines_on(machine("windows", (card, 1))),
            machine=machine("windows", (card, 1)),
            candidates=[facts for facts in nemo if facts.format == "gguf"],
            model="Nemo",
        )
    ).plans
    first = next(plan for plan in plans if plan.engine == "llama.cpp")
    assert first.offload is None or first.offload.gpu_layers >= first.offload.layers
    assert (first.quantization, first.kv_type) == ("IQ3_M", "q8_0")
    assert any("fewer than four bits" in warning for warning in first.warnings)


def test_slow_four_bits_in_system_memory_come_before_two_bits_on_the_card() -> None:
    two_bits = [THIRTY_TWO.facts("Q4_K_M"), THIRTY_TWO.facts("Q2_K")]
    first = build_advice(
        PlanInputs(
            traits=engines_on(machine("windows", ("RTX 4080", 1))),
            machine=machine("windows", ("RTX 4080", 1)),
            candidates=two_bits,
            model="Made 32B",
        )
    ).plans[0]
    assert first.quantization == "Q4_K_M"
    three_bits = plans_for(machine("windows", ("RTX 3080", 1)), FOURTEEN, "gguf")[0]
    assert three_bits.quantization == "Q3_K_M", "three bits wholly on the card are many times as fast"


@pytest.mark.parametrize(
    ("card", "formats", "engine"),
    [
        ("RTX 3090", ("exl2", "exl3"), "exllamav2"),  # the faster of the two on Ampere
        ("RTX 4090", ("exl3", "gguf"), "exllamav3"),  # no EXL2 exists
    ],
)
def test_exl2_comes_first_where_its_weights_exist_and_it_is_faster(
    card: str, formats: tuple[str, ...], engine: str
) -> None:
    assert plans_for(machine("linux", (card, 1)), EIGHT, *formats)[0].engine == engine


def test_an_engine_that_the_guide_leaves_out_runs_what_nothing_else_reads() -> None:
    """On a server's card the guide wants vLLM; weights that are here as EXL3 alone have ExLlamaV3."""
    first = plans_for(H100, EIGHT, "exl3", is_fixed=True)[0]
    assert (first.engine, first.format) == ("exllamav3", "exl3")
    assert "exllamav3" not in {plan.engine for plan in plans_for(H100, EIGHT, "exl3", "gguf", is_fixed=True)}
    assert "exllamav3" not in {plan.engine for plan in plans_for(H100, EIGHT, "exl3")}, "other weights can be had"
    assert "exllamav3" not in {plan.engine for plan in plans_for(H100)}


def test_exl3_comes_first_where_exl2_has_fewer_bits() -> None:
    candidates = [EIGHT.facts("3.0bpw", "exl2"), EIGHT.facts("5.0bpw", "exl3")]
    on = machine("linux", ("RTX 3090", 1))
    plans = build_advice(PlanInputs(traits=engines_on(on), machine=on, candidates=candidates, model="Made 8B")).plans
    assert [plan.engine for plan in plans[:2]] == ["exllamav3", "exllamav2"]


def test_no_more_context_than_the_model_was_trained_for() -> None:
    first = plans_for(RTX_4090, THIRTY_TWO, intent=Intent.CODING, context=200_000)[0]
    assert first.context <= 40_960
    assert any("trained for 40k" in text for text in [*first.warnings, *(reason.text for reason in first.reasons)])


def test_the_wish_for_a_kv_type_is_kept() -> None:
    assert plans_for(RTX_4090, EIGHT, kv_type="q4_0")[0].kv_type == "q4_0"
    assert plans_for(H100, SEVENTY, "fp8", kv_type="q8_0")[0].kv_type == "fp8"


def test_a_model_that_spills_says_how_many_layers() -> None:
    first = plans_for(RTX_5070, THIRTY_TWO)[0]
    assert first.engine == "llama.cpp"
    assert first.quantization == "Q4_K_M"
    assert first.offload is not None
    assert 0 < first.offload.gpu_layers < first.offload.layers
    assert any("system memory" in warning for warning in first.warnings)


def test_experts_go_to_system_memory_before_layers() -> None:
    first = plans_for(RTX_5070, MIXTURE, "gguf")[0]
    assert first.offload is not None
    assert first.offload.cpu_moe_layers > 0
    assert first.offload.gpu_layers == first.offload.layers


def exllama_plan(where: Machine, *candidates: ModelFacts) -> Plan:
    inputs = PlanInputs(traits=ENGINES, machine=where, model=candidates[0].name, candidates=list(candidates))
    return next(plan for plan in build_advice(inputs).plans if plan.engine == "exllamav3")


def four_bits(model: Made) -> ModelFacts:
    """Return what a configuration says: nobody has looked at the tensors."""
    facts = next(facts for facts in model.every("exl3") if facts.quantization == "4.0bpw")
    return msgspec.structs.replace(facts, confidence=Confidence.DERIVED)


def test_exllama_keeps_experts_in_system_memory() -> None:
    facts = four_bits(MIXTURE)
    plan = exllama_plan(RTX_5070, facts)
    estimate = plan.estimate
    assert estimate is not None
    assert estimate.fits
    assert (estimate.offload.gpu_layers, plan.parallelism.tensor) == (48, 1)
    assert 0 < estimate.offload.cpu_moe_layers < 48
    on_card, in_memory = (
        next(p for p in estimate.pools if (p.id == "system") is is_system) for is_system in (False, True)
    )
    assert on_card.needed_bytes + GIB <= (on_card.free or 0)
    experts = sum(group.bytes for group in facts.weights if group.kind is WeightKind.EXPERTS)
    aside = experts * estimate.offload.cpu_moe_layers // 48
    assert aside <= in_memory.parts["weights"] <= aside + GIB // 2, "the experts, and the embedding"
    assert in_memory.parts["runtime"] >= 3 * GIB, "a process of its own computes them"
    assert any("codebook mul1" in warning for warning in plan.warnings)
    assert set(estimate.notes) <= set(plan.warnings)
    assert estimate.decode is not None
    assert "on the processor" in estimate.decode.arithmetic
    assert (estimate.decode.high - estimate.decode.low) / estimate.decode.tokens_per_second > 0.5


def test_exllama_moves_nothing_of_a_model_without_experts() -> None:
    plan = exllama_plan(RTX_5070, four_bits(THIRTY_TWO))
    assert plan.estimate is not None
    assert (plan.estimate.fits, plan.estimate.offload.cpu_moe_layers) == (False, 0)
    assert not any("needs system memory as well" in other.text for other in plan.counterfactuals)


def test_exllama_moves_no_experts_of_another_codebook() -> None:
    facts = msgspec.structs.replace(four_bits(MIXTURE), confidence=Confidence.MEASURED)
    for mark, fits in (("", False), (" mcg", False), (" mul1", True)):
        weights = [
            msgspec.structs.replace(group, type=f"EXL3 4-bit{mark}") if group.kind is WeightKind.EXPERTS else group
            for group in facts.weights
        ]
        plan = exllama_plan(RTX_5070, msgspec.structs.replace(facts, weights=weights))
        assert plan.estimate is not None
        assert plan.estimate.fits is fits, mark


def test_pipeline_without_nvlink_and_tensor_with() -> None:
    plain = plans_for(TWO_3090, SEVENTY)[0].parallelism
    bridged_machine = machine_from(
        b'{"os": "linux", "ram_gb": 64, "gpus": [{"name": "RTX 3090", "count": 2, "nvlink": true}]}'
    )
    assert (plain.mode, plain.pipeline, plain.tensor) == ("pipeline", 2, 1)
    joined_parallelism = plans_for(bridged_machine, SEVENTY)[0].parallelism
    assert (joined_parallelism.mode, joined_parallelism.pipeline, joined_parallelism.tensor) == ("tensor", 1, 2)


def test_heads_must_divide() -> None:
    odd = Made(name="Odd 70B", layers=80, hidden_size=8192, heads=63, feed_forward=28672)
    assert plans_for(H100, odd, "safetensors")[0].parallelism.mode == "pipeline"


def test_experts_are_dealt_out_over_fast_links() -> None:
    first = plans_for(H100, GIANT, intent=Intent.TEAM)[0]
    assert first.parallelism.mode == "expert"
    assert first.parallelism.tensor == 8


def test_a_model_that_fits_one_card_stays_on_it_and_is_copied_for_many() -> None:
    assert plans_for(TWO_3090, EIGHT)[0].parallelism.mode == "single"
    api_parallelism = plans_for(H100, EIGHT, intent=Intent.API, users=400)[0].parallelism
    assert (api_parallelism.mode, api_parallelism.replicas, api_parallelism.tensor) == ("data", 8, 1)
    assert api_parallelism.slots >= 100


def test_parts_of_one_gpu_never_work_together() -> None:
    part = msgspec.structs.replace(gpu("nvidia", "NVIDIA A100 MIG 3g.40gb", "8.0", gib=40), partition_of="0000:01:00.0")
    box = Box(gpus=tuple(msgspec.structs.replace(part, id=f"mig{index}") for index in range(2)))
    assert plans_for(box.machine())[0].parallelism.mode == "single"


def test_users_become_slots_and_the_rest_waits() -> None:
    few = plans_for(RTX_4090, EIGHT, intent=Intent.TEAM, users=6)[0]
    many = plans_for(RTX_4090, EIGHT, intent=Intent.TEAM, users=1000)[0]
    assert few.parallelism.slots == 6
    assert 6 < many.parallelism.slots < 1000
    assert any("wait their turn" in warning for warning in many.warnings)


@pytest.mark.parametrize(
    ("card", "formats"),
    [
        ("RTX 2080 Ti", {"awq"}),
        ("RTX 3090", {"awq", "safetensors"}),
        ("RTX 4090", {"fp8", "awq"}),
        ("RTX 5090", {"fp8", "nvfp4"}),
        ("RX 7900 XTX", {"awq", "safetensors"}),
    ],
)
def test_formats_follow_the_card_s_kernels(card: str, formats: set[str]) -> None:
    team_plans = plans_for(machine("linux", (card, 1)), EIGHT, intent=Intent.TEAM)
    assert next(plan for plan in team_plans if plan.engine == "vllm").format in formats


def test_exl2_is_not_offered_for_architectures_its_engine_never_learned() -> None:
    model = Made(name="Newer 8B", architecture="gpt-oss")
    advice = asked_of(RTX_4090, model)
    refusal = next(plan.refused for plan in advice.plans if plan.engine == "exllamav2")
    assert "does not know the architecture gpt-oss" in refusal


@pytest.mark.parametrize("card", ["MI300X", "MI355X", "Radeon AI PRO R9700"])
def test_mxfp4_is_served_where_vllm_s_recipe_names_the_card(card: str) -> None:
    files = [msgspec.structs.replace(facts, format="mxfp4", quantization="MXFP4") for facts in EIGHT.every("awq")]
    inputs = PlanInputs(
        traits=ENGINES, machine=machine("linux", (card, 1)), model="Some", candidates=files, intent=Intent.TEAM
    )
    assert "vllm" in [plan.engine for plan in build_advice(inputs).plans if not plan.refused]


def test_weights_yet_to_be_made_do_not_come_before_those_that_are_there() -> None:
    small = machine("macos", cpu="Apple M3 Pro", ram_gb=18)
    assert [plan.engine for plan in plans_for(small, SEVENTY, "mlx", "gguf")] == ["mlx-lm", "llama.cpp", "mlc-llm"]


def test_what_does_not_fit_says_nothing_of_contexts_that_would() -> None:
    first = plans_for(machine("macos", cpu="Apple M3 Pro", ram_gb=18), SEVENTY, "mlx")[0]
    assert any("does not fit" in warning for warning in first.warnings)
    assert not any("context fit" in warning for warning in first.warnings)


def test_one_conversation_is_one() -> None:
    waiting_plans = [
        warning
        for plan in plans_for(TWO_3090, SEVENTY, intent=Intent.TEAM, users=10)
        for warning in plan.warnings
        if "wait their turn" in warning
    ]
    assert any(warning.startswith("1 conversation runs at a time") for warning in waiting_plans)
    assert not any("1 conversations" in warning for warning in waiting_plans)


def test_a_model_over_several_cards_is_not_said_to_fit_on_one() -> None:
    for plan in plans_for(TWO_3090, SEVENTY, intent=Intent.TEAM, users=10):
        on_one = any("fits on one card" in reason.text for reason in plan.reasons)
        assert not (on_one and max(plan.parallelism.tensor, plan.parallelism.pipeline) > 1), plan.engine


def test_a_speed_says_how_full_the_context_is() -> None:
    plan = plans_for(RTX_4090, EIGHT)[0]
    decode_reason = next(reason.text for reason in plan.reasons if reason.text.startswith("Decoding"))
    assert plan.estimate is not None
    assert plan.estimate.depth == plan.context // 2
    assert " with 8k tokens in the context: " in decode_reason


def test_without_a_model_the_largest_that_runs_well_takes_the_measure() -> None:
    candidates = [*SMALL.every("gguf"), *EIGHT.every("gguf"), *SEVENTY.every("gguf")]
    advice = build_advice(PlanInputs(traits=ENGINES, machine=LAPTOP, candidates=candidates))
    assert advice.model == "Made 1B"
    server = machine_from(b'{"cpu": "AMD EPYC 9654", "ram_gb": 768, "ram_bandwidth_gb_s": 460}')
    assert build_advice(PlanInputs(traits=ENGINES, machine=server, candidates=candidates)).model == "Made 8B"


def test_the_best_plans_carry_the_arithmetic() -> None:
    plans = plans_for(RTX_4090, EIGHT)
    assert all(plan.estimate is not None for plan in plans[:ESTIMATED])
    assert plans[0].counterfactuals
    estimate = plans[0].estimate
    assert estimate is not None
    assert any(reason.text == f"Memory: {estimate.sentence}." for reason in plans[0].reasons)


def test_a_calibration_of_this_machine_is_used() -> None:
    calibration_seen = Calibration(
        device="gpu0.0",
        engine="exllamav2",
        version="0.3.2",
        backend="cuda",
        efficiency=0.5,
        layer_seconds=0.0,
        bandwidth_gb_s=1008,
    )
    first = plans_for(RTX_4090, EIGHT, "exl2", calibrations=[calibration_seen])[0]
    assert first.estimate is not None
    assert first.estimate.decode is not None
    assert first.estimate.decode.confidence is EstimateConfidence.CALIBRATED


def test_reasons_name_value_and_source() -> None:
    for plan in plans_for(RTX_4090, EIGHT)[:2]:
        assert all(reason.text.endswith(".") and reason.source for reason in plan.reasons)


def test_unknown_memory_promises_nothing() -> None:
    box = Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 4090", "8.9", gib=None),))
    for unknown in (box.machine(), with_pools(box.machine())):
        first = plans_for(unknown, EIGHT)[0]
        assert first.engine == "exllamav2"
        assert any("unknown" in warning for warning in first.warnings)
        assert "fits" not in first.sentence


@pytest.mark.parametrize(
    ("where", "model", "fields"),
    [
        (RTX_4090, SEVENTY, {}),
        (RTX_4090, MIXTURE, {"intent": Intent.CODING}),
        (H100, GIANT, {"intent": Intent.TEAM, "users": 200}),
        (H100, replace(GIANT, layers=94), {"intent": Intent.API, "users": 500}),
        (MAC, SEVENTY, {"intent": Intent.CODING}),
        (TWO_3090, SLIDING, {"intent": Intent.AGENT}),
    ],
    ids=["spilled", "moe", "server", "deep", "mac", "two cards"],
)
def test_advice_comes_at_once(where: Machine, model: Made, fields: Json) -> None:
    candidates = model.every()
    inputs = PlanInputs(traits=ENGINES, machine=where, model=model.name, candidates=candidates, **fields)
    build_advice(inputs)
    best = min(_seconds(inputs) for _ in range(5))
    assert best < 0.15, "the target is 50 ms on a machine at rest; tests share theirs"


def _seconds(inputs: PlanInputs) -> float:
    start = time.process_time()
    build_advice(inputs)
    return time.process_time() - start


CARDS = (
    "RTX 4090",
    "RTX 3050 6 GB",
    "GTX 1080 Ti",
    "H100",
    "B200",
    "MI300X",
    "RX 7900 XTX",
    "Arc B580",
    "NVIDIA GB10",
    "Nobody knows this card",
    "",
)
CPUS = (
    "",
    "AMD Ryzen 9 7950X",
    "Intel Xeon Gold 6430",
    "Apple M2",
    "Snapdragon X Elite",
    "Cortex-A72",
    "Core Ultra 7 155H",
)
MODELS = (None, SMALL, EIGHT, SEVENTY, MIXTURE, SLIDING, GIANT)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    cards = draw(st.lists(st.tuples(st.sampled_from(CARDS), st.sampled_from([1, 2, 3, 8, 300])), max_size=2))
    description: Json = {
        "os": draw(st.sampled_from(["linux", "windows", "macos"])),
        "cpu": draw(st.sampled_from(CPUS)),
        "gpus": [{"name": name, "count": count} for name, count in cards],
    }
    ram = draw(st.sampled_from([None, 4, 8, 64, 2048]))
    return machine_from(msgspec.json.encode(description | ({"ram_gb": ram} if ram else {})))


@st.composite
def wishes(draw: st.DrawFn) -> Json:
    model = draw(st.sampled_from(MODELS))
    formats = draw(st.sampled_from([(), ("gguf",), ("exl2",), ("awq", "fp8"), ("mlx", "gguf")]))
    return {
        "machine": draw(machines()),
        "model": model.name if model else "",
        "candidates": model.every(*formats) if model else [],
        "intent": draw(st.sampled_from(Intent)),
        "users": draw(st.sampled_from([-1, 0, 1, 3, 4, 50, 1000, 100_000])),
        "context": draw(st.sampled_from([None, 1, 4096, 80_000, 131_072, 10_000_000])),
        "loras": draw(st.sampled_from([0, 1, 2, 50])),
        "kv_type": draw(st.sampled_from([None, "f16", "q8_0", "q4_0"])),
    }


def runs_here(plan: Plan, where: Machine) -> bool:
    return find_target(where, ENGINES[plan.engine]) is not NOWHERE


def least_context(candidates: list[ModelFacts]) -> int:
    return min((facts.trained_context or memory.UNTRAINED_LIMIT for facts in candidates), default=10_000_000)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fields=wishes())
def test_what_holds_for_every_machine_and_wish(fields: Json) -> None:
    inputs = PlanInputs(traits=ENGINES, **fields)
    advice = build_advice(inputs)
    usable_plans = [plan for plan in advice.plans if not plan.refused]
    assert usable_plans
    assert "ollama" not in {plan.engine.lower() for plan in advice.plans}
    assert [bool(plan.refused) for plan in advice.plans] == sorted(bool(plan.refused) for plan in advice.plans)
    assert len({plan.engine for plan in advice.plans}) == len(advice.plans)
    assert runs_here(usable_plans[0], inputs.machine)
    assert usable_plans[0].can_install
    for plan in usable_plans:
        assert plan.format in ENGINES[plan.engine].formats
        assert 0 < plan.context <= max(least_context(inputs.candidates), 0)
        assert plan.parallelism.slots >= 1
        assert plan.reasons
        assert plan.sentence.endswith(".")
    assert msgspec.json.encode(advice) == msgspec.json.encode(build_advice(inputs))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(where=machines(), intent=st.sampled_from(Intent), model=st.sampled_from([EIGHT, SEVENTY, MIXTURE]))
def test_fewer_than_four_bits_only_where_no_four_fit(where: Machine, intent: Intent, model: Made) -> None:
    for plan in plans_for(where, model, intent=intent):
        facts = next(
            (
                facts
                for facts in model.every()
                if (facts.format, facts.quantization) == (plan.format, plan.quantization)
            ),
            None,
        )
        if plan.estimate is not None and plan.estimate.fits and facts is not None and nominal_bits(facts) < 4:
            assert any("fewer than four bits" in warning for warning in plan.warnings)


SHARED = {
    "Radeon 780M": machine_from(
        b'{"os": "linux", "cpu": "AMD Ryzen 7 8845HS", "cores": 8, "isa": ["avx2", "avx512f"], "ram_gb": 32,'
        b' "gpus": [{"name": "Radeon 780M", "integrated": true}]}'
    ),
    "Arc 140V": machine_from(
        b'{"os": "windows", "cpu": {"model": "Intel Core Ultra 7 258V", "cores": 8, "isa": ["avx2"]}, "ram_gb": 32,'
        b' "gpus": [{"name": "Intel Arc 140V", "integrated": true}]}'
    ),
    "Strix Halo": machine_from(b'{"os": "linux", "cpu": "AMD Ryzen AI Max+ 395", "cores": 16, "ram_gb": 128}'),
    "Mac": MAC,
}


@pytest.mark.parametrize("name", SHARED)
def test_graphics_that_read_prompts_twice_as_fast_and_write_as_fast_are_not_second(name: str) -> None:
    on = SHARED[name]
    inputs = PlanInputs(traits=engines_on(on), machine=on, candidates=EIGHT.every(), model=EIGHT.name)
    plans = [plan for plan in build_advice(inputs).plans if plan.obtainable and not plan.refused and plan.estimate]
    assert plans[0].backend != "cpu"
    for place, plan in enumerate(plans):
        assert not any(_reads_and_writes_better(other, plan) for other in plans[place:] if plan.backend == "cpu")


def _reads_and_writes_better(plan: Plan, than: Plan) -> bool:
    mine, theirs = plan.estimate, than.estimate
    if mine is None or theirs is None or None in (mine.decode, theirs.decode, mine.prefill, theirs.prefill):
        return False
    assert mine.decode is not None
    assert theirs.decode is not None
    assert mine.prefill is not None
    assert theirs.prefill is not None
    return (
        mine.prefill.tokens_per_second >= 2 * theirs.prefill.tokens_per_second
        and mine.decode.tokens_per_second >= theirs.decode.tokens_per_second
    )
