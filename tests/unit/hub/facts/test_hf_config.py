"""The same model told by a Hugging Face configuration and by GGUF metadata has the same layers."""

from collections.abc import Mapping

import pytest

from app.core.errors import BadRequest
from app.core.machine import Confidence
from app.core.model_facts import AttentionKind, Layer, WeightKind
from app.hub.facts.formats import storage_of
from app.hub.facts.hf_config import metadata_of, text_part
from app.hub.facts.hugging_face import Files, facts_of
from app.hub.facts.layers import layers_of
from app.hub.facts.metadata import Metadata, Value

SLIDE, FULL = "sliding_attention", "full_attention"
LINEAR = "linear_attention"

Config = dict[str, object]

PAIRS: dict[str, tuple[Config, dict[str, Value]]] = {
    "llama": (
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 3,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
        {
            "embedding_length": 4096,
            "feed_forward_length": 14336,
            "block_count": 3,
            "attention.head_count": 32,
            "attention.head_count_kv": 8,
        },
    ),
    "llama, as mixtral": (
        {
            "model_type": "mixtral",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 2,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "sliding_window": None,
        },
        {
            "embedding_length": 4096,
            "feed_forward_length": 14336,
            "block_count": 2,
            "attention.head_count": 32,
            "attention.head_count_kv": 8,
            "expert_count": 8,
            "expert_used_count": 2,
        },
    ),
    "qwen3moe": (
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "head_dim": 128,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_hidden_layers": 2,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "use_sliding_window": False,
            "sliding_window": 4096,
        },
        {
            "embedding_length": 2048,
            "feed_forward_length": 6144,
            "expert_feed_forward_length": 768,
            "block_count": 2,
            "attention.head_count": 32,
            "attention.head_count_kv": 4,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "expert_count": 128,
            "expert_used_count": 8,
        },
    ),
    "gemma3": (
        {
            "model_type": "gemma3",
            "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "num_hidden_layers": 8,
                "sliding_window": 1024,
            },
        },
        {
            "embedding_length": 2560,
            "feed_forward_length": 10240,
            "block_count": 8,
            "attention.head_count": 8,
            "attention.head_count_kv": 4,
            "attention.key_length": 256,
            "attention.value_length": 256,
            "attention.sliding_window": 1024,
        },
    ),
    "gemma4": (
        {
            "model_type": "gemma4_text",
            "hidden_size": 3840,
            "intermediate_size": 15360,
            "num_hidden_layers": 4,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "num_global_key_value_heads": 1,
            "num_kv_shared_layers": 1,
            "layer_types": [SLIDE, SLIDE, FULL, SLIDE],
            "sliding_window": 1024,
        },
        {
            "embedding_length": 3840,
            "feed_forward_length": 15360,
            "block_count": 4,
            "attention.head_count": 16,
            "attention.head_count_kv": [8, 8, 1, 8],
            "attention.key_length": 512,
            "attention.value_length": 512,
            "attention.key_length_swa": 256,
            "attention.value_length_swa": 256,
            "attention.sliding_window": 1024,
            "attention.sliding_window_pattern": [True, True, False, True],
            "attention.shared_kv_layers": 1,
        },
    ),
    "gpt-oss": (
        {
            "model_type": "gpt_oss",
            "hidden_size": 2880,
            "head_dim": 64,
            "intermediate_size": 2880,
            "num_hidden_layers": 4,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "layer_types": [SLIDE, FULL] * 2,
            "sliding_window": 128,
        },
        {
            "embedding_length": 2880,
            "feed_forward_length": 2880,
            "expert_feed_forward_length": 2880,
            "block_count": 4,
            "attention.head_count": 64,
            "attention.head_count_kv": 8,
            "attention.key_length": 64,
            "attention.value_length": 64,
            "attention.sliding_window": 128,
            "expert_count": 32,
            "expert_used_count": 4,
        },
    ),
    "llama4": (
        {
            "model_type": "llama4",
            "text_config": {
                "model_type": "llama4_text",
                "hidden_size": 5120,
                "intermediate_size": 8192,
                "num_hidden_layers": 8,
                "num_attention_heads": 40,
                "num_key_value_heads": 8,
                "num_local_experts": 16,
                "num_experts_per_tok": 1,
                "no_rope_layers": [1, 1, 1, 0] * 2,
            },
        },
        {
            "embedding_length": 5120,
            "feed_forward_length": 8192,
            "block_count": 8,
            "attention.head_count": 40,
            "attention.head_count_kv": 8,
            "expert_count": 16,
            "expert_used_count": 1,
        },
    ),
    "deepseek2": (
        {
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "moe_intermediate_size": 2048,
            "num_hidden_layers": 4,
            "first_k_dense_replace": 3,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
        },
        {
            "embedding_length": 7168,
            "feed_forward_length": 18432,
            "expert_feed_forward_length": 2048,
            "block_count": 4,
            "leading_dense_block_count": 3,
            "attention.head_count": 128,
            "attention.head_count_kv": 1,
            "attention.kv_lora_rank": 512,
            "attention.key_length": 576,
            "attention.value_length": 512,
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
            "expert_count": 256,
            "expert_used_count": 8,
        },
    ),
    "glm4moe": (
        {
            "model_type": "glm4_moe",
            "hidden_size": 4096,
            "head_dim": 128,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 3,
            "num_nextn_predict_layers": 1,
            "first_k_dense_replace": 1,
            "num_attention_heads": 96,
            "num_key_value_heads": 8,
            "n_routed_experts": 128,
            "num_experts_per_tok": 8,
        },
        {
            "embedding_length": 4096,
            "feed_forward_length": 10944,
            "expert_feed_forward_length": 1408,
            "block_count": 4,
            "nextn_predict_layers": 1,
            "leading_dense_block_count": 1,
            "attention.head_count": 96,
            "attention.head_count_kv": 8,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "expert_count": 128,
            "expert_used_count": 8,
        },
    ),
    "qwen35": (
        {
            "model_type": "qwen3_5",
            "vision_config": {"depth": 27},
            "text_config": {
                "model_type": "qwen3_5_text",
                "hidden_size": 5120,
                "head_dim": 256,
                "intermediate_size": 17408,
                "num_hidden_layers": 4,
                "num_attention_heads": 24,
                "num_key_value_heads": 4,
                "layer_types": [LINEAR, LINEAR, LINEAR, FULL],
                "mtp_num_hidden_layers": 1,
                "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": 128,
                "linear_value_head_dim": 128,
                "linear_num_key_heads": 16,
                "linear_num_value_heads": 48,
            },
        },
        {
            "embedding_length": 5120,
            "feed_forward_length": 17408,
            "block_count": 5,
            "nextn_predict_layers": 1,
            "full_attention_interval": 4,
            "attention.head_count": 24,
            "attention.head_count_kv": 4,
            "attention.key_length": 256,
            "attention.value_length": 256,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 128,
            "ssm.group_count": 16,
            "ssm.inner_size": 6144,
            "ssm.time_step_rank": 48,
        },
    ),
    "granitehybrid": (
        {
            "model_type": "granitemoehybrid",
            "hidden_size": 2048,
            "intermediate_size": 512,
            "shared_intermediate_size": 1024,
            "num_hidden_layers": 3,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "num_local_experts": 64,
            "num_experts_per_tok": 6,
            "layer_types": ["mamba", "attention", "mamba"],
            "mamba_d_conv": 4,
            "mamba_d_state": 128,
            "mamba_n_groups": 1,
            "mamba_n_heads": 64,
            "mamba_d_head": 64,
            "mamba_expand": 2,
        },
        {
            "embedding_length": 2048,
            "feed_forward_length": 512,
            "block_count": 3,
            "attention.head_count": 16,
            "attention.head_count_kv": [0, 4, 0],
            "expert_count": 64,
            "expert_used_count": 6,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 128,
            "ssm.group_count": 1,
            "ssm.inner_size": 4096,
        },
    ),
    "nemotron_h": (
        {
            "model_type": "nemotron_h",
            "hidden_size": 4480,
            "intermediate_size": 15680,
            "num_hidden_layers": 4,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hybrid_override_pattern": "M-M*",
            "conv_kernel": 4,
            "ssm_state_size": 128,
            "n_groups": 8,
            "mamba_num_heads": 128,
            "mamba_head_dim": 80,
        },
        {
            "embedding_length": 4480,
            "feed_forward_length": [0, 15680, 0, 0],
            "block_count": 4,
            "attention.head_count": 40,
            "attention.head_count_kv": [0, 0, 0, 8],
            "attention.key_length": 128,
            "attention.value_length": 128,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 128,
            "ssm.group_count": 8,
            "ssm.inner_size": 10240,
        },
    ),
    "jamba": (
        {
            "model_type": "jamba",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 8,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "mamba_d_conv": 4,
            "mamba_d_state": 16,
            "mamba_expand": 2,
        },
        {
            "embedding_length": 4096,
            "feed_forward_length": 14336,
            "block_count": 8,
            "attention.head_count": 32,
            "attention.head_count_kv": [0, 0, 0, 0, 8, 0, 0, 0],
            "ssm.conv_kernel": 4,
            "ssm.state_size": 16,
            "ssm.inner_size": 8192,
        },
    ),
    "lfm2": (
        {
            "model_type": "lfm2",
            "hidden_size": 2048,
            "block_ff_dim": 12288,
            "block_auto_adjust_ff_dim": True,
            "block_multiple_of": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "full_attn_idxs": [2],
        },
        {
            "embedding_length": 2048,
            "feed_forward_length": 8192,
            "block_count": 3,
            "attention.head_count": 32,
            "attention.head_count_kv": [0, 0, 8],
            "shortconv.l_cache": 3,
        },
    ),
    "falcon-h1": (
        {
            "model_type": "falcon_h1",
            "hidden_size": 3072,
            "head_dim": 128,
            "intermediate_size": 12288,
            "num_hidden_layers": 2,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "mamba_d_conv": 4,
            "mamba_d_ssm": 3072,
            "mamba_d_state": 256,
            "mamba_n_groups": 1,
            "mamba_n_heads": 24,
            "mamba_d_head": 128,
        },
        {
            "embedding_length": 3072,
            "feed_forward_length": 12288,
            "block_count": 2,
            "attention.head_count": 12,
            "attention.head_count_kv": 2,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 256,
            "ssm.group_count": 1,
            "ssm.inner_size": 3072,
        },
    ),
    "mamba": (
        {"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 2, "intermediate_size": 5120},
        {
            "embedding_length": 2560,
            "block_count": 2,
            "feed_forward_length": 5120,
            "attention.head_count": 0,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 16,
            "ssm.inner_size": 5120,
        },
    ),
    "kimi-linear": (
        {
            "model_type": "kimi_linear",
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "moe_intermediate_size": 1024,
            "num_hidden_layers": 4,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "first_k_dense_replace": 1,
            "num_experts": 256,
            "num_experts_per_token": 8,
            "linear_attn_config": {"full_attn_layers": [4], "head_dim": 128, "short_conv_kernel_size": 4},
        },
        {
            "embedding_length": 2304,
            "feed_forward_length": 9216,
            "expert_feed_forward_length": 1024,
            "block_count": 4,
            "leading_dense_block_count": 1,
            "attention.head_count": 32,
            "attention.head_count_kv": [0, 0, 0, 1],
            "attention.kv_lora_rank": 512,
            "attention.key_length": 576,
            "attention.value_length": 512,
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
            "expert_count": 256,
            "expert_used_count": 8,
            "kda.head_dim": 128,
            "ssm.conv_kernel": 4,
        },
    ),
    "cohere2": (
        {
            "model_type": "cohere2",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 8,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "sliding_window_pattern": 4,
        },
        {
            "embedding_length": 4096,
            "feed_forward_length": 14336,
            "block_count": 8,
            "attention.head_count": 32,
            "attention.head_count_kv": 8,
            "attention.sliding_window": 4096,
        },
    ),
}


