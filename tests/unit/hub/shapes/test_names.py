"""Names are read as people write them: vendors, tags, separators and quantisations do not matter."""

import pytest

from app.hub.shapes.shape import count_matches, cut_pattern, name_words, split_name


@pytest.mark.parametrize(
    ("text", "name", "quantization"),
    [
        ("Qwen2.5-7B-Instruct-Q4_K_M", "Qwen2.5-7B-Instruct", "Q4_K_M"),
        ("qwen2.5-coder-7b-instruct-q4_k_m.gguf", "qwen2.5-coder-7b-instruct", "Q4_K_M"),
        ("shisa-v2-llama3.1-8b.i1-Q4_K_M", "shisa-v2-llama3.1-8b", "Q4_K_M"),
        ("gemma-3-27b-it-UD-Q4_K_XL", "gemma-3-27b-it", "UD-Q4_K_XL"),
        ("Llama-4-Scout-17B-UD-IQ2_XXS-00001-of-00003.gguf", "Llama-4-Scout-17B", "UD-IQ2_XXS"),
        ("gemma-4-12B-it-QAT-Q4_0", "gemma-4-12B-it", "Q4_0"),
        ("gpt-oss-20b-MXFP4", "gpt-oss-20b", "MXFP4"),
        ("llama3.1:8b-instruct-fp16", "llama3.1:8b-instruct", "F16"),
        ("Qwen3-4B-4bit", "Qwen3-4B", "4BIT"),
        ("Qwen3-4B-8bit-g32", "Qwen3-4B", "8BIT-G32"),
        ("Llama-3.1-8B-4.0bpw", "Llama-3.1-8B", "4.0BPW"),
        ("cyankiwi/Qwen3.8-27B-AWQ-INT4", "cyankiwi/Qwen3.8-27B", "AWQ"),
        ("qwen3:8b", "qwen3:8b", ""),
        ("Q4_K_M", "", "Q4_K_M"),
        ("", "", ""),
    ],
)
def test_the_quantisation_is_split_off(text: str, name: str, quantization: str) -> None:
    assert split_name(text) == (name, quantization)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Llama-3.2-1B-Instruct", "llama3.2:1b-instruct"),
        ("internlm2_5-1_8b-chat", "InternLM 2.5 1.8B Chat"),
        ("meta-llama/Llama 3 8B", "llama3-8b"),
        ("gpt-oss:20b", "GPT OSS 20B"),
    ],
)
def test_one_model_has_the_same_words_however_it_is_written(left: str, right: str) -> None:
    assert name_words(left) == name_words(right)


def test_a_pattern_fits_with_words_between_but_not_out_of_order() -> None:
    pattern = cut_pattern("llama 3.1 8b")
    assert count_matches(pattern, name_words("shisa-v2-llama3.1-8b")) == 3
    assert count_matches(pattern, name_words("8b of llama 3.1")) == 0


def test_a_word_can_be_ruled_out() -> None:
    assert count_matches(cut_pattern("phi 4 !mini"), name_words("phi-4")) == 2
    assert count_matches(cut_pattern("phi 4 !mini"), name_words("phi-4-mini")) == 0


def test_without_a_size_only_names_without_one_fit() -> None:
    assert count_matches(cut_pattern("llama 3.2"), name_words("llama3.2")) == 2
    assert count_matches(cut_pattern("llama 3.2"), name_words("Llama-3.2-11B-Vision")) == 0
    assert count_matches(cut_pattern("mixtral"), name_words("mixtral-8x22b")) == 0
