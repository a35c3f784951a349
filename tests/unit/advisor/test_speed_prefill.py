import msgspec
import pytest

from app.advisor.speed.estimate import (
    CORE_GFLOPS,
    HALVED_CORE_GFLOPS,
    PCIE_BYTES_S,
    USUAL_PROMPT,
    prefill_operations,
    prefill_rate,
)
from app.advisor.speed.families import PREFILL, PREFILL_EARLY
from app.core.advice import Calibration, EstimateConfidence
from app.core.machine import Fact
from app.core.model_facts import WeightKind
from tests.unit.advisor.engines import setting_for
from tests.unit.advisor.made_models import EIGHT, MIXTURE, SEVENTY, SLIDING
from tests.unit.advisor.speed_cases import CPU, CUDA, make_machine, with_card

RTX_4090 = with_card("NVIDIA GeForce RTX 4090")
Q4 = EIGHT.facts("Q4_K_M")


def blocks_only() -> int:
    return sum(group.elements for group in Q4.weights if group.layer is not None)


def test_two_operations_per_weight_of_the_blocks_and_attention_besides() -> None:
    short, long = (prefill_operations(Q4, tokens=tokens) / tokens for tokens in (1, 8192))
    assert short == pytest.approx(2 * blocks_only(), rel=1e-3)
    assert long - 2 * blocks_only() == pytest.approx(32 * 2 * 32 * 256 * 8192 / 2)


def test_a_window_bounds_what_attention_costs() -> None:
    facts = SLIDING.facts("Q4_K_M")
    per_token = [prefill_operations(facts, tokens=tokens) / tokens for tokens in (4096, 8192)]
    full = 8 * 2 * 16 * 256 * 2048
    assert per_token[1] - per_token[0] == pytest.approx(full)


def test_only_chosen_experts_are_computed() -> None:
    facts = MIXTURE.facts("Q4_K_M")
    experts = sum(g.elements for g in facts.weights if g.kind is WeightKind.EXPERTS)
    others = sum(g.elements for g in facts.weights if g.layer is not None) - experts
    assert prefill_operations(facts, tokens=1) == pytest.approx(2 * (others + experts * 8 / 128), rel=1e-3)


def test_the_rate_is_a_share_of_the_data_sheet() -> None:
    rate = prefill_rate(Q4, RTX_4090, CUDA, depth=512)
    assert rate is not None
    expected_rate = PREFILL["geforce"].share * 165.2e12 / (prefill_operations(Q4, tokens=512) / 512)
    assert rate.tokens_per_second == pytest.approx(expected_rate)
    assert rate.low < rate.tokens_per_second < rate.high
    assert rate.confidence is EstimateConfidence.PREDICTED


def test_without_a_length_it_is_a_usual_prompt() -> None:
    assert prefill_rate(Q4, RTX_4090, CUDA) == prefill_rate(Q4, RTX_4090, CUDA, depth=USUAL_PROMPT)


def test_long_prompts_are_slower_and_early_builds_too() -> None:
    short, long = (prefill_rate(Q4, RTX_4090, CUDA, depth=depth) for depth in (512, 65_536))
    early = prefill_rate(Q4, RTX_4090, msgspec.structs.replace(CUDA, build=2800), depth=512)
    assert short
    assert long
    assert early
    assert long.tokens_per_second < 0.7 * short.tokens_per_second
    assert early.tokens_per_second == pytest.approx(PREFILL_EARLY * short.tokens_per_second)


def test_weights_in_system_memory_cross_the_bus_once_per_batch() -> None:
    facts = SEVENTY.facts("Q4_K_M")
    aside = msgspec.structs.replace(CUDA, gpu_layers=41)
    there, away = (prefill_rate(facts, RTX_4090, setting, depth=512) for setting in (CUDA, aside))
    assert there
    assert away
    copied_bytes = sum(g.bytes for g in facts.weights if g.layer is not None and g.layer < 40)
    lost_s = 1 / away.tokens_per_second - 1 / there.tokens_per_second
    assert lost_s == pytest.approx(copied_bytes / PCIE_BYTES_S / 512)
    assert away.high / away.low > there.high / there.low


def test_a_processor_is_as_fast_as_its_cores_and_vectors() -> None:
    eight, sixteen = (
        prefill_rate(Q4, make_machine(os="linux", cores=cores, isa=["avx2", "fma"]), CPU, depth=512)
        for cores in (8, 16)
    )
    assert eight
    assert sixteen
    expected_rate = 8 * dict(CORE_GFLOPS)["avx2"] * 1e9 / (prefill_operations(Q4, tokens=512) / 512)
    assert eight.tokens_per_second == pytest.approx(expected_rate)
    assert sixteen.tokens_per_second == pytest.approx(2 * expected_rate)


def test_a_processor_that_halves_vectors_reads_prompts_more_slowly() -> None:
    machine = make_machine(os="linux", cores=8, isa=["avx", "avx2", "fma"])
    cpu = msgspec.structs.replace(machine.cpu, vector_bits=Fact(value=128, unit="bit"))
    halved_rate = prefill_rate(Q4, msgspec.structs.replace(machine, cpu=cpu), CPU, depth=512)
    whole_rate = prefill_rate(Q4, machine, CPU, depth=512)
    assert halved_rate
    assert whole_rate
    ratio = HALVED_CORE_GFLOPS / dict(CORE_GFLOPS)["avx2"]
    assert halved_rate.tokens_per_second == pytest.approx(ratio * whole_rate.tokens_per_second)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert prefill_rate(Q4, make_machine(os="linux"), CPU) is None
    assert prefill_rate(Q4, with_card("Nobody's Card", vendor="nvidia", ram_gb=8), CUDA) is None
    assert prefill_rate(Q4, RTX_4090, setting_for(backend="metal")) is None


def test_a_calibration_replaces_the_share() -> None:
    calibration = Calibration(
        device="gpu0.0",
        engine="llama.cpp",
        version="1",
        backend="cuda",
        efficiency=0.8,
        layer_seconds=5e-5,
        bandwidth_gb_s=1008,
        prefill_flops=50e12,
    )
    rate = prefill_rate(Q4, RTX_4090, CUDA, depth=512, calibration=calibration)
    assert rate is not None
    assert rate.tokens_per_second == pytest.approx(50e12 / (prefill_operations(Q4, tokens=512) / 512))
    assert rate.confidence is EstimateConfidence.CALIBRATED
    without = prefill_rate(Q4, RTX_4090, CUDA, calibration=msgspec.structs.replace(calibration, prefill_flops=None))
    assert without == prefill_rate(Q4, RTX_4090, CUDA)
