from dataclasses import replace

import msgspec
import pytest

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.reads import KERNELS_PLAIN_LAYER, kernel_count, token_reads
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightKind
from tests.unit.advisor.engines import setting_for
from tests.unit.advisor.made_models import EIGHT, MIXTURE, SLIDING, group_of
from tests.unit.advisor.speed_cases import CPU, CUDA


def weights_of(facts: ModelFacts, *kinds: WeightKind) -> float:
    return float(sum(group.bytes for group in facts.weights if group.kind in kinds))


def test_a_dense_model_reads_all_but_the_input_embedding() -> None:
    facts = EIGHT.facts("Q4_K_M")
    reads = token_reads(facts, CUDA, depth=0)
    assert reads.device_bytes == facts.file_bytes - weights_of(facts, WeightKind.INPUT_EMBEDDING)
    assert reads.total_bytes == reads.device_bytes


def test_a_tied_embedding_is_read_as_the_output() -> None:
    untied_facts = EIGHT.facts("Q8_0")
    kept_groups = [group for group in untied_facts.weights if group.kind is not WeightKind.OUTPUT]
    tied_facts = msgspec.structs.replace(untied_facts, weights=kept_groups, tied_embeddings=True)
    assert token_reads(tied_facts, CUDA, depth=0).device_bytes == token_reads(untied_facts, CUDA, depth=0).device_bytes


def test_of_a_table_that_also_holds_other_embeddings_only_the_output_part_is_read() -> None:
    untied_facts = EIGHT.facts("Q8_0")
    kept_groups = [g for g in untied_facts.weights if g.kind not in (WeightKind.OUTPUT, WeightKind.INPUT_EMBEDDING)]
    both = group_of(WeightKind.INPUT_EMBEDDING, None, "Q8_0", 3 * untied_facts.hidden * untied_facts.vocabulary)
    tied_facts = msgspec.structs.replace(untied_facts, weights=[*kept_groups, both], tied_embeddings=True)
    expected_bytes = token_reads(untied_facts, CUDA, depth=0).device_bytes
    assert token_reads(tied_facts, CUDA, depth=0).device_bytes == pytest.approx(expected_bytes, rel=1e-6)


def test_of_experts_only_those_chosen_are_read() -> None:
    facts = MIXTURE.facts("Q4_K_M")
    others = facts.file_bytes - weights_of(facts, WeightKind.INPUT_EMBEDDING, WeightKind.EXPERTS)
    chosen_bytes = weights_of(facts, WeightKind.EXPERTS) * MIXTURE.experts_used / MIXTURE.experts
    assert token_reads(facts, CUDA, depth=0).device_bytes == pytest.approx(others + chosen_bytes)


def test_neither_drafts_nor_projectors_are_read() -> None:
    facts = EIGHT.facts("Q8_0")
    more = [group_of(kind, None, "F16", 10**9) for kind in (WeightKind.DRAFT, WeightKind.PROJECTOR)]
    grown_facts = msgspec.structs.replace(facts, weights=[*facts.weights, *more])
    assert token_reads(grown_facts, CUDA, depth=0) == token_reads(facts, CUDA, depth=0)


def test_every_cached_token_is_read_in_full_layers() -> None:
    reads = token_reads(EIGHT.facts("Q8_0"), CUDA, depth=1000)
    assert reads.device_cache_bytes == 32 * 1000 * 8 * (128 + 128) * 2


def test_a_window_is_the_most_that_sliding_layers_read() -> None:
    facts = SLIDING.facts("Q8_0")
    per_token = 8 * (128 + 128) * 2
    assert token_reads(facts, CUDA, depth=4096).device_cache_bytes == (8 * 4096 + 40 * 1024) * per_token


def test_a_quantised_cache_is_read_in_its_own_blocks() -> None:
    facts = EIGHT.facts("Q8_0")
    plain = token_reads(facts, CUDA, depth=512).device_cache_bytes
    eight_bit = token_reads(facts, msgspec.structs.replace(CUDA, kv_type="q8_0"), depth=512).device_cache_bytes
    assert eight_bit / plain == pytest.approx(34 / 64)