def from_gguf(architecture: str, keys: Mapping[str, Value]) -> list[Layer]:
    named = {f"{architecture}.{key}": value for key, value in keys.items()}
    return layers_of(Metadata({"general.architecture": architecture, **named}))


@pytest.mark.parametrize("name", PAIRS)
def test_both_forms_give_the_same_layers(name: str) -> None:
    config, keys = PAIRS[name]
    architecture = name.partition(",")[0]
    metadata = metadata_of(config)
    assert metadata.architecture == architecture
    assert layers_of(metadata) == from_gguf(architecture, keys)
    assert any(layer.kv_heads or layer.state_elements for layer in layers_of(metadata))


@pytest.mark.parametrize(
    ("config", "name", "quantization", "bits"),
    [
        ({"torch_dtype": "float16"}, "safetensors", "F16", 16),
        ({"quantization": {"bits": 4, "group_size": 64}}, "mlx", "4bit", 4.5),
        ({"quantization_config": {"bits": 4, "group_size": 32}}, "mlx", "4bit", 5.0),
        ({"quantization_config": {"quant_method": "exl2", "bits": 4.65, "head_bits": 6}}, "exl2", "4.65bpw", 4.65),
        ({"quantization_config": {"quant_method": "exl3", "bits": 3.0, "head_bits": 6}}, "exl3", "3bpw", 3.0),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "awq", "4bit", 4 + 20 / 128),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 32}}, "gptq", "8bit", 8.75),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8", "FP8", 8 + 32 / 16384),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4", "NVFP4", 4.5),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "format": "pack-quantized",
                    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
                }
            },
            "compressed-tensors",
            "INT4",
            4.125,
        ),
    ],
)
def test_formats_are_told_by_the_configuration(config: Config, name: str, quantization: str, bits: float) -> None:
    storage = storage_of(config)
    assert (storage.format, storage.quantization) == (name, quantization)
    assert storage.bits_of(WeightKind.FEED_FORWARD) == bits


