"""The same model told by a Hugging Face configuration and by GGUF metadata has the same layers."""

from collections.abc import Mapping

import pytest

from app.core.errors import BadRequest
from app.core.machine import Confidence
from app.core.model_facts import AttentionKind, Layer, WeightKind
from app.hub.facts.formats import storage_of
from app.hub.facts.hf_config import metadata_of, text_part
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.layers import layers_of
from app.hub.facts.metadata import Metadata, Value
from tests.hf_and_gguf import PAIRS, Config


def from_gguf(architecture: str, keys: Mapping[str, Value]) -> list[Layer]:
    named_fields = {f"{architecture}.{key}": value for key, value in keys.items()}
    return layers_of(Metadata({"general.architecture": architecture, **named_fields}))


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
        ({"quantization_config": {"quant_method": "exl3", "bits": 3.0, "head_bits": 6}}, "exl3", "3.0bpw", 3.0),
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
    plain = facts_of(FolderContent(config=config), name="x", source="configuration")
    small = facts_of(
        FolderContent(config={**config, "quantization": {"bits": 4, "group_size": 64}}), name="x", source=""
    )
    experts = sum(group.bytes for group in plain.weights if group.kind is WeightKind.EXPERTS)
    assert experts == 2 * 128 * 3 * 2048 * 768 * 2
    assert sum(group.bytes for group in small.weights if group.kind is WeightKind.EXPERTS) == experts * 4.5 / 16
    assert small.parameters == plain.parameters
    assert plain.active_parameters < plain.parameters / 10
    assert (plain.confidence, plain.file_bytes) == (Confidence.DERIVED, sum(group.bytes for group in plain.weights))


def test_an_unknown_model_type_is_read_by_its_fields() -> None:
    config = {**PAIRS["llama"][0], "model_type": "brandnew", "vocab_size": 1000}
    facts = facts_of(FolderContent(config=config), name="x", source="configuration")
    assert (facts.architecture, facts.confidence) == ("brandnew", Confidence.DERIVED)
    assert [layer.attention for layer in facts.layers] == [AttentionKind.FULL] * 3
    assert facts.parameters > 3 * 3 * 4096 * 14336


def test_a_configuration_without_heads_is_not_trusted() -> None:
    facts = facts_of(
        FolderContent(config={"model_type": "llama", "num_hidden_layers": 2}), name="x", source="configuration"
    )
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
    with pytest.raises(BadRequest) as error:
        facts_of(FolderContent(config={"model_type": "llama", **config}), name="x", source="configuration")
    assert error.value.code == "model_corrupt"
