import json
import shutil
from pathlib import Path

import pytest

from app.core.errors import BadRequest, NotFound
from app.core.machine import Confidence
from app.core.model_facts import ModelFacts, WeightKind
from app.hub.facts import read_facts
from tests.gguf_files import TinyLlama, gguf_bytes
from tests.safetensors_files import Tensors, write_model, write_safetensors

ROOT = Path(__file__).resolve().parents[4]
GUIDE = ROOT / "resources" / "guide"
TINY = ROOT / "tests" / "fixtures" / "models" / "tiny-qwen2"

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
PLAIN: Tensors = {
    "model.embed_tokens.weight": ("BF16", [320, 64]),
    "model.layers.0.input_layernorm.weight": ("BF16", [64]),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", [64, 64]),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", [32, 64]),
    "model.layers.0.self_attn.v_proj.weight": ("BF16", [32, 64]),
    "model.layers.0.self_attn.o_proj.weight": ("BF16", [64, 64]),
    "model.layers.0.post_attention_layernorm.weight": ("BF16", [64]),
    "model.layers.0.mlp.gate_proj.weight": ("BF16", [128, 64]),
    "model.layers.0.mlp.up_proj.weight": ("BF16", [128, 64]),
    "model.layers.0.mlp.down_proj.weight": ("BF16", [64, 128]),
    "model.norm.weight": ("BF16", [64]),
    "lm_head.weight": ("BF16", [320, 64]),
}


def bytes_of(facts: ModelFacts) -> dict[WeightKind, int]:
    sizes: dict[WeightKind, int] = {}
    for group in facts.weights:
        sizes[group.kind] = sizes.get(group.kind, 0) + group.bytes
    return sizes


def test_the_same_model_in_both_forms_has_the_same_layers_and_parameters() -> None:
    ours, theirs = read_facts(GUIDE / "guide-q8_0.gguf"), read_facts(GUIDE / "hf")
    assert theirs.layers == ours.layers
    assert (theirs.parameters, theirs.active_parameters) == (ours.parameters, ours.active_parameters)
    assert (theirs.hidden, theirs.vocabulary, theirs.trained_context) == (256, 2048, 4096)
    assert (theirs.format, theirs.quantization, theirs.tied_embeddings) == ("safetensors", "BF16", True)
    assert (theirs.capabilities, theirs.chat_template) == (ours.capabilities, ours.chat_template)
    by_kind = [
        {kind: sum(g.elements for g in facts.weights if g.kind is kind) for kind in WeightKind}
        for facts in (ours, theirs)
    ]
    assert by_kind[0] == by_kind[1]


def test_what_the_shapes_say_is_what_the_headers_say(tmp_path: Path) -> None:
    whole = read_facts(write_model(tmp_path / "whole", LLAMA, PLAIN))
    alone = read_facts(write_model(tmp_path / "alone", LLAMA, {}))
    assert bytes_of(alone) == bytes_of(whole)
    assert (alone.parameters, alone.active_parameters) == (whole.parameters, whole.active_parameters)
    assert (whole.confidence, alone.confidence) == (Confidence.MEASURED, Confidence.DERIVED)
    assert not whole.tied_embeddings
    assert whole.file_bytes == (tmp_path / "whole" / "model.safetensors").stat().st_size


def test_an_openvino_folder_counts_each_constant_once(tmp_path: Path) -> None:
    folder = shutil.copytree(TINY / "ov", tmp_path / "ov")
    with (folder / "openvino_model.bin").open("wb") as file:
        file.truncate(459_045)
    facts = read_facts(folder)
    assert (facts.format, facts.architecture, facts.quantization) == ("openvino", "qwen2", "F32")
    assert sum(group.bytes for group in facts.weights) == 459_045
    assert bytes_of(facts)[WeightKind.INPUT_EMBEDDING] == bytes_of(facts)[WeightKind.OUTPUT] == 320 * 64 * 4
    assert [layer.kv_heads for layer in facts.layers] == [2, 2]
    with (folder / "openvino_model.bin").open("wb") as file:
        file.truncate(459_000)
    with pytest.raises(BadRequest, match="outside the weights file"):
        read_facts(folder)