def test_formats_leave_different_parts_alone() -> None:
    exl3 = storage_of({"quantization_config": {"quant_method": "exl3", "bits": 3.0, "head_bits": 6}})
    mlx = storage_of({"quantization": {"bits": 4, "group_size": 64}})
    awq = storage_of({"quantization_config": {"quant_method": "awq", "bits": 4}})
    mxfp4 = storage_of({"quantization_config": {"quant_method": "mxfp4"}})
    kinds = (WeightKind.INPUT_EMBEDDING, WeightKind.OUTPUT, WeightKind.ATTENTION, WeightKind.EXPERTS)
    assert [exl3.bits_of(kind) for kind in kinds] == [16, 6, 3, 3]
    assert [mlx.bits_of(kind) for kind in kinds] == [4.5] * 4
    assert [awq.bits_of(kind) for kind in kinds] == [16, 16, 4.15625, 4.15625]
    assert [mxfp4.bits_of(kind) for kind in kinds] == [16, 16, 16, 4.25]


def test_a_plain_folder_that_mlx_wrote_is_mlx() -> None:
    assert storage_of({}, header_format="mlx").format == "mlx"


def test_a_configuration_alone_weighs_what_its_format_says() -> None:
    config = {**PAIRS["qwen3moe"][0], "vocab_size": 1000, "tie_word_embeddings": False}
    plain = facts_of(Files(config=config), name="x", source="configuration")
    small = facts_of(Files(config={**config, "quantization": {"bits": 4, "group_size": 64}}), name="x", source="")
    experts = sum(group.bytes for group in plain.weights if group.kind is WeightKind.EXPERTS)
    assert experts == 2 * 128 * 3 * 2048 * 768 * 2
    assert sum(group.bytes for group in small.weights if group.kind is WeightKind.EXPERTS) == experts * 4.5 / 16
    assert small.parameters == plain.parameters
    assert plain.active_parameters < plain.parameters / 10
    assert (plain.confidence, plain.file_bytes) == (Confidence.DERIVED, sum(group.bytes for group in plain.weights))


