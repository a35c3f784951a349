"""The table of models: every figure adds up to the published count of parameters, and names lead to the right row."""

from math import prod

import pytest

from app.hub.shapes import ModelShape, find_shape, list_shapes
from tests.weightless import tensor_bytes

NAMES = {
    "Llama 3 8B": "Llama 3 8B",
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M": "Llama 3.1 8B",
    "shisa-v2-llama3.1-8b.i1-Q4_K_M": "Llama 3.1 8B",
    "DeepSeek-R1-Distill-Llama-8B": "Llama 3.1 8B",
    "nvidia_Llama-3.1-Nemotron-Nano-8B-v1-Q4_K_M": "Llama 3.1 8B",
    "shisa-v2-llama3.3-70b.i1-Q4_K_M": "Llama 3.1 70B",
    "Llama 3.2:3b": "Llama 3.2 3B",
    "llama3.2": "Llama 3.2 3B",
    "LLaMA 7B": "Llama 2 7B",
    "Llama-4-Scout-17B-16E-Instruct-UD-Q4_K_XL": "Llama 4 Scout",
    "Mistral 7B v0.1": "Mistral 7B v0.1",
    "Mistral-7B-Instruct-v0.3-Q4_K_M": "Mistral 7B v0.3",
    "Mistral-Nemo-Instruct-2407-Q4_K_M": "Mistral Nemo 12B",
    "mistralai_Mistral-Small-3.2-24B-Instruct-2506-Q4_K_M": "Mistral Small 24B",
    "Mistral-Small-4-119B-2603-Q4_K_M": "Mistral Small 4 119B",
    "Ministral-8B-Instruct-2410-Q4_K_M": "Ministral 8B",
    "mistralai_Ministral-3-3B-Instruct-2512-Q4_K_M": "Ministral 3 3B",
    "mixtral:8x7b": "Mixtral 8x7B",
    "DeepSeek R1 14b": "Qwen2.5 14B",
    "DeepSeek-R1-Distill-Qwen-14B-Q4_K_M": "Qwen2.5 14B",
    "DeepSeek-R1-Distill-Qwen-1.5B-Q4_K_M": "DeepSeek R1 Distill Qwen 1.5B",
    "DeepSeek-R1-0528-Qwen3-8B": "Qwen3 8B",
    "deepseek-r1:671b": "DeepSeek V3 671B",
    "DeepSeek-Coder-V2-Lite-Instruct-Q4_K_M": "DeepSeek V2 Lite",
    "qwen2.5-coder:14b": "Qwen2.5 14B",
    "Qwen/Qwen2.5-Coder-32B-Instruct-AWQ": "Qwen2.5 32B",
    "qwen3:8b": "Qwen3 8B",
    "Qwen3-Embedding-0.6B": "Qwen3 0.6B",
    "Qwen3-Coder-30B-A3B": "Qwen3 30B A3B",
    "Qwen_Qwen3-Coder-Next-Q4_K_M": "Qwen3-Next 80B A3B",
    "Qwen3VL-2B-Instruct-Q4_K_M": "Qwen3-VL 2B",
    "Qwen3.6-35B-A3B-NVFP4-Fast": "Qwen3.5 35B A3B",
    "allura-org_Qwen3.5-27B-Anko-Q4_K_M": "Qwen3.5 27B",
    "gemma-3-27b-it-UD-Q4_K_XL": "Gemma 3 27B",
    "gemma-3n-E4B-it-Q4_K_M": "Gemma 3n E4B",
    "Gemma4-26B-A4B": "Gemma 4 26B A4B",
    "gemma-2-9b-it-Q4_K_M-fp16": "Gemma 2 9B",
    "Phi-3.5-mini-instruct-Q4_K_M": "Phi 3.5 Mini",
    "Phi-3-medium-4k-instruct-Q4_K_M": "Phi 3 Medium",
    "microsoft_Phi-4-mini-reasoning-Q4_K_M": "Phi 4 Mini",
    "phi-4-4bit": "Phi 4",
    "gpt-oss:20b": "gpt-oss 20B",
    "zai-org_GLM-4.7-Flash-Q4_K_M": "GLM 4.7 Flash",
    "GLM-4.5-Air-UD-Q4_K_XL": "GLM 4.5 Air",
    "glm-4-9b-chat-Q4_K_M": "GLM 4 9B",
    "command-r7b-12-2024": "Command R7B",
    "granite-4.0-h-1b-Q4_K_M": "Granite 4.0 H 1B",
    "granite-3.1-3b-a800m-instruct-Q4_K_M": "Granite 3 3B A800M",
    "internlm2_5-1_8b-chat-Q4_K_M": "InternLM2.5 1.8B",
    "SmallThinker-4BA0.6B-Instruct.Q4_K_M": "SmallThinker 4B A0.6B",
    "TinyLlama-1.1B-Chat-v1.0.i1-Q4_K_M": "TinyLlama 1.1B",
    "Falcon-H1-3B-Instruct-Q4_K_M": "Falcon-H1 3B",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-Q4_K_M": "Nemotron 3 Nano 30B A3B",
    "LiquidAI_LFM2.5-1.2B-Instruct-Q4_K_M": "LFM2 1.2B",
    "bge-small-en-v1.5": "bge-small-en",
}


@pytest.mark.parametrize(("words", "model_name"), NAMES.items())
def test_a_name_leads_to_its_model(words: str, model_name: str) -> None:
    shape = find_shape(words)
    assert shape is not None
    assert shape.name == model_name


@pytest.mark.parametrize(
    "words", ["", "model", "gemma-3", "Llama-3.2-11B-Vision", "FutureMa_Eva-4B", "the quick brown fox"]
)
def test_what_names_no_model_finds_none(words: str) -> None:
    assert find_shape(words) is None


def test_there_are_many_models() -> None:
    assert len(list_shapes()) >= 200


@pytest.mark.slow(cases=63)
@pytest.mark.parametrize("shape", list_shapes(), ids=lambda shape: shape.name)
def test_a_model_is_what_was_published(shape: ModelShape) -> None:
    parameter_count = sum(prod(outline.shape) for outline in shape.list_outlines())
    assert parameter_count == pytest.approx(shape.parameters, rel=0.01)
    assert find_shape(shape.name) is not None
    assert find_shape(shape.name).name == shape.name  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("quantization", ["Q4_K_M", "Q2_K", "IQ3_XXS", "Q8_0", "F16", "MXFP4"])
def test_every_row_of_every_tensor_fits_its_type(quantization: str) -> None:
    sizes = [tensor_bytes(tensor) for shape in list_shapes() for tensor in shape.build_tensors(quantization)]
    assert min(sizes) > 0


def test_metadata_says_what_the_table_says() -> None:
    jamba = find_shape("jamba 2 mini")
    assert jamba is not None
    values = jamba.build_metadata()
    assert values["general.architecture"] == "jamba"
    assert values["jamba.attention.head_count_kv"] == [8 if layer % 8 == 4 else 0 for layer in range(32)]
    gemma = find_shape("gemma 4 12b")
    assert gemma is not None
    pattern = gemma.build_metadata()["gemma4.attention.sliding_window_pattern"]
    assert pattern == ([True] * 5 + [False]) * 8