def one_layer(**figures: object) -> ModelFacts:
    return msgspec.structs.replace(EIGHT.facts("Q8_0"), layers=[msgspec.convert(figures, Layer)])


def test_recurrent_state_is_read_and_written_whatever_the_depth() -> None:
    facts = one_layer(attention=AttentionKind.NONE, conv_elements=100, state_elements=1000)
    for depth in (0, 5000):
        assert token_reads(facts, CUDA, depth=depth).device_cache_bytes == 2 * 4 * 1100


def test_a_latent_cache_is_one_vector_per_token() -> None:
    facts = one_layer(attention=AttentionKind.LATENT, latent_dim=576, kv_heads=1, key_dim=576, value_dim=512)
    assert token_reads(facts, CUDA, depth=10).device_cache_bytes == 10 * 576 * 2


def test_a_layer_that_only_predicts_ahead_has_no_cache_to_read() -> None:
    facts = one_layer(kv_heads=8, key_dim=128, value_dim=128, is_draft=True)
    assert token_reads(facts, CUDA, depth=10).device_cache_bytes == 0


def test_layers_off_the_gpu_are_read_by_the_processor() -> None:
    facts = EIGHT.facts("Q8_0")
    whole = token_reads(facts, CUDA, depth=100)
    half = token_reads(facts, msgspec.structs.replace(CUDA, gpu_layers=17), depth=100)
    assert half.host_bytes + half.device_bytes == whole.device_bytes
    assert half.host_layers == 16
    assert half.host_cache_bytes == whole.device_cache_bytes / 2
    assert half.host_bytes == pytest.approx(16 / 32 * (whole.device_bytes - weights_of(facts, WeightKind.OUTPUT)))


def test_experts_kept_in_system_memory_leave_attention_on_the_gpu() -> None:
    facts = MIXTURE.facts("Q4_K_M")
    reads = token_reads(facts, msgspec.structs.replace(CUDA, cpu_moe_layers=12), depth=100)
    expected_bytes = weights_of(facts, WeightKind.EXPERTS) * 12 / 48 * MIXTURE.experts_used / MIXTURE.experts
    assert reads.host_bytes == pytest.approx(expected_bytes)
    assert (reads.host_layers, reads.host_cache_bytes) == (12, 0)


@pytest.mark.parametrize("setting", [CPU, setting_for(backend="cpu", cpu_moe_layers=12)])
def test_without_a_gpu_the_processor_is_the_device(setting: RunSetting) -> None:
    reads = token_reads(MIXTURE.facts("Q4_K_M"), setting, depth=0)
    assert reads.host_bytes == 0
    assert reads.device_bytes > 0


def test_experts_take_a_router_and_eight_kernels_more() -> None:
    assert kernel_count(MIXTURE.facts("Q8_0")) / 48 == kernel_count(EIGHT.facts("Q8_0")) / 32 + 9


def test_a_recurrent_layer_takes_more_kernels_than_an_attending_one() -> None:
    attention_facts = one_layer(kv_heads=8, key_dim=128, value_dim=128, feed_forward=1)
    recurrent = one_layer(attention=AttentionKind.NONE, conv_elements=1, state_elements=1, feed_forward=1)
    convolution_facts = one_layer(attention=AttentionKind.NONE, conv_elements=1, feed_forward=1)
    assert kernel_count(recurrent) > kernel_count(attention_facts) > kernel_count(convolution_facts)


def test_formats_that_split_matrices_count_as_few_kernels() -> None:
    facts = EIGHT.facts("4-bit", "mlx")
    norms = [group_of(WeightKind.NORM, layer, "F16", 4096) for layer in range(32)]
    two = [msgspec.structs.replace(norm, tensors=2) for norm in norms]
    split = msgspec.structs.replace(facts, weights=[*facts.weights, *two])
    assert kernel_count(split) == 32 * KERNELS_PLAIN_LAYER


def test_smaller_types_are_read_in_proportion() -> None:
    small_model = replace(EIGHT, layers=4)
    eight, sixteen = (token_reads(small_model.facts(name), CUDA, depth=0) for name in ("Q8_0", "F16"))
    assert sixteen.device_bytes / eight.device_bytes == pytest.approx(16 / 8.5, rel=1e-6)
    assert sixteen.device_elements == eight.device_elements