def test_an_unknown_model_type_is_read_by_its_fields() -> None:
    config = {**PAIRS["llama"][0], "model_type": "brandnew", "vocab_size": 1000}
    facts = facts_of(Files(config=config), name="x", source="configuration")
    assert (facts.architecture, facts.confidence) == ("brandnew", Confidence.DERIVED)
    assert [layer.attention for layer in facts.layers] == [AttentionKind.FULL] * 3
    assert facts.parameters > 3 * 3 * 4096 * 14336


def test_a_configuration_without_heads_is_not_trusted() -> None:
    facts = facts_of(Files(config={"model_type": "llama", "num_hidden_layers": 2}), name="x", source="configuration")
    assert facts.confidence is Confidence.UNKNOWN


def test_the_language_part_of_a_larger_configuration_wins() -> None:
    config = {"hidden_size": 1, "vocab_size": 7, "thinker_config": {"text_config": {"hidden_size": 2}}}
    assert text_part(config) == {"hidden_size": 2, "vocab_size": 7}


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 10**6},
        {"num_hidden_layers": -1},
        {"num_hidden_layers": 2, "hidden_size": 2**40},
        {"num_hidden_layers": 2, "hidden_size": 2**31 - 1, "intermediate_size": 2**31 - 1, "num_attention_heads": 4},
    ],
)
def test_impossible_figures_are_refused(config: Config) -> None:
    with pytest.raises(BadRequest) as caught:
        facts_of(Files(config={"model_type": "llama", **config}), name="x", source="configuration")
    assert caught.value.code == "model_corrupt"
