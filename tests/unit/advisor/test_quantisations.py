import msgspec
import pytest

from app.advisor.plans.quantisations import loadable_files, nominal_bits, pick_balanced, usual_files, why_not
from app.core.machine import Gpu
from tests.unit.advisor.boxes import gpu
from tests.unit.advisor.engines import ENGINES
from tests.unit.advisor.made_models import EIGHT

RTX_3090 = gpu("nvidia", "NVIDIA GeForce RTX 3090", "8.6")
RTX_5090 = gpu("nvidia", "NVIDIA GeForce RTX 5090", "12.0")
MI300X = gpu("amd", "AMD Instinct MI300X", "gfx942")
RADEON = gpu("amd", "AMD Radeon RX 7900 XTX", "gfx1100")


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("Q8_0", 8),
        ("Q4_K_M", 4),
        ("UD-Q4_K_XL", 4),
        ("IQ3_XXS", 3),
        ("Q2_K", 2),
        ("TQ1_0", 1),
        ("F16", 16),
        ("BF16", 16),
        ("MXFP4", 4),
        ("NVFP4", 4),
        ("FP8", 8),
        ("INT4", 4),
        ("INT8", 8),
        ("W4A16", 4),
        ("4bit", 4),
        ("8-bit", 8),
        ("4.65bpw", 4.65),
        ("3bpw", 3),
        ("q4f16_1", 4),
    ],
)
def test_names_state_their_bits(name: str, bits: float) -> None:
    assert nominal_bits(msgspec.structs.replace(EIGHT.facts("Q4_K_M"), quantization=name)) == bits


def test_a_name_that_states_none_is_measured() -> None:
    odd = msgspec.structs.replace(EIGHT.facts("Q6_K"), quantization="special")
    assert nominal_bits(odd) == pytest.approx(6.56, abs=0.01)


def test_five_bits_come_before_more_and_then_the_larger() -> None:
    names = ("Q3_K_M", "Q4_K_M", "F16", "Q8_0", "Q6_K", "Q5_K_M")
    ordered_files = loadable_files([EIGHT.facts(name) for name in names], ENGINES["llama.cpp"], [])
    assert [facts.quantization for facts in ordered_files] == ["Q5_K_M", "Q6_K", "Q8_0", "F16", "Q4_K_M", "Q3_K_M"]
    assert [facts.quantization for facts in usual_files(ordered_files)] == ["Q5_K_M", "Q6_K", "Q8_0", "F16", "Q4_K_M"]
    assert pick_balanced(ordered_files).quantization == "Q4_K_M"
    assert pick_balanced(ordered_files[-1:]).quantization == "Q3_K_M"


@pytest.mark.parametrize("engine", ENGINES)
def test_formats_never_cross_engines(engine: str) -> None:
    traits = ENGINES[engine]
    assert {facts.format for facts in loadable_files(EIGHT.every(), traits, [RTX_5090])} <= set(traits.formats)


@pytest.mark.parametrize(
    ("card", "format_name", "quantization", "runs"),
    [
        (RTX_3090, "fp8", "FP8", False),
        (RTX_3090, "awq", "AWQ", True),
        (RTX_3090, "nvfp4", "NVFP4", False),
        (RTX_5090, "nvfp4", "NVFP4", True),
        (RTX_3090, "compressed-tensors", "FP8", False),
        (RTX_3090, "compressed-tensors", "GPTQ", True),
        (MI300X, "fp8", "FP8", True),
        (MI300X, "nvfp4", "NVFP4", False),
        (RADEON, "fp8", "FP8", False),
        (RADEON, "awq", "AWQ", True),
    ],
)
def test_kernels_follow_the_card(card: Gpu, format_name: str, quantization: str, *, runs: bool) -> None:
    facts = EIGHT.facts(quantization, format_name)
    assert (not why_not(facts, ENGINES["vllm"], [card])) == runs


def test_bitsandbytes_is_loaded_by_none() -> None:
    facts = msgspec.structs.replace(EIGHT.facts("BF16", "safetensors"), quantization="bnb-4bit")
    assert "bitsandbytes" in why_not(facts, ENGINES["vllm"], [RTX_5090])
