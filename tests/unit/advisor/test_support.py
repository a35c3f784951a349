"""Which models a version of an engine is kept from, by names read from its files; what nobody can tell passes."""

import msgspec
import pytest

from app.advisor.choosing.support import explain_unknown
from app.advisor.plans.quantisations import why_not
from app.core.model_facts import ModelFacts
from app.gateway.advising.engine_table import engine_table
from app.gateway.hub.support_gaps import name_facts
from engines.api.support import EngineSupport

LIBRARY = EngineSupport(version="b9", gguf=frozenset({"llama", "qwen3", "x-gemma4", "qwen2", "mxfp4"}))
MLX = EngineSupport(version="0.31", model_types=frozenset({"qwen3", "gemma3", "gpt_oss"}))
VLLM = EngineSupport(
    version="0.32",
    classes=frozenset({"Qwen3ForCausalLM"}),
    model_types=frozenset({"glm5"}),
    quantizations=frozenset({"awq", "modelopt_fp4"}),
)


def facts(architecture: str, model_format: str, quantization: str = "", **more: object) -> ModelFacts:
    fields = {"model_types": [], **more}
    return msgspec.structs.replace(name_facts(architecture, model_format, quantization), **fields)


CASES = [
    (facts("llama", "gguf", "Q4_K_M"), LIBRARY, ""),
    (facts("gemma4", "gguf", "Q4_K_M"), LIBRARY, ""),
    (facts("qwen5", "gguf", "Q4_K_M"), LIBRARY, "does not know the architecture qwen5"),
    (facts("", "gguf", "Q4_K_M"), LIBRARY, ""),
    (name_facts("", "mlx", "4bit"), MLX, ""),
    (facts("llama", "gguf", "Q4_K_M", tokenizer="qwen2"), LIBRARY, ""),
    (facts("llama", "gguf", "Q4_K_M", tokenizer="superbpe"), LIBRARY, "does not know the tokenizer superbpe"),
    (facts("llama", "gguf", "MXFP4_MOE"), LIBRARY, ""),
    (facts("llama", "gguf", "NVFP4"), LIBRARY, "does not know the quantisation NVFP4"),
    (facts("llama", "gguf", "UD-IQ3_M"), LIBRARY, ""),
    (facts("qwen5", "gguf", "Q4_K_M"), None, ""),
    (facts("qwen5", "gguf", "Q4_K_M"), MLX, ""),
    (facts("qwen3", "mlx", "4bit", model_types=["qwen3"]), MLX, ""),
    (facts("gpt-oss", "mlx", "4bit", model_types=["gpt-oss"]), MLX, ""),
    (facts("qwen5", "mlx", "4bit", model_types=["qwen5"]), MLX, "does not know the architecture qwen5"),
    (facts("qwen5", "mlx", "4bit"), MLX, ""),
    (facts("qwen3", "awq", "4bit", class_names=["Qwen3ForCausalLM"]), VLLM, ""),
    (facts("glm5", "awq", "4bit", class_names=["Glm5ForCausalLM"], model_types=["glm5"]), VLLM, ""),
    (
        facts("qwen5", "awq", "4bit", class_names=["Qwen5ForCausalLM"], model_types=["qwen5"]),
        VLLM,
        "does not know the architecture Qwen5ForCausalLM",
    ),
    (facts("qwen5", "awq", "4bit", model_types=["qwen5"]), VLLM, ""),
    (facts("qwen3", "nvfp4", "NVFP4", class_names=["Qwen3ForCausalLM"]), VLLM, ""),
    (
        facts("qwen3", "gptq", "4bit", class_names=["Qwen3ForCausalLM"]),
        VLLM,
        "does not know the quantisation gptq",
    ),
]


@pytest.mark.parametrize(("model", "support", "lack"), CASES)
def test_a_version_is_kept_from_what_it_does_not_know(
    model: ModelFacts, support: EngineSupport | None, lack: str
) -> None:
    assert explain_unknown(model, support) == lack


def test_a_plan_says_which_version_it_is() -> None:
    engine = msgspec.structs.replace(engine_table()["llama.cpp"], support=LIBRARY)
    assert why_not(facts("qwen5", "gguf", "Q4_K_M"), engine, []) == (
        "its version b9 does not know the architecture qwen5"
    )
    assert why_not(facts("llama", "gguf", "Q4_K_M"), engine, []) == ""
