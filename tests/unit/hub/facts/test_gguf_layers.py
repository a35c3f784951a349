from collections.abc import Mapping

import pytest

from app.core.errors import BadRequest
from app.core.machine import Confidence
from app.core.model_facts import AttentionKind, WeightKind
from app.hub.facts.gguf import TensorInfo, Value, facts_from

Q4_K, Q6_K, F32 = 12, 14, 0
LLAMA: dict[str, Value] = {
    "context_length": 8192,
    "embedding_length": 4096,
    "block_count": 4,
    "feed_forward_length": 14336,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
}


def metadata(architecture: str, **changes: Value) -> dict[str, Value]:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    keys = {f"{architecture}.{key}": value for key, value in {**LLAMA, **named}.items()}
    return {"general.architecture": architecture, **keys}


def kinds(values: Mapping[str, Value]) -> list[AttentionKind]:
    return [layer.attention for layer in facts_from(values, [], name="x").layers]


def test_a_llama_keeps_every_token_in_every_layer() -> None:
    facts = facts_from(metadata("llama"), [], name="Llama")
    layer = facts.layers[0]
    assert [layer.attention for layer in facts.layers] == [AttentionKind.FULL] * 4
    assert (layer.heads, layer.kv_heads, layer.key_dim, layer.value_dim) == (32, 8, 128, 128)
    assert (facts.hidden, facts.trained_context, facts.confidence) == (4096, 8192, Confidence.MEASURED)


def test_an_unknown_architecture_is_read_and_said_to_be_derived() -> None:
    facts = facts_from(metadata("brandnew"), [], name="x")
    assert facts.confidence is Confidence.DERIVED
    assert [layer.kv_heads for layer in facts.layers] == [8] * 4


def test_tensors_are_summed_by_purpose_layer_and_type() -> None:
    tensors = [
        TensorInfo("token_embd.weight", (4096, 1000), Q6_K),
        TensorInfo("blk.0.attn_q.weight", (4096, 4096), Q4_K),
        TensorInfo("blk.0.attn_k.weight", (4096, 1024), Q4_K),
        TensorInfo("blk.0.attn_norm.weight", (4096,), F32),
    ]
    facts = facts_from(metadata("llama"), tensors, name="x")
    found = {(group.kind, group.layer): (group.tensors, group.bytes) for group in facts.weights}
    assert found == {
        (WeightKind.INPUT_EMBEDDING, None): (1, 4096 * 1000 // 256 * 210),
        (WeightKind.ATTENTION, 0): (2, (4096 * 4096 + 4096 * 1024) // 256 * 144),
        (WeightKind.NORM, 0): (1, 16384),
    }
    assert facts.tied_embeddings
    assert facts.vocabulary == 1000
    assert facts.active_parameters == facts.parameters + 4096


def test_a_number_format_we_do_not_know_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        facts_from(metadata("llama"), [TensorInfo("token_embd.weight", (32,), 99)], name="x")
    assert caught.value.code == "model_unsupported"


@pytest.mark.parametrize("changes", [{"block_count": 1 << 20}, {"attention__head_count_kv": -1}])
def test_impossible_figures_are_refused(changes: dict[str, Value]) -> None:
    with pytest.raises(BadRequest) as caught:
        facts_from(metadata("llama", **changes), [], name="x")
    assert caught.value.code == "model_corrupt"