def test_an_onnx_folder_is_read_from_its_graph() -> None:
    facts = read_facts(TINY / "onnx")
    assert (facts.format, facts.architecture, facts.quantization) == ("onnx-genai", "qwen2", "INT4")
    assert sum(group.bytes for group in facts.weights) == 174_848, "the size of the weights file beside the graph"
    assert bytes_of(facts)[WeightKind.OUTPUT] == 10_240 + 2_560, "four bits and the scales"
    assert bytes_of(facts)[WeightKind.NORM] == 5 * 64 * 4
    assert [(layer.kv_heads, layer.key_dim) for layer in facts.layers] == [(2, 16)] * 2
    assert facts.trained_context == 512
    assert "chat" in facts.capabilities


def test_shards_are_summed_by_the_index_and_a_missing_one_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", LLAMA, {})
    names = list(PLAIN)
    parts = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for part, own in parts.items():
        write_safetensors(folder / part, {name: PLAIN[name] for name in own})
    write_safetensors(folder / "stray.safetensors", {"model.embed_tokens.weight": ("BF16", [320, 64])})
    index = {"weight_map": {name: part for part, own in parts.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert bytes_of(read_facts(folder)) == bytes_of(read_facts(write_model(tmp_path / "whole", LLAMA, PLAIN)))
    (folder / "b.safetensors").unlink()
    with pytest.raises(NotFound, match=r"b\.safetensors is missing"):
        read_facts(folder)


@pytest.mark.parametrize("name", ["../b.safetensors", "/etc/passwd", "sub/b.safetensors", "..\\b.safetensors", "b.bin"])
def test_an_index_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path / "m", LLAMA, {})
    write_safetensors(tmp_path / "b.safetensors", PLAIN)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(BadRequest, match="impossible files"):
        read_facts(folder)


def test_pickled_weights_are_refused_with_the_reason(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", LLAMA, {})
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(BadRequest, match="pickled") as error:
        read_facts(folder)
    assert error.value.code == "model_unsupported"


def test_code_of_a_models_own_is_noticed(tmp_path: Path) -> None:
    config = {**LLAMA, "auto_map": {"AutoModelForCausalLM": "modeling_x.X"}}
    assert read_facts(write_model(tmp_path / "m", config, PLAIN)).needs_remote_code
    assert not read_facts(write_model(tmp_path / "n", LLAMA, PLAIN)).needs_remote_code


def test_eyes_and_their_words_in_the_template_make_capabilities(tmp_path: Path) -> None:
    text = {key: value for key, value in LLAMA.items() if key != "model_type"} | {"model_type": "qwen2_5_vl_text"}
    config = {"model_type": "qwen2_5_vl", "text_config": text, "vision_config": {"depth": 1}}
    tensors = {**PLAIN, "visual.blocks.0.attn.qkv.weight": ("BF16", (96, 32))}
    folder = write_model(tmp_path / "m", config, tensors)
    template = "{% if tools %}<tool_call>{% endif %}{% if enable_thinking %}<think>{% endif %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    facts = read_facts(folder)
    assert facts.capabilities == ["chat", "tools", "thinking", "vision"]
    assert bytes_of(facts)[WeightKind.PROJECTOR] == 96 * 32 * 2
    assert facts.active_parameters == read_facts(write_model(tmp_path / "n", LLAMA, PLAIN)).active_parameters


def test_draft_weights_make_draft_layers_and_their_absence_none(tmp_path: Path) -> None:
    config = {**LLAMA, "num_nextn_predict_layers": 1}
    drafts: Tensors = {"model.layers.1.eh_proj.weight": ("BF16", [64, 128])}
    with_drafts = read_facts(write_model(tmp_path / "with", config, {**PLAIN, **drafts}))
    without = read_facts(write_model(tmp_path / "without", config, PLAIN))
    assert [layer.is_draft for layer in with_drafts.layers] == [False, True]
    assert bytes_of(with_drafts)[WeightKind.DRAFT] == 64 * 128 * 2
    assert [layer.is_draft for layer in without.layers] == [False]
    assert with_drafts.active_parameters == without.active_parameters


def test_a_folder_of_gguf_files_is_its_model_and_its_projector(tmp_path: Path) -> None:
    model = TinyLlama().write(tmp_path / "tiny.gguf")
    clip = gguf_bytes(
        {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True},
        [("v.blk.0.attn_q.weight", [4, 4], bytes(64))],
    )
    (tmp_path / "mmproj-tiny.gguf").write_bytes(clip)
    facts = read_facts(tmp_path)
    assert facts.capabilities == ["chat", "vision"]
    assert bytes_of(facts)[WeightKind.PROJECTOR] == 64
    assert facts.layers == read_facts(model).layers
    TinyLlama().write(tmp_path / "other.gguf")
    with pytest.raises(BadRequest, match="2 models"):
        read_facts(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"a": ', "\xff", '{"model_type": "llama"'])
def test_a_damaged_configuration_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(BadRequest) as error:
        read_facts(tmp_path)
    assert error.value.code == "model_corrupt"


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no model") as error:
        read_facts(tmp_path)
    assert error.value.code == "model_unsupported"
    with pytest.raises(NotFound):
        read_facts(tmp_path / "nothing")


def in_mlx(tensors: Tensors) -> Tensors:
    """Four bits in groups of 32, as mlx_lm.convert writes them: matrices only, the embedding among them."""
    packed_tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (dtype, shape) in tensors.items():
        module = name.removesuffix(".weight")
        if len(shape) == 1:
            packed_tensors[name] = (dtype, tuple(shape))
            continue
        rows, columns = shape
        packed_tensors[name] = ("U32", (rows, columns // 8))
        packed_tensors[f"{module}.scales"] = packed_tensors[f"{module}.biases"] = ("BF16", (rows, columns // 32))
    return packed_tensors


def in_awq(tensors: Tensors) -> Tensors:
    """Four bits in groups of 32 inside the blocks."""
    packed_tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (dtype, shape) in tensors.items():
        module = name.removesuffix(".weight")
        if len(shape) == 1 or ".layers." not in name:
            packed_tensors[name] = (dtype, tuple(shape))
            continue
        outputs, inputs = shape
        packed_tensors[f"{module}.qweight"] = ("I32", (inputs, outputs // 8))
        packed_tensors[f"{module}.qzeros"] = ("I32", (inputs // 32, outputs // 8))
        packed_tensors[f"{module}.scales"] = ("F16", (inputs // 32, outputs))
    return packed_tensors


@pytest.mark.parametrize(
    ("form", "quantization"),
    [
        ("mlx", {"quantization": {"bits": 4, "group_size": 32}}),
        ("awq", {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}}),
    ],
)
def test_packed_weights_weigh_what_their_format_says(
    tmp_path: Path, form: str, quantization: dict[str, object]
) -> None:
    config = {**LLAMA, **quantization}
    packed_tensors = {"mlx": in_mlx, "awq": in_awq}[form](PLAIN)
    whole = read_facts(write_model(tmp_path / "whole", config, packed_tensors, format="mlx" if form == "mlx" else "pt"))
    alone = read_facts(write_model(tmp_path / "alone", config, {}))
    assert (whole.format, whole.quantization) == (alone.format, alone.quantization) == (form, "4bit")
    assert bytes_of(whole) == bytes_of(alone)
    plain = read_facts(write_model(tmp_path / "plain", LLAMA, PLAIN))
    assert (whole.parameters, whole.layers) == (plain.parameters, plain.layers)
    assert {group.type for group in whole.weights} == {"4-bit g32", "BF16"}
