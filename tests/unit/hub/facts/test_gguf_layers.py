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
    named_fields = {key.replace("__", "."): value for key, value in changes.items()}
    keys = {f"{architecture}.{key}": value for key, value in {**LLAMA, **named_fields}.items()}
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
    groups = {(group.kind, group.layer): (group.tensors, group.bytes) for group in facts.weights}
    assert groups == {
        (WeightKind.INPUT_EMBEDDING, None): (1, 4096 * 1000 // 256 * 210),
        (WeightKind.ATTENTION, 0): (2, (4096 * 4096 + 4096 * 1024) // 256 * 144),
        (WeightKind.NORM, 0): (1, 16384),
    }
    assert facts.tied_embeddings
    assert facts.vocabulary == 1000
    assert facts.active_parameters == facts.parameters + 4096


def test_a_number_format_we_do_not_know_is_refused() -> None:
    with pytest.raises(BadRequest) as error:
        facts_from(metadata("llama"), [TensorInfo("token_embd.weight", (32,), 99)], name="x")
    assert error.value.code == "model_unsupported"


@pytest.mark.parametrize("changes", [{"block_count": 1 << 20}, {"attention__head_count_kv": -1}])
def test_impossible_figures_are_refused(changes: dict[str, Value]) -> None:
    with pytest.raises(BadRequest) as error:
        facts_from(metadata("llama", **changes), [], name="x")
    assert error.value.code == "model_corrupt"


def test_gemma_3_slides_in_five_of_six_layers() -> None:
    values = metadata("gemma3", block_count=12, attention__sliding_window=1024)
    sliding_layers = [AttentionKind.SLIDING] * 5
    assert kinds(values) == [*sliding_layers, AttentionKind.FULL] * 2
    assert facts_from(values, [], name="x").layers[0].window == 1024


def test_a_pattern_in_the_file_wins_over_the_usual_one() -> None:
    pattern: list[bool] = [True, False, True, True]
    values = metadata("gemma4", attention__sliding_window=512, attention__sliding_window_pattern=pattern)
    values |= {"gemma4.attention.key_length": 512, "gemma4.attention.key_length_swa": 256}
    layers = facts_from(values, [], name="x").layers
    assert [(layer.attention is AttentionKind.SLIDING, layer.key_dim) for layer in layers] == [
        (True, 256),
        (False, 512),
        (True, 256),
        (True, 256),
    ]


def test_phi_3_ignores_its_window_and_llama_4_keeps_chunks() -> None:
    assert kinds(metadata("phi3", attention__sliding_window=2047)) == [AttentionKind.FULL] * 4
    assert kinds(metadata("llama4")) == [AttentionKind.CHUNKED] * 3 + [AttentionKind.FULL]


def test_smallthinker_starts_with_a_full_layer() -> None:
    kinds_of_layers = kinds(metadata("smallthinker", attention__sliding_window=4096))
    assert kinds_of_layers == [AttentionKind.FULL] + [AttentionKind.SLIDING] * 3


def test_layers_that_share_keep_nothing_of_their_own() -> None:
    values = metadata("gemma4", attention__sliding_window=512, attention__shared_kv_layers=2)
    values["gemma4.attention.sliding_window_pattern"] = [True, False, True, False]
    assert kinds(values) == [AttentionKind.SLIDING, AttentionKind.FULL, AttentionKind.SHARED, AttentionKind.SHARED]


def test_a_delta_net_keeps_state_in_three_of_four_layers_and_its_draft_layer_attends() -> None:
    values = metadata(
        "qwen35",
        block_count=5,
        nextn_predict_layers=1,
        ssm__conv_kernel=4,
        ssm__inner_size=6144,
        ssm__state_size=128,
        ssm__group_count=16,
    )
    layers = facts_from(values, [], name="x").layers
    assert [layer.attention for layer in layers] == [AttentionKind.NONE] * 3 + [AttentionKind.FULL] * 2
    assert [layer.is_draft for layer in layers] == [False] * 4 + [True]
    assert (layers[0].conv_elements, layers[0].state_elements) == (3 * (6144 + 2 * 16 * 128), 128 * 6144)
    assert (layers[4].conv_elements, layers[4].state_elements) == (0, 0)


def test_hybrids_recur_where_there_are_no_kv_heads() -> None:
    values = metadata("jamba", attention__head_count_kv=[0, 8, 0, 0], ssm__conv_kernel=4, ssm__inner_size=8192)
    values["jamba.ssm.state_size"] = 16
    layers = facts_from(values, [], name="x").layers
    assert [layer.kv_heads for layer in layers] == [0, 8, 0, 0]
    assert [layer.state_elements for layer in layers] == [16 * 8192, 0, 16 * 8192, 16 * 8192]


def test_nemotron_h_has_layers_that_are_feed_forward_only() -> None:
    values = metadata("nemotron_h", attention__head_count_kv=[0, 0, 8, 0], feed_forward_length=[0, 21504, 0, 0])
    values |= {"nemotron_h.ssm.inner_size": 8192, "nemotron_h.ssm.state_size": 128}
    layers = facts_from(values, [], name="x").layers
    assert [bool(layer.state_elements) for layer in layers] == [True, False, False, True]
    assert [layer.attention for layer in layers][2] is AttentionKind.FULL


def test_falcon_h1_attends_and_recurs_in_each_layer() -> None:
    values = metadata("falcon-h1", ssm__inner_size=4096, ssm__state_size=256)
    assert all(layer.kv_heads and layer.state_elements for layer in facts_from(values, [], name="x").layers)


@pytest.mark.parametrize(
    ("architecture", "keys", "conv", "state"),
    [
        ("rwkv7", {"wkv.head_size": 64}, 2 * 4096, 4096 * 64),
        ("rwkv6qwen2", {"wkv.head_size": 64, "token_shift_count": 1}, 4096, 4096 * 64),
        ("lfm2", {"shortconv.l_cache": 3, "attention.head_count_kv": 0}, 2 * 4096, 0),
        ("mamba", {"ssm.conv_kernel": 4, "ssm.inner_size": 5120, "ssm.state_size": 16}, 3 * 5120, 16 * 5120),
        (
            "kimi-linear",
            {"kda.head_dim": 128, "ssm.conv_kernel": 4, "attention.head_count_kv": 0},
            3 * 3 * 4096,
            128 * 4096,
        ),
    ],
)
def test_state_sizes_are_those_llama_cpp_allocates(
    architecture: str, keys: dict[str, Value], conv: int, state: int
) -> None:
    values = metadata(architecture) | {f"{architecture}.{key}": value for key, value in keys.items()}
    layer = facts_from(values, [], name="x").layers[0]
    assert (layer.attention, layer.conv_elements, layer.state_elements) == (AttentionKind.NONE, conv, state)


def test_deepseek_caches_one_compressed_vector() -> None:
    values = metadata("deepseek2", attention__head_count_kv=1, attention__kv_lora_rank=512)
    values |= {"deepseek2.attention.key_length": 576, "deepseek2.attention.value_length": 512}
    absorbed_fields = values | {"deepseek2.attention.key_length_mla": 192, "deepseek2.attention.value_length_mla": 128}
    assert {(layer.attention, layer.latent_dim) for layer in facts_from(absorbed_fields, [], name="x").layers} == {
        (AttentionKind.LATENT, 576)
    }
    assert kinds(values) == [AttentionKind.FULL] * 4, "an older file keeps every head's keys and values"


@pytest.mark.parametrize(("architecture", "capabilities"), [("bert", ["embedding"]), ("dream", [])])
def test_what_reads_all_at_once_keeps_nothing(architecture: str, capabilities: list[str]) -> None:
    facts = facts_from(metadata(architecture), [], name="x")
    assert {(layer.attention, layer.heads) for layer in facts.layers} == {(AttentionKind.NONE, 32)}
    assert facts.capabilities == capabilities
    assert not facts.tied_embeddings


def test_experts_are_where_the_tensors_say() -> None:
    values = metadata("qwen3moe", expert_count=128, expert_used_count=8, expert_feed_forward_length=768)
    experts = TensorInfo("blk.2.ffn_down_exps.weight", (768, 4096, 128), Q4_K)
    facts = facts_from(values, [experts, TensorInfo("blk.2.ffn_gate_inp.weight", (4096, 128), F32)], name="x")
    assert [layer.experts for layer in facts.layers] == [0, 0, 128, 0]
    assert [layer.feed_forward for layer in facts.layers] == [14336, 14336, 768, 14336]
    assert facts.active_parameters == experts.elements * 8 // 128 + 4096 * 128


def test_leading_dense_layers_have_no_experts() -> None:
    values = metadata("deepseek2", expert_count=64, expert_used_count=6, leading_dense_block_count=1)
    assert [layer.experts_used for layer in facts_from(values, [], name="x").layers] == [0, 6, 6, 6]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("output.weight", WeightKind.OUTPUT),
        ("per_layer_token_embd.weight", WeightKind.LOOKUP_TABLE),
        ("output_norm.weight", WeightKind.NORM),
        ("rope_freqs.weight", WeightKind.OTHER),
        ("v.blk.3.attn_q.weight", WeightKind.PROJECTOR),
        ("blk.3.ffn_gate_up_exps.weight", WeightKind.EXPERTS),
        ("blk.3.ffn_down.7.weight", WeightKind.EXPERTS),
        ("blk.3.ffn_up_shexp.weight", WeightKind.SHARED_EXPERTS),
        ("blk.3.ffn_gate_inp.weight", WeightKind.ROUTER),
        ("blk.3.ffn_gate.weight", WeightKind.FEED_FORWARD),
        ("blk.3.attn_kv_a_mqa.weight", WeightKind.ATTENTION),
        ("blk.3.attn_q_a_norm.weight", WeightKind.NORM),
        ("blk.3.ssm_in.weight", WeightKind.RECURRENT),
        ("blk.3.time_mix_key.weight", WeightKind.RECURRENT),
        ("blk.3.nextn.eh_proj.weight", WeightKind.DRAFT),
        ("dec.blk.3.cross_attn_k.weight", WeightKind.ATTENTION),
    ],
)
def test_names_tell_what_a_tensor_is_for(name: str, kind: WeightKind) -> None:
    facts = facts_from(metadata("llama"), [TensorInfo(name, (32,), F32)], name="x")
    assert [group.kind for group in facts.weights] == [kind]


def test_exaone_4_slides_only_at_sixty_four_layers() -> None:
    small = metadata("exaone4", block_count=4, attention__sliding_window=4096)
    assert kinds(small) == [AttentionKind.FULL] * 4
    assert kinds(small | {"exaone4.block_count": 64})[:4] == [AttentionKind.SLIDING] * 3 + [AttentionKind.FULL]


@pytest.mark.parametrize(("architecture", "window"), [("smallthinker", 4096), ("llama4", 8192), ("gemma2", 777)])
def test_some_windows_are_what_llama_cpp_takes_them_for(architecture: str, window: int) -> None:
    layers = facts_from(metadata(architecture, attention__sliding_window=777), [], name="x").layers
    assert {layer.window for layer in layers} == {0, window}


def test_a_window_of_zero_is_none() -> None:
    assert kinds(metadata("gemma2", attention__sliding_window=0)) == [AttentionKind.FULL] * 4
