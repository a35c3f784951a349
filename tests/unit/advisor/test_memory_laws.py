"""Laws of the memory estimate that hold for every model: sums that add up, bounds that are exact, searches that end."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.advisor.memory import kv, reserved
from app.advisor.memory.estimate import (
    UNTRAINED_LIMIT,
    SpeedModel,
    estimate_memory,
    largest_fit,
    setting_fits,
    smallest_fit,
    sum_components,
)
from app.advisor.memory.llama_cpp import blocks, buffers
from app.advisor.memory.llama_cpp.buffers import (
    compute_parts,
    fixed_parts,
    graph_bytes,
    llama_parts,
    output_part,
    tokens_at_once,
)
from app.advisor.memory.llama_cpp.weights import gpu_layer_count, layer_places, types_to_repack, weight_parts
from app.advisor.memory.setting import (
    HOST,
    MemoryComponent,
    RunSetting,
    by_component,
)
from app.advisor.memory.weight_sums import weight_sums
from app.core.advice import EstimateConfidence, Rate
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightKind
from app.hardware.description import machine_from
from tests.unit.advisor.engines import setting_for
from tests.unit.advisor.made_models import TINY, TINY_MIXTURE, Made, group_of, repack_model

MIB, GIB = 1024**2, 1024**3
PROCESSOR = machine_from(b'{"os": "Linux", "ram_gb": 64}')
CARD = machine_from(b'{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}')
MOST_TRIES = 64
"""A bisection that asks more often does not end."""

# ----- what a token takes

BLOCKS = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "fp8": (1, 1),
    "openvino-u8": (64, 64 + 3 * 4),
    "q8_0": (32, 32 + 2),
    "q5_1": (32, 16 + 4 + 4),
    "q5_0": (32, 16 + 4 + 2),
    "q4_1": (32, 16 + 4),
    "q4_0": (32, 16 + 2),
    "iq4_nl": (32, 16 + 2),
    "mlx-8bit": (64, 64 + 4),
    "mlx-4bit": (64, 32 + 4),
    "exl-q8": (32, 32 + 2),
    "exl-q6": (32, 24 + 2),
    "exl-q4": (32, 16 + 2),
}
"""Elements of a block and its bytes: bits of the elements, then scales and offsets."""


@pytest.mark.parametrize("kv_type", BLOCKS)
def test_elements_are_kept_in_whole_blocks(kv_type: str) -> None:
    block, size = BLOCKS[kv_type]
    assert [kv.type_bytes(kv_type, elements) for elements in (0, 1, block, block + 1, 7 * block)] == [
        *(0, size, size, 2 * size, 7 * size)
    ]
    assert kv.is_quantised(kv_type) == (block > 1)
    assert kv.is_small(kv_type) == (size / block < 2)


def test_no_other_type_is_known() -> None:
    assert set(kv.BLOCKS) == set(BLOCKS)


def test_a_latent_and_its_index_are_kept_apart_and_have_no_values() -> None:
    layer = Layer(attention=AttentionKind.LATENT, heads=8, kv_heads=1, latent_dim=576, indexer_dim=128, value_dim=512)
    assert kv.row_bytes(layer, setting_for(), widest=10**6) == 2 * (576 + 128)
    assert kv.row_bytes(layer, setting_for(kv_type="q8_0")) == (576 + 128) // 32 * 34
    arithmetic = kv.kv_arithmetic(facts_of(layer), setting_for(context=256))
    assert arithmetic == "1 layers x 256 x (576 + 128) f16"
    plain = msgspec.structs.replace(layer, indexer_dim=0)
    assert kv.kv_arithmetic(facts_of(plain), setting_for(context=256)) == "1 layers x 256 x (576) f16"


def test_values_have_a_type_of_their_own_and_are_as_wide_as_the_widest_where_they_are_turned_over() -> None:
    layer = Layer(heads=8, kv_heads=2, key_dim=64, value_dim=32)
    assert kv.row_bytes(layer, setting_for()) == 2 * (2 * 64 + 2 * 32)
    assert kv.row_bytes(layer, setting_for(value_type="q8_0")) == 2 * 2 * 64 + 2 * 34
    assert kv.row_bytes(layer, setting_for(), widest=64) == 2 * (2 * 64 + 64)
    assert kv.row_bytes(layer, setting_for(), widest=65) == 2 * (2 * 64 + 65)
    assert "(64 f16 + 32 q8_0)" in kv.kv_arithmetic(facts_of(layer), setting_for(value_type="q8_0"))


@pytest.mark.parametrize("attention", [AttentionKind.NONE, AttentionKind.SHARED])
def test_a_layer_without_a_cache_takes_nothing(attention: AttentionKind) -> None:
    layer = Layer(attention=attention, heads=8, kv_heads=2, key_dim=64, value_dim=64)
    assert kv.row_bytes(layer, setting_for(), widest=999) == kv.layer_kv(layer, setting_for(), widest=999) == 0
    assert kv.kv_arithmetic(facts_of(layer), setting_for()) == ""
    assert kv.widest_values(facts_of(layer)) == 0


def test_the_widest_values_are_those_of_the_layers_that_keep_them() -> None:
    wide = Layer(attention=AttentionKind.SHARED, heads=8, kv_heads=8, key_dim=64, value_dim=512)
    keeping_layers = [
        Layer(attention=attention, heads=8, kv_heads=2, key_dim=64, value_dim=width, window=8)
        for attention, width in ((AttentionKind.FULL, 64), (AttentionKind.SLIDING, 96), (AttentionKind.CHUNKED, 80))
    ]
    assert kv.widest_values(facts_of(wide, *keeping_layers)) == 2 * 96
    assert (
        kv.widest_values(facts_of(msgspec.structs.replace(keeping_layers[1], is_draft=True), keeping_layers[0]))
        == 2 * 64
    )


@given(
    context=st.integers(1, 100_000),
    slots=st.integers(1, 8),
    window=st.integers(0, 5000),
    batch=st.integers(1, 4096),
    shares=st.tuples(st.booleans(), st.booleans()),
)
def test_a_cache_has_whole_steps_for_every_token_it_may_have_to_keep(
    context: int, slots: int, window: int, batch: int, shares: tuple[bool, bool]
) -> None:
    is_unified, is_full = shares
    setting = setting_for(context=context, slots=slots, batch=batch, is_kv_unified=is_unified, is_swa_full=is_full)
    together = slots if is_unified else 1
    assert kv.cache_streams(setting) * together == slots
    full = 256 * math.ceil(Fraction(context * together, 256))
    for attention in AttentionKind:
        layer = Layer(attention=attention, heads=8, kv_heads=2, key_dim=64, value_dim=64, latent_dim=64, window=window)
        slides = attention in {AttentionKind.SLIDING, AttentionKind.CHUNKED} and not is_full
        kept_tokens = 256 * math.ceil(Fraction(window * together + batch, 256))
        cells = kv.cache_cells(layer, setting)
        assert cells == (min(full, kept_tokens) if slides else full)
        assert kv.layer_kv(layer, setting) == kv.row_bytes(layer, setting) * cells * slots // together


def facts_of(*layers: Layer) -> ModelFacts:
    return msgspec.structs.replace(TINY.facts("Q8_0"), layers=list(layers))


# ----- searches


def count_calls(fits: Callable[[int], bool]) -> Callable[[int], bool]:
    """Return the test, which fails when it is asked more often than a bisection does."""
    tries = 0

    def test(number: int) -> bool:
        nonlocal tries
        tries += 1
        assert tries < MOST_TRIES
        return fits(number)

    return test


@given(limit=st.integers(-5, 5000), most=st.integers(-5, 5000), step=st.integers(1, 300))
def test_the_largest_that_fits_is_the_most_or_the_last_step(limit: int, most: int, step: int) -> None:
    fits = count_calls(lambda number: number <= limit)
    steps = [number for number in range(0, max(0, most) + 1, step) if number <= limit]
    expected_size = max(0, most) if most <= limit else max(steps, default=0)
    assert largest_fit(fits, most=most, step=step) == expected_size
    every = [number for number in range(max(0, most) + 1) if number <= limit]
    assert largest_fit(count_calls(lambda number: number <= limit), most=most) == max(every, default=0)


@given(threshold=st.integers(-5, 2000), most=st.integers(0, 2000))
def test_the_smallest_that_fits_is_the_first(threshold: int, most: int) -> None:
    first = next((number for number in range(most + 1) if number >= threshold), None)
    assert smallest_fit(count_calls(lambda number: number >= threshold), most=most) == first


@pytest.mark.parametrize("trained_context", [None, 10_000])
def test_without_a_bound_the_longest_context_is_what_the_model_was_trained_for_or_a_mebi_of_tokens(
    trained_context: int | None,
) -> None:
    facts = msgspec.structs.replace(TINY.facts("Q8_0"), trained_context=trained_context)
    assert UNTRAINED_LIMIT == 1024 * 1024
    assert estimate_memory(facts, PROCESSOR, setting_for()).largest_context == (trained_context or UNTRAINED_LIMIT)


@pytest.mark.parametrize("engine", ["llama.cpp", "exllamav3", "vllm"])
def test_the_longest_context_fits_and_one_step_more_does_not(engine: str) -> None:
    facts = TINY.facts("Q8_0" if engine == "llama.cpp" else "4.0bpw" if engine == "exllamav3" else "FP8")
    facts = msgspec.structs.replace(facts, trained_context=10**8)
    setting = setting_for(engine=engine, backend="cuda", slots=3, gpu_layers=99, memory_fraction=0.5)
    longest = estimate_memory(facts, CARD, setting).largest_context
    assert longest > 256
    assert setting_fits(facts, CARD, msgspec.structs.replace(setting, context=longest))
    assert not setting_fits(facts, CARD, msgspec.structs.replace(setting, context=longest + 256))


def test_a_floor_of_speed_is_one_that_may_be_reached() -> None:
    def rates(_: RunSetting, depth: int) -> tuple[Rate | None, None]:
        rate = Rate(tokens_per_second=100_000 - depth, low=0, high=200, confidence=EstimateConfidence.PREDICTED)
        return (rate if depth < 90_000 else None), None

    facts = msgspec.structs.replace(TINY.facts("Q8_0"), trained_context=99_000)
    for floor, longest in ((100_000 - 51_200, 51_200), (100_000 - 51_199, 50_944), (None, 99_000)):
        memory = estimate_memory(facts, PROCESSOR, setting_for(), speed=SpeedModel(rates=rates, floor=floor))
        assert (memory.largest_context, memory.depth) == (longest, 0)
        assert memory.decode is not None
        assert memory.decode.tokens_per_second == 100_000


def test_an_estimate_without_speeds_names_none() -> None:
    memory = estimate_memory(TINY.facts("Q8_0"), PROCESSOR, setting_for())
    assert (memory.decode, memory.prefill, memory.depth) == (None, None, 0)
    assert (memory.offload.layers, memory.offload.gpu_layers, memory.offload.cpu_moe_layers) == (4, 0, 0)


# ----- a reservation


def test_a_reservation_fits_as_long_as_every_conversation_does() -> None:
    facts = TINY.facts("FP8")
    setting = setting_for(engine="vllm", backend="cuda", slots=2, memory_fraction=0.5, gpu_memory=(24 * GIB,))
    room = reserved.cache_capacity(facts, setting).tokens
    longest = room // 2 // reserved.BLOCK * reserved.BLOCK
    assert reserved.BLOCK == 16
    assert setting_fits(facts, CARD, msgspec.structs.replace(setting, context=longest))
    assert not setting_fits(facts, CARD, msgspec.structs.replace(setting, context=longest + 1))


def test_a_reservation_without_room_does_not_fit_whatever_it_needs() -> None:
    facts = msgspec.structs.replace(TINY.facts("FP8"), layers=[])
    setting = setting_for(engine="vllm", backend="cuda", gpu_memory=(24 * GIB,))
    assert setting_fits(facts, CARD, msgspec.structs.replace(setting, memory_fraction=0.5))
    small = msgspec.structs.replace(setting, memory_fraction=0.01)
    assert not setting_fits(facts, CARD, small)
    caches = [part.bytes for part in reserved.reserve_parts(facts, small) if part.component is MemoryComponent.KV]
    assert caches == [0], "what is missing is no cache of its own"


def test_capacity_is_never_negative_and_grows_with_the_share() -> None:
    facts = TINY.facts("FP8")
    setting = setting_for(engine="vllm", backend="cuda", gpu_memory=(24 * GIB,))
    capacities = [
        reserved.cache_capacity(facts, msgspec.structs.replace(setting, memory_fraction=share / 20))
        for share in range(1, 20)
    ]
    assert all(capacity.bytes >= 0 <= capacity.tokens for capacity in capacities)
    assert [capacity.bytes for capacity in capacities] == sorted(capacity.bytes for capacity in capacities)
    assert len({capacity.bytes for capacity in capacities}) > 15


# ----- weights and where they lie


@given(
    layers=st.integers(1, 12),
    on_gpu=st.integers(0, 15) | st.none(),
    shares=st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_the_last_layers_are_shared_out_over_the_cards_in_order(
    layers: int, on_gpu: int | None, shares: list[int]
) -> None:
    facts = Made(layers=layers, hidden_size=64, heads=2, kv_heads=1, feed_forward=128, vocabulary=100).facts("Q8_0")
    setting = setting_for(
        backend="cuda", gpus=len(shares), gpu_layers=on_gpu, split=tuple(float(share) for share in shares)
    )
    count = layers + 1 if on_gpu is None else min(on_gpu, layers + 1)
    assert gpu_layer_count(facts, setting) == count
    places = layer_places(facts, setting)
    assert len(places) == layers + 1
    assert places == sorted(places)
    assert places.count(HOST) == layers + 1 - count
    ends = [Fraction(sum(shares[: card + 1]), sum(shares)) for card in range(len(shares))]
    for index, place in enumerate(places[layers + 1 - count :]):
        assert place == next(card for card, end in enumerate(ends) if Fraction(index, count) < end)
    assert set(layer_places(facts, setting_for())) == {HOST}


@given(
    is_tied=st.booleans(),
    on_gpu=st.integers(0, 5) | st.none(),
    experts=st.integers(0, 5),
    has_avx2=st.booleans(),
    repacks=st.booleans(),
)
def test_no_byte_of_the_weights_is_lost_or_counted_twice(
    on_gpu: int | None, experts: int, *, is_tied: bool, has_avx2: bool, repacks: bool
) -> None:
    facts = msgspec.structs.replace(repack_model(TINY_MIXTURE), tied_embeddings=is_tied)
    facts = msgspec.structs.replace(facts, weights=[*facts.weights, group_of(WeightKind.DRAFT, 4, "Q8_0", 999)])
    setting = setting_for(
        backend="cuda",
        gpu_layers=on_gpu,
        cpu_moe_layers=experts,
        isa=("avx2",) if has_avx2 else (),
        repacks=repacks,
    )
    parts = weight_parts(facts, setting)
    loaded_groups = [group for group in facts.weights if group.kind is not WeightKind.DRAFT]
    embedding = sum(group.padded_bytes for group in loaded_groups if group.kind is WeightKind.INPUT_EMBEDDING)
    is_twice = is_tied and on_gpu != 0
    total = sum(group.padded_bytes for group in loaded_groups) + (embedding if is_twice else 0)
    assert sum(part.bytes for part in parts if not part.reclaimable) == total
    places = layer_places(facts, setting)
    on_card = sum(
        group.padded_bytes
        for group in loaded_groups
        if group.layer is not None
        and places[group.layer] == 0
        and not (group.kind is WeightKind.EXPERTS and group.layer < experts)
    )
    outside = sum(g.padded_bytes for g in loaded_groups if g.kind is WeightKind.OUTPUT) + (embedding if is_tied else 0)
    on_card += outside if places[-1] == 0 else 0
    assert sum(part.bytes for part in parts if part.place == 0) == on_card
    copied_bytes = total - on_card - (0 if is_tied and places[-1] == HOST else embedding)
    copies = [part.bytes for part in parts if part.reclaimable]
    assert copies == ([copied_bytes] if has_avx2 and repacks and copied_bytes else [])


@pytest.mark.parametrize("isa", ["asimddp", "dotprod", "i8mm"])
def test_an_arm_processor_with_dot_products_reads_more_types_best(isa: str) -> None:
    assert types_to_repack((isa,)) > types_to_repack(("avx2", isa)) > types_to_repack(("neon",)) == frozenset()


def test_sums_by_layer_are_those_of_its_own_weights() -> None:
    facts = TINY_MIXTURE.facts("Q8_0")
    outside = group_of(WeightKind.OUTPUT, 9, "F16", 64)
    sums = weight_sums(msgspec.structs.replace(facts, weights=[*facts.weights, outside]))
    for index, layer in enumerate(sums.layers):
        mine = [group for group in facts.weights if group.layer == index]
        assert sum(layer.experts.values()) == sum(g.padded_bytes for g in mine if g.kind is WeightKind.EXPERTS)
        assert sum(layer.others.values()) == sum(g.padded_bytes for g in mine if g.kind is not WeightKind.EXPERTS)
        assert layer.elements == {group.kind: group.elements for group in mine}
    assert sums.outputs["F16"] == outside.padded_bytes, "what no layer has comes after them"


# ----- what widths and ranks follow from


def test_experts_go_to_the_processor_up_to_the_last_layer_that_has_some() -> None:
    tight = machine_from(b'{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 3050", "vram_gb": 2.5}]}')
    facts = replace(TINY_MIXTURE, feed_forward=16_384).facts("Q8_0")
    kept_groups = [group for group in facts.weights if group.kind is not WeightKind.EXPERTS or group.layer == 0]
    estimate = estimate_memory(msgspec.structs.replace(facts, weights=kept_groups), tight, setting_for(backend="cuda"))
    assert (estimate.offload.cpu_moe_layers, estimate.offload.gpu_layers) == (1, 4)


def test_a_latent_models_query_rank_is_what_its_attention_weighs_beside_the_rest() -> None:
    hidden_size, heads, latent, rotated_dim, rank = 2048, 16, 512, 64, 384
    own = 2 * rotated_dim
    rank_elements = rank * (hidden_size + heads * (own + rotated_dim))
    attention = hidden_size * (latent + rotated_dim) + heads * own * (2 * latent + hidden_size) + rank_elements
    layer = Layer(
        attention=AttentionKind.LATENT, heads=heads, kv_heads=1, latent_dim=latent + rotated_dim, value_dim=latent
    )
    facts = msgspec.structs.replace(facts_of(layer), hidden=hidden_size)
    for elements, known_rank in ((attention, rank), (attention - rank_elements, 0)):
        context = blocks._Context(facts, setting_for(), 1, layer, {WeightKind.ATTENTION: elements})
        assert blocks._query_rank(context) == known_rank
        widths = blocks._block_widths(context)
        assert (widths["E"], widths["E3"], widths["E4"]) == (hidden_size, 3 * hidden_size, 4 * hidden_size)


@pytest.mark.parametrize(("architecture", "rows", "inputs"), [("gemma3n", 4, 4), ("gemma3n", 3, 0), ("llama", 9, 0)])
def test_layers_have_inputs_of_their_own_where_the_table_has_a_row_for_each(
    architecture: str, rows: int, inputs: int
) -> None:
    facts = TINY.facts("Q8_0")
    table = group_of(WeightKind.LOOKUP_TABLE, None, "F16", rows * facts.vocabulary)
    own = msgspec.structs.replace(facts, architecture=architecture, weights=[*facts.weights, table])
    assert blocks.layer_inputs(own) == inputs


def test_what_the_host_holds_for_cards_grows_with_the_hidden_state_of_every_token() -> None:
    small, wide = (msgspec.structs.replace(TINY.facts("Q8_0"), hidden=hidden_size) for hidden_size in (1024, 2048))
    setting = setting_for(backend="cuda", context=4096)
    grown_bytes = buffers._host_inputs(wide, setting) - buffers._host_inputs(small, setting)
    assert grown_bytes >= 1024 * tokens_at_once(setting) * 4


def test_values_are_padded_to_the_widest_only_without_flash_attention() -> None:
    layer = Layer(heads=8, kv_heads=2, key_dim=64, value_dim=0)
    facts = facts_of(layer)
    flash, plain = (setting_for(context=256, flash_attention=flash_attention) for flash_attention in (True, False))
    sizes = [sum(part.bytes for part in buffers._cache_parts(facts, setting)) for setting in (flash, plain)]
    assert sizes[0] == 256 * 2 * 64 * 2
    assert sizes[1] >= sizes[0]


# ----- llama.cpp's parts


def test_all_that_a_launch_takes_is_what_is_fixed_and_what_grows_with_the_context() -> None:
    facts = TINY.facts("Q8_0")
    projector = TINY_MIXTURE.facts("F16")
    for gpu_layers, place in ((0, HOST), (None, 0)):
        setting = setting_for(backend="cuda", projector=projector, gpu_layers=gpu_layers, context=2048)
        parts = llama_parts(facts, setting)
        [images] = [part for part in parts if part.component is MemoryComponent.PROJECTOR]
        assert (images.place, images.bytes) == (place, sum(group.padded_bytes for group in projector.weights))
        longer = llama_parts(facts, msgspec.structs.replace(setting, context=4096))
        assert by_component(fixed_parts(facts, setting)).items() <= by_component(longer).items()
        assert by_component(longer)["kv"] == 2 * by_component(parts)["kv"]


@pytest.mark.parametrize(("slots", "batch", "rows"), [(1, 512, 1), (3, 512, 3)])
def test_the_output_has_a_row_for_each_slot_or_for_each_token_of_a_batch(slots: int, batch: int, rows: int) -> None:
    facts = TINY.facts("Q8_0")
    setting = setting_for(slots=slots, batch=batch)
    assert output_part(facts, setting).bytes == rows * 32_000 * 4
    assert output_part(facts, msgspec.structs.replace(setting, task="embed")).bytes == rows * (32_000 + 1024) * 4
    unlimited_setting = msgspec.structs.replace(setting, limits_outputs=False)
    assert output_part(facts, unlimited_setting).bytes == batch * 32_000 * 4
    assert output_part(facts, setting).place == HOST


def test_a_graph_has_logits_for_each_slot_of_a_chat_and_for_each_token_of_what_is_no_chat() -> None:
    facts = TINY.facts("Q8_0")
    chat = setting_for(batch=512, context=1024)
    embedding = msgspec.structs.replace(chat, task="embed")
    every = msgspec.structs.replace(chat, limits_outputs=False)
    assert graph_bytes(facts, embedding) == graph_bytes(facts, every) >= 32_000 * 512 * 4 > graph_bytes(facts, chat)
    more = msgspec.structs.replace(chat, slots=4, context=256)
    assert graph_bytes(facts, more) < 32_000 * 512 * 4


@given(context=st.integers(1, 2000), slots=st.integers(1, 7), batch=st.integers(1, 1000))
def test_a_step_has_as_many_tokens_for_each_cache(context: int, slots: int, batch: int) -> None:
    setting = setting_for(context=context, slots=slots, batch=batch)
    tokens = tokens_at_once(setting)
    assert tokens % slots == 0
    assert tokens - slots < min(batch, context * slots) <= tokens
    assert tokens_at_once(msgspec.structs.replace(setting, is_kv_unified=True)) == min(batch, context * slots)


@pytest.mark.parametrize("changes", [{"build": 9_999}, {"limits_outputs": False}])
def test_older_builds_have_the_logits_and_hidden_state_of_a_whole_batch(changes: dict[str, object]) -> None:
    facts, setting = TINY.facts("Q8_0"), setting_for(backend="cuda", batch=256)
    sizes = {part.place: part.bytes for part in compute_parts(facts, msgspec.structs.replace(setting, **changes))}
    assert sizes[0] == (32_000 + 1024) * 256 * 4
    newer = {part.place: part.bytes for part in compute_parts(facts, msgspec.structs.replace(setting, build=10_000))}
    assert newer[0] == graph_bytes(facts, setting, has_embedding=False) != sizes[0]
    assert newer.keys() == sizes.keys() == {HOST, 0}


def test_a_head_of_the_models_own_takes_its_weights_its_cache_and_a_second_graph() -> None:
    facts = TINY.facts("Q8_0")
    head = msgspec.structs.replace(facts.layers[0], is_draft=True)
    weights = [group_of(WeightKind.DRAFT, layer, "Q8_0", 10**6) for layer in (4, None, 99)]
    facts = msgspec.structs.replace(facts, layers=[*facts.layers, head], weights=[*facts.weights, *weights])
    setting = setting_for(backend="cuda", context=1024)
    without, with_head = (
        sum_components(facts, msgspec.structs.replace(setting, has_own_draft=drafts)) for drafts in (False, True)
    )
    compute = sum(part.bytes for part in compute_parts(facts, setting))
    size = sum(group.padded_bytes for group in weights) + kv.layer_kv(head, setting) + compute
    assert with_head.draft is not None
    assert with_head.draft.bytes == size
    assert without.draft is None
    assert with_head.total.bytes - without.total.bytes == size
    assert (with_head.weights, with_head.kv) == (without.weights, without.kv)
