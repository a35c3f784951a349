"""Facts of models known by name, in every format, and of models we have in another quantisation."""

import msgspec
import pytest

from app.core.errors import BadRequest, NotFound
from app.core.machine import Confidence
from app.core.model_facts import ModelFacts, WeightKind
from app.hub.shapes import requantize, shape_facts

GB = 10**9


def bits(facts: ModelFacts, kind: WeightKind) -> float:
    groups = [group for group in facts.weights if group.kind is kind]
    return 8 * sum(group.bytes for group in groups) / sum(group.elements for group in groups)


def test_a_gguf_has_layers_bytes_and_its_source() -> None:
    facts = shape_facts("Llama-3.1-8B-Instruct", "Q4_K_M")
    assert (facts.format, facts.quantization, facts.architecture) == ("gguf", "Q4_K_M", "llama")
    assert len(facts.layers) == 32
    assert facts.layers[0].kv_heads == 8
    assert facts.layers[0].key_dim == 128
    assert facts.trained_context == 131072
    assert facts.confidence is Confidence.TABLE
    assert facts.file_bytes == pytest.approx(4.91 * GB, rel=0.01)
    assert facts.capabilities == ["chat"]


@pytest.mark.parametrize(
    ("model_format", "quantization", "inside", "output", "embedding"),
    [
        ("mlx", "4bit", 4.5, 4.5, 4.5),
        ("mlx", "4bit-g32", 5.0, 5.0, 5.0),
        ("mlx", "8bit", 8.5, 8.5, 8.5),
        ("mlx", "BF16", 16, 16, 16),
        ("exl2", "4.0bpw", 4.0, 6.0, 16),
        ("exl3", "2.5bpw", 2.5, 6.0, 16),
        ("awq", "4bit", 4.15625, 16, 16),
        ("gptq", "4BIT", 4.15625, 16, 16),
        ("safetensors", "AWQ", 4.15625, 16, 16),
        ("fp8", "FP8", 8.002, 16, 16),
        ("nvfp4", "NVFP4", 4.5, 16, 16),
        ("safetensors", "BF16", 16, 16, 16),
        ("openvino", "int4", 4.15625, 8, 8),
        ("openvino", "int8", 8, 8, 8),
        ("onnx-genai", "int4", 4.5, 4.5, 16),
        ("mlc", "q4f16_1", 4.5, 4.5, 4.5),
    ],
)
def test_other_formats_spend_their_own_bits(
    model_format: str, quantization: str, inside: float, output: float, embedding: float
) -> None:
    facts = shape_facts("qwen3:8b", quantization, format=model_format)
    assert facts.format == model_format
    assert facts.quantization == quantization
    assert bits(facts, WeightKind.FEED_FORWARD) == pytest.approx(inside, rel=1e-3)
    assert bits(facts, WeightKind.OUTPUT) == pytest.approx(output, rel=1e-3)
    assert bits(facts, WeightKind.INPUT_EMBEDDING) == pytest.approx(embedding, rel=1e-3)


def test_only_the_experts_of_mxfp4_are_small() -> None:
    facts = shape_facts("gpt-oss-20b", "MXFP4", format="mxfp4")
    assert bits(facts, WeightKind.EXPERTS) == 4.25
    assert bits(facts, WeightKind.ATTENTION) == 16


def test_an_unknown_name_or_quantisation_is_said() -> None:
    with pytest.raises(NotFound):
        shape_facts("no such model 3b", "Q4_K_M")
    for model_format in ("gguf", "mlx", "exl2", "awq", "openvino", "onnx-genai"):
        with pytest.raises(BadRequest, match="not a quantisation"):
            shape_facts("qwen3:8b", "best", format=model_format)


def strip_name(name: str, quantization: str) -> ModelFacts:
    return msgspec.structs.replace(shape_facts(name, quantization), name="something of mine")


MODELS = ["qwen3:8b", "llama 2 70b", "qwen3 30b a3b", "gemma 3 27b", "gpt oss 20b", "mixtral 8x7b", "starcoder 2 7b"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("quantization", ["Q3_K_M", "Q4_K_M", "Q6_K", "IQ4_XS"])
def test_a_model_nobody_knows_weighs_in_another_mix_what_it_would_weigh(name: str, quantization: str) -> None:
    changed_facts = requantize(strip_name(name, "Q8_0"), quantization)
    expected_facts = shape_facts(name, quantization)
    assert changed_facts.file_bytes == pytest.approx(expected_facts.file_bytes, rel=2e-3)
    assert changed_facts.quantization == quantization
    assert changed_facts.confidence is Confidence.DERIVED
    assert sum(group.elements for group in changed_facts.weights) == expected_facts.parameters


@pytest.mark.parametrize("name", ["qwen3.5 27b", "glm-4.7-flash", "nemotron 3 nano 30b", "phi-4", "gemma 4 e4b"])
def test_what_cannot_be_told_apart_costs_little_precision(name: str) -> None:
    changed_facts = requantize(strip_name(name, "Q8_0"), "Q4_K_M")
    assert changed_facts.file_bytes == pytest.approx(shape_facts(name, "Q4_K_M").file_bytes, rel=0.03)


def test_a_well_known_model_is_requantised_exactly() -> None:
    changed_facts = requantize(shape_facts("qwen3.5 27b", "Q8_0"), "Q4_K_M")
    assert changed_facts.file_bytes == shape_facts("qwen3.5 27b", "Q4_K_M").file_bytes


def test_a_fine_tune_with_another_vocabulary_is_not_taken_for_its_base() -> None:
    facts = shape_facts("qwen3:8b", "Q8_0")
    larger = [
        msgspec.structs.replace(group, elements=group.elements * 2, bytes=group.bytes * 2)
        if group.kind in {WeightKind.OUTPUT, WeightKind.INPUT_EMBEDDING}
        else group
        for group in facts.weights
    ]
    grown_facts = msgspec.structs.replace(facts, weights=larger, parameters=sum(group.elements for group in larger))
    assert requantize(grown_facts, "Q4_K_M").file_bytes > 1.05 * shape_facts("qwen3:8b", "Q4_K_M").file_bytes


def test_other_formats_are_requantised_by_their_bits() -> None:
    changed_facts = requantize(shape_facts("qwen3:8b", "8bit", format="mlx"), "4bit")
    assert changed_facts.file_bytes == shape_facts("qwen3:8b", "4bit", format="mlx").file_bytes


@pytest.mark.parametrize(
    ("model_format", "quantization"), [("gguf", "Q4_K_M"), ("mlx", "4bit"), ("exl3", "3.0bpw"), ("fp8", "FP8")]
)
def test_layers_do_not_depend_on_the_form(model_format: str, quantization: str) -> None:
    plain = shape_facts("gemma 4 26b a4b", "F16")
    facts = shape_facts("gemma 4 26b a4b", quantization, format=model_format)
    assert facts.layers == plain.layers
    assert facts.active_parameters == plain.active_parameters
