"""Mixes spread types as llama.cpp does: published files weigh what we compute, and the special cases are there.

Sizes are tensor bytes as llama.cpp logs them or file sizes of well-known uploads; small files have a few MB of
vocabulary besides, so models are large enough that this stays below one percent.
"""

import pytest

from app.core.errors import BadRequest
from app.hub.gguf.tables import TYPE_NAMES
from app.hub.shapes import find_shape
from app.hub.shapes.mixes import fit_type

GB = 10**9
MIB = 2**20

PUBLISHED = [
    ("llama 2 7b", "Q4_0", 3647.87 * MIB),
    ("llama 2 7b", "Q4_K_M", 3891 * MIB),
    ("llama 2 7b", "Q8_0", 6.67 * 1024 * MIB),
    ("llama 2 7b", "F16", 12.55 * 1024 * MIB),
    ("llama 2 7b", "Q3_K_S", 2.95 * GB),
    ("llama 2 7b", "Q3_K_M", 3.30 * GB),
    ("llama 2 7b", "Q3_K_L", 3.60 * GB),
    ("llama 2 7b", "Q4_K_S", 3.86 * GB),
    ("llama 2 7b", "Q5_0", 4.65 * GB),
    ("llama 2 7b", "Q5_K_S", 4.65 * GB),
    ("llama 2 7b", "Q5_K_M", 4.78 * GB),
    ("llama 2 7b", "Q6_K", 5.53 * GB),
    ("llama 2 70b", "Q4_K_M", 41.42 * GB),
    ("llama 2 70b", "Q3_K_M", 33.19 * GB),
    ("llama 3.1 8b", "Q4_K_M", 4685 * MIB),
    ("llama 3.1 8b", "Q2_K", 3.18 * GB),
    ("llama 3.1 8b", "IQ2_M", 2.95 * GB),
    ("llama 3.1 8b", "IQ3_XS", 3.52 * GB),
    ("llama 3.1 8b", "IQ3_M", 3.78 * GB),
    ("llama 3.1 8b", "IQ4_XS", 4.45 * GB),
    ("llama 3.1 8b", "IQ4_NL", 4.68 * GB),
    ("llama 3.1 8b", "Q4_K_L", 5.31 * GB),
    ("llama 3.1 8b", "Q6_K_L", 6.85 * GB),
    ("llama 3.3 70b", "Q4_K_M", 40543 * MIB),
    ("qwen 3 8b", "Q4_K_M", 4.68 * 1024 * MIB),
    ("qwen 3 32b", "Q8_0", 33199 * MIB),
    ("qwen 3 30b a3b", "Q4_K_M", 18.56 * GB),
    ("qwen 3.5 27b", "Q3_K_M", 12.38 * 1024 * MIB),
    ("gemma 3 27b", "Q4_K_M", 16.55 * GB),
    ("gpt oss 20b", "F16", 13141 * MIB),
    ("gpt oss 20b", "MXFP4", 12.11 * GB),
    ("gpt oss 120b", "F16", 62328 * MIB),
    ("deepseek v 2 lite", "Q4_K_M", 10.36 * GB),
    ("phi 3 mini", "Q4_K_M", 2.393 * GB),
    ("mistral small 24b", "Q4_K_M", 14.33 * GB),
]


def types(name: str, quantization: str) -> dict[str, str]:
    shape = find_shape(name)
    assert shape is not None
    return {tensor.name: TYPE_NAMES[tensor.type] for tensor in shape.build_tensors(quantization)}


@pytest.mark.parametrize(("name", "quantization", "size"), PUBLISHED)
def test_a_file_weighs_what_was_published(name: str, quantization: str, size: float) -> None:
    shape = find_shape(name)
    assert shape is not None
    assert sum(tensor.size_bytes for tensor in shape.build_tensors(quantization)) == pytest.approx(size, rel=0.01)


def test_outer_layers_and_every_third_get_more_bits() -> None:
    tensor_types = types("llama 2 7b", "Q4_K_M")
    better = {layer for layer in range(32) if tensor_types[f"blk.{layer}.ffn_down.weight"] == "Q6_K"}
    assert better == {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}
    assert tensor_types["blk.4.ffn_down.weight"] == "Q4_K"
    assert tensor_types["output.weight"] == "Q6_K"
    assert tensor_types["token_embd.weight"] == "Q4_K"
    assert tensor_types["output_norm.weight"] == "F32"


def test_a_tied_embedding_is_stored_as_an_output() -> None:
    assert types("qwen 3 4b", "Q4_K_M")["token_embd.weight"] == "Q6_K"


def test_shared_values_of_70b_and_of_eight_experts_get_more_bits() -> None:
    assert types("llama 2 70b", "Q4_K_S")["blk.40.attn_v.weight"] == "Q5_K"
    mixtral = types("mixtral 8x7b", "Q4_K_M")
    assert mixtral["blk.9.attn_v.weight"] == mixtral["blk.9.attn_k.weight"] == "Q8_0"
    assert mixtral["blk.9.attn_output.weight"] == "Q5_K"


def test_rows_that_do_not_fit_take_a_type_that_does() -> None:
    assert fit_type("Q4_K", 4096) == "Q4_K"
    assert fit_type("Q4_K", 2880) == "Q5_0"
    assert fit_type("Q6_K", 896) == "Q8_0"
    assert fit_type("IQ3_XXS", 2880) == "IQ4_NL"
    assert fit_type("Q4_K", 70) == "F16"
    assert types("nemotron 3 nano 30b", "Q3_K_M")["blk.3.ffn_down_exps.weight"] == "Q5_0"
    assert types("nemotron 3 nano 30b", "Q3_K_M")["output.weight"] == "Q8_0"


def test_experts_of_gpt_oss_stay_as_published() -> None:
    tensor_types = types("gpt oss 20b", "Q8_0")
    assert tensor_types["blk.0.ffn_up_exps.weight"] == "MXFP4"
    assert tensor_types["blk.0.attn_q.weight"] == "Q8_0"
    assert tensor_types["blk.0.ffn_up_exps.bias"] == "F32"


def test_dynamic_uploads_are_marked_as_approximated() -> None:
    shape = find_shape("qwen 3 30b a3b")
    assert shape is not None
    assert not shape.mix_types("UD-Q4_K_XL").is_exact
    assert shape.mix_types("Q4_K_M").is_exact


@pytest.mark.parametrize("quantization", ["Q9_K", "4bit", "UD-Q9_K_XL", "QAT", ""])
def test_what_no_file_has_is_refused(quantization: str) -> None:
    shape = find_shape("qwen 3 8b")
    assert shape is not None
    with pytest.raises(BadRequest, match="not a quantisation"):
        shape.build_tensors(quantization)
