"""What engines take beside the model, what servers reserve, and the notes: each as its rule says, by hand."""

import msgspec
import pytest

from app.advisor.memory import kv, reserved, runtime
from app.advisor.memory.estimate import estimate_memory, memory_by_pool, memory_sentence, sum_components
from app.advisor.memory.libraries import cache_tokens, library_parts
from app.advisor.memory.placement import MARGIN, adapt_setting, gpus_for, parts_fit, pool_rooms
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting, assemble_parts
from app.advisor.memory.weight_sums import weight_sums
from app.core.advice import EstimateConfidence, PoolUse
from app.core.identity import IdentityKey
from app.core.model_facts import AttentionKind, ModelFacts, WeightKind
from app.hardware.description import machine_from
from engines.api.traits import GrowingMemory, ReservedMemory
from tests.unit.advisor.engines import setting_for
from tests.unit.advisor.made_models import Made, group_of

MIB, GIB, GB = 1024**2, 1024**3, 10**9
SMALL = Made(layers=4, hidden_size=1024, heads=8, kv_heads=2, feed_forward=4096, vocabulary=32_000)
MIXTURE = Made(
    layers=4, hidden_size=1024, heads=8, kv_heads=2, feed_forward=2048, experts=16, experts_used=2, vocabulary=32_000
)


def sizes_of(parts: list[MemoryPart], component: MemoryComponent) -> dict[int, int]:
    """Return the bytes of a component by place."""
    return {part.place: part.bytes for part in parts if part.component is component}


@pytest.mark.parametrize(
    ("card_gb", "size_mib"),
    [(4, 154), (8, 154), (16, (154 + 453) / 2), (24, 453), (80, 453), (12, 154 + (453 - 154) / 4)],
)
def test_cudas_context_grows_with_the_card_between_the_two_that_were_reported(card_gb: int, size_mib: float) -> None:
    assert runtime.cuda_context(card_gb * GB) == pytest.approx(size_mib * MIB, abs=1)


def test_an_unknown_card_is_taken_for_the_larger() -> None:
    assert runtime.cuda_context(None) == 453 * MIB


def test_the_largest_matrix_is_one_inside_the_layers_and_experts_count_singly() -> None:
    assert runtime.largest_matrix(SMALL.facts("Q8_0")) == 1024 * 4096, "three matrices, and the vocabulary is none"
    attention = 1024 * 128 * (2 * 8 + 2 * 2) // 3
    assert runtime.largest_matrix(MIXTURE.facts("Q8_0")) == max(1024 * 2048, attention)
    assert runtime.largest_matrix(msgspec.structs.replace(SMALL.facts("Q8_0"), weights=[])) == 0


@pytest.mark.parametrize(
    ("backend", "idle_mib", "prefill_mib"),
    [("rocm", 100, 190 + 2 * 1024 * 4096 / MIB), ("vulkan", 100, 80), ("metal", 50, 0), ("sycl", 300, 0)],
)
def test_a_backend_takes_more_of_a_card_for_prompts(backend: str, idle_mib: float, prefill_mib: float) -> None:
    facts = SMALL.facts("Q8_0")
    for prefills, size_mib in ((False, idle_mib), (True, idle_mib + prefill_mib)):
        setting = setting_for(backend=backend, prefills=prefills)
        assert runtime.gpu_runtime(facts, setting, place=0) == size_mib * MIB


def test_every_card_has_a_context_of_its_own_size_and_the_process_is_counted_once() -> None:
    facts = SMALL.facts("Q8_0")
    setting = setting_for(backend="cuda", gpus=3, gpu_memory=(8 * GB, 24 * GB))
    assert sizes_of(list(runtime.runtime_parts(facts, setting)), MemoryComponent.RUNTIME) == {
        HOST: 34 * MIB + 430 * 32_000,
        0: 154 * MIB,
        1: 453 * MIB,
        2: 453 * MIB,
    }
    on_processor = list(runtime.runtime_parts(facts, setting_for(backend="cpu")))
    assert [part.place for part in on_processor] == [HOST]


def test_the_vocabulary_of_a_hundred_and_fifty_thousand_takes_what_was_measured() -> None:
    large, none = (msgspec.structs.replace(SMALL.facts("Q8_0"), vocabulary=size) for size in (150_000, 0))
    (with_it,), (without,) = (list(runtime.runtime_parts(facts, setting_for())) for facts in (large, none))
    assert (with_it.bytes - without.bytes) / MIB == pytest.approx(61.5, abs=0.1)


@pytest.mark.parametrize(("shift_mib", "size_mib"), [(None, 34), (10, 44), (-10, 24), (-100, 0)])
def test_what_earlier_loads_showed_shifts_the_process_and_makes_it_measured(
    shift_mib: int | None, size_mib: int
) -> None:
    facts = msgspec.structs.replace(SMALL.facts("Q8_0"), vocabulary=0)
    shift = None if shift_mib is None else shift_mib * MIB
    (part,) = runtime.runtime_parts(facts, setting_for(runtime_shift=shift))
    assert part.bytes == size_mib * MIB
    is_measured = part.confidence is EstimateConfidence.MEASURED
    assert is_measured == (shift_mib is not None) == ("earlier loads" in part.arithmetic)


# ----- engines that reserve a share


def make_reserving(**fields: object) -> RunSetting:
    """Return vLLM on cards of 24 GiB, with round figures for what it takes beside the cache."""
    memory = ReservedMemory(
        fraction=0.5, tokens=100, sequences=10, graphs=1000, process=GIB, holds_activations=True, is_of_rest=False
    )
    setting = setting_for(engine="vllm", backend="cuda", **{"gpu_memory": (24 * GIB,), **fields})
    return msgspec.structs.replace(setting, engine=msgspec.structs.replace(setting.engine, memory=memory))


def with_rule(setting: RunSetting, **fields: object) -> RunSetting:
    """Return the setting with another way to reserve."""
    memory = msgspec.structs.replace(setting.engine.memory, **fields)
    return msgspec.structs.replace(setting, engine=msgspec.structs.replace(setting.engine, memory=memory))


ACTIVATIONS = (3 * 4096 + 5 * 1024) * 100 * 2 + 32_000 * 10 * 4 + 1000
ROW = 4 * 2 * (128 + 128) * 2
"""Bytes of a token of `SMALL`: layers, heads, keys and values, F16."""


def test_activations_are_the_widest_step_the_logits_and_the_graphs() -> None:
    assert reserved.activation_bytes(SMALL.facts("FP8"), make_reserving()) == ACTIVATIONS
    assert reserved.activation_bytes(MIXTURE.facts("FP8"), make_reserving()) == (
        (3 * 2 * 2048 + 5 * 1024) * 100 * 2 + 32_000 * 10 * 4 + 1000
    ), "of the experts as many as a token uses"
    halved_bytes = (3 * 4096 // 2 + 5 * 1024) * 100 * 2 + 32_000 * 10 * 4 + 1000
    assert reserved.activation_bytes(SMALL.facts("FP8"), make_reserving(gpus=2)) == halved_bytes


def test_the_cache_is_what_is_left_of_the_share_by_each_engines_rule() -> None:
    facts, setting = SMALL.facts("FP8"), make_reserving()
    weights, context = reserved.weight_share(facts, setting), runtime.cuda_context(24 * GIB)
    share = 12 * GIB
    within = share - weights - ACTIVATIONS - context
    assert reserved.cache_capacity(facts, setting).bytes == within
    beside = with_rule(setting, holds_activations=False)
    assert reserved.cache_capacity(facts, beside).bytes == share - weights
    nearly_all = msgspec.structs.replace(beside, memory_fraction=0.999)
    assert reserved.cache_capacity(facts, nearly_all).bytes == 24 * GIB - weights - ACTIVATIONS - context
    of_rest = with_rule(setting, is_of_rest=True)
    assert reserved.cache_capacity(facts, of_rest).bytes == (24 * GIB - weights - ACTIVATIONS - context) // 2


def test_capacity_is_told_in_tokens_and_conversations() -> None:
    facts, setting = SMALL.facts("FP8"), make_reserving(context=1000, slots=3)
    capacity = reserved.cache_capacity(facts, setting)
    assert capacity.tokens == capacity.bytes // ROW
    assert capacity.conversations == pytest.approx(capacity.bytes / (1008 * ROW)), "of one, in whole blocks"
    nothing = reserved.cache_capacity(facts, msgspec.structs.replace(setting, memory_fraction=0.01))
    assert (nothing.bytes, nothing.tokens, nothing.conversations) == (0, 0, 0.0)
    without = msgspec.structs.replace(facts, layers=[])
    assert reserved.cache_capacity(without, setting).tokens == 0
    assert reserved.cache_capacity(without, setting).conversations == 0.0


def test_of_cards_of_several_sizes_the_least_decides() -> None:
    facts = SMALL.facts("FP8")
    least = reserved.cache_capacity(facts, make_reserving(gpus=2, gpu_memory=(12 * GIB, 12 * GIB)))
    assert reserved.cache_capacity(facts, make_reserving(gpus=2, gpu_memory=(24 * GIB, 12 * GIB))) == least
    unknown = reserved.cache_capacity(facts, make_reserving(gpu_memory=()))
    assert unknown == reserved.cache_capacity(facts, make_reserving(gpu_memory=(24 * GIB,)))


def test_a_window_keeps_its_tokens_and_a_step_and_heads_are_shared_out_until_each_card_has_one() -> None:
    facts = SMALL.facts("FP8")
    windowed_facts = msgspec.structs.replace(
        facts,
        layers=[msgspec.structs.replace(layer, window=64, attention=AttentionKind.SLIDING) for layer in facts.layers],
    )
    assert reserved.cache_demand(windowed_facts, make_reserving(context=4096)) == (64 + 100) * ROW
    assert reserved.cache_demand(windowed_facts, make_reserving(context=64)) == 64 * ROW
    for gpus, share in ((1, 1), (2, 2), (4, 2)):
        assert reserved.cache_demand(facts, make_reserving(gpus=gpus, context=16)) == 16 * ROW // share
    latent = msgspec.structs.replace(
        facts,
        layers=[
            msgspec.structs.replace(layer, attention=AttentionKind.LATENT, latent_dim=512) for layer in facts.layers
        ],
    )
    assert reserved.cache_demand(latent, make_reserving(gpus=4, context=16)) == 16 * 4 * 512 * 2, (
        "each card has it whole"
    )


def test_an_eight_bit_cache_takes_half() -> None:
    facts = SMALL.facts("FP8")
    assert reserved.cache_demand(facts, make_reserving(kv_type="fp8")) * 2 == reserved.cache_demand(
        facts, make_reserving()
    )


def test_what_is_reserved_is_the_share_of_each_card() -> None:
    facts, setting = SMALL.facts("FP8"), make_reserving(gpus=2, gpu_memory=(24 * GIB, 16 * GIB))
    total = assemble_parts(reserved.reserve_parts(facts, setting))
    for place, memory in ((0, 24 * GIB), (1, 16 * GIB)):
        assert sum(part.bytes for part in total.parts if part.place == place) == memory // 2
    assert sum(part.bytes for part in total.parts if part.place == HOST) == GIB
    assert sizes_of(total.parts, MemoryComponent.WEIGHTS) == dict.fromkeys(
        (0, 1), -(-sum(group.bytes for group in facts.weights) // 2)
    )
    assert total.weights.confidence is EstimateConfidence.EXACT
    assert total.kv.confidence is EstimateConfidence.PREDICTED


# ----- libraries


def make_growing(**fields: object) -> tuple[RunSetting, GrowingMemory]:
    setting = setting_for(engine="exllamav3", backend="cuda", **fields)
    assert isinstance(setting.engine.memory, GrowingMemory)
    return setting, setting.engine.memory


@pytest.mark.parametrize(
    ("context", "step", "spare", "tokens"), [(1000, 256, 0, 1024), (1024, 256, 5, 1029), (1, 1, 0, 1)]
)
def test_a_library_keeps_whole_steps_of_each_conversation(context: int, step: int, spare: int, tokens: int) -> None:
    setting, library = make_growing(context=context, slots=3)
    library = msgspec.structs.replace(library, cache_step=step, cache_spare=spare)
    assert cache_tokens(setting, library) == 3 * tokens


def test_a_tied_embedding_that_stays_in_system_memory_is_needed_on_the_card_as_well() -> None:
    facts = SMALL.facts("4.0bpw", "exl3")
    setting, library = make_growing()
    assert library.embedding_on_host
    embedding = sum(group.bytes for group in facts.weights if group.kind is WeightKind.INPUT_EMBEDDING)
    whole = sum(group.bytes for group in facts.weights)
    for is_tied, on_card in ((False, whole - embedding), (True, whole)):
        parts = library_parts(msgspec.structs.replace(facts, tied_embeddings=is_tied), setting)
        assert sizes_of(parts, MemoryComponent.WEIGHTS) == {HOST: embedding, 0: on_card}


def test_a_library_shares_out_weights_over_the_cards_and_leaves_the_drafting_head() -> None:
    facts = SMALL.facts("4.0bpw", "exl3")
    head = group_of(WeightKind.DRAFT, 4, "4.0bpw", 10**6)
    setting, _ = make_growing(gpus=2)
    parts, with_head = (
        library_parts(each, setting) for each in (facts, msgspec.structs.replace(facts, weights=[*facts.weights, head]))
    )
    assert sizes_of(parts, MemoryComponent.WEIGHTS) == sizes_of(with_head, MemoryComponent.WEIGHTS)
    sizes = sizes_of(parts, MemoryComponent.WEIGHTS)
    assert sizes[0] == sizes[1]
    assert sizes_of(parts, MemoryComponent.RUNTIME)[0] > runtime.cuda_context(None)


# ----- places, pools, notes


def test_the_cards_of_a_backend_are_its_makers_with_their_own_memory_first_and_the_largest_first() -> None:
    machine = machine_from(
        b'{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 3060"}, {"name": "RTX 4090"}, {"name": "RX 7900 XTX"}]}'
    )
    assert [gpu.name for gpu in gpus_for(machine, "cuda")] == [
        gpu.name
        for gpu in sorted(machine.gpus, key=lambda gpu: -(gpu.memory_total.value or 0))
        if gpu.vendor == "nvidia"
    ]
    assert len(gpus_for(machine, "cuda")) == 2
    assert [gpu.vendor for gpu in gpus_for(machine, "rocm")] == ["amd"]
    assert len(gpus_for(machine, "vulkan")) == 3
    assert gpus_for(machine, "cpu") == gpus_for(machine, "npu") == []
    assert adapt_setting(setting_for(backend="cuda", gpus=5), machine).gpus == 2
    assert adapt_setting(setting_for(backend="cuda", gpus=1), machine).gpus == 1


CARD = machine_from(b'{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}')


def test_a_pool_is_full_a_margin_before_its_end() -> None:
    setting = adapt_setting(setting_for(backend="cuda"), CARD)
    host, card = pool_rooms(CARD, setting)
    assert card.free is not None
    part = MemoryPart(place=0, component=MemoryComponent.WEIGHTS, bytes=card.free - MARGIN)
    assert parts_fit([part], [host, card])
    assert not parts_fit([msgspec.structs.replace(part, bytes=part.bytes + 1)], [host, card])
    assert parts_fit([msgspec.structs.replace(part, bytes=card.free)], [card], margin=0)


def test_the_memory_by_pool_is_that_of_the_estimate_without_what_may_be_dropped() -> None:
    facts, setting = SMALL.facts("Q8_0"), setting_for(backend="cuda", context=2048)
    estimate = estimate_memory(facts, CARD, setting)
    assert memory_by_pool(facts, CARD, setting) == {pool.id: pool.bytes - pool.reclaimable for pool in estimate.pools}


def checkpoint_note(context: int, slots: int = 1) -> str:
    facts = SMALL.facts("Q8_0")
    state = [msgspec.structs.replace(layer, state_elements=MIB) for layer in facts.layers]
    setting = setting_for(backend="cuda", context=context, slots=slots)
    notes = estimate_memory(msgspec.structs.replace(facts, layers=state), CARD, setting).notes
    return next((note for note in notes if "checkpoint" in note), "")


@pytest.mark.parametrize(("context", "total"), [(8192, "16.0 MiB"), (20_000, "32.0 MiB"), (8192 * 40, "512 MiB")])
def test_a_checkpoint_is_kept_every_eight_thousand_tokens_and_at_most_thirty_two(context: int, total: str) -> None:
    for slots in (1, 3):
        note = checkpoint_note(context, slots)
        assert "a checkpoint of 16.0 MiB" in note
        assert f"up to {total} per conversation" in note


def test_a_short_conversation_has_no_checkpoint() -> None:
    assert checkpoint_note(8191) == ""


def test_a_quantised_cache_without_flash_attention_is_said() -> None:
    facts = SMALL.facts("Q8_0")
    needs = "A quantised KV cache needs flash attention."
    for kv_type, has_flash, is_said in (("q8_0", False, True), ("q8_0", True, False), ("f16", False, False)):
        setting = setting_for(backend="cuda", kv_type=kv_type, flash_attention=has_flash)
        assert (needs in estimate_memory(facts, CARD, setting).notes) == is_said


def test_the_fullest_pool_is_said_first_with_small_terms_together() -> None:
    parts = {"weights": 4 * GIB, "kv": GIB // 2, "compute": GIB // 30, "output": GIB // 30}
    card = PoolUse(name="Card", bytes=sum(parts.values()), free=8 * GIB, parts=parts)
    system = PoolUse(name="Memory", bytes=GIB, free=None, parts={"runtime": GIB - MIB, "kv": MIB})
    assert memory_sentence([system, card]) == (
        "4.0 weights + 0.5 KV + 0.1 other = 4.6 of 8.0 GiB free in Card; "
        "1.0 runtime + a little more = 1.0 GiB, out of an unknown amount, in Memory"
    )


def test_sums_are_kept_for_a_model_and_never_taken_for_anothers() -> None:
    first, second = SMALL.facts("Q8_0"), SMALL.facts("Q8_0")
    assert weight_sums(first) is weight_sums(first)
    assert IdentityKey(first) == IdentityKey(first)
    assert (IdentityKey(first) == IdentityKey(second)) is False
    assert weight_sums(first) is not weight_sums(second)


def test_sums_are_of_what_is_loaded() -> None:
    facts = SMALL.facts("Q8_0")
    extra = [group_of(kind, None, "Q8_0", 10**6) for kind in (WeightKind.DRAFT, WeightKind.PROJECTOR)]
    sums = weight_sums(msgspec.structs.replace(facts, weights=[*facts.weights, *extra]))
    loaded_sums = weight_sums(facts)
    assert (sums.tensors, sums.inputs, sums.outputs) == (loaded_sums.tensors, loaded_sums.inputs, loaded_sums.outputs)
    assert loaded_sums.tensors == 3 * len(facts.weights)
    assert loaded_sums.has_logits
    assert loaded_sums.alike == [0, 0, 0, 0]


def an_encoder() -> ModelFacts:
    facts = SMALL.facts("Q8_0")
    return msgspec.structs.replace(facts, weights=[g for g in facts.weights if g.kind is not WeightKind.OUTPUT])


def test_logits_come_of_an_output_or_of_a_tied_embedding() -> None:
    assert not weight_sums(an_encoder()).has_logits
    assert weight_sums(msgspec.structs.replace(an_encoder(), tied_embeddings=True)).has_logits


def test_lookup_tables_stay_mapped_in_system_memory_and_may_be_dropped() -> None:
    facts = SMALL.facts("Q8_0")
    table = group_of(WeightKind.LOOKUP_TABLE, None, "Q8_0", 10**6)
    with_table = msgspec.structs.replace(facts, weights=[*facts.weights, table])
    plain, table_sum = (sum_components(each, setting_for(backend="cuda")) for each in (facts, with_table))
    [extra] = [part for part in table_sum.parts if part not in plain.parts and part.reclaimable]
    assert (extra.place, extra.bytes, extra.reclaimable) == (HOST, table.padded_bytes, table.padded_bytes)
    assert not [part for part in plain.parts if part.reclaimable]


@pytest.mark.parametrize(("slots", "copies", "times"), [(1, 0, ""), (2, 0, " x 2"), (2, 3, " x 8")])
def test_the_arithmetic_of_a_state_names_every_copy(slots: int, copies: int, times: str) -> None:
    facts = SMALL.facts("Q8_0")
    layers = [msgspec.structs.replace(layer, state_elements=10, conv_elements=3) for layer in facts.layers]
    setting = setting_for(slots=slots, rollback_copies=copies)
    stateful = msgspec.structs.replace(facts, layers=layers)
    assert kv.state_arithmetic(stateful, setting) == f"4 layers x (3 + 10) x 4 B{times}"
    assert sum(kv.layer_state(layer, setting) for layer in layers) == 4 * 13 * 4 * slots * (1 + copies)


@pytest.mark.parametrize(("slots", "is_unified", "times"), [(1, False, ""), (3, False, " x 3 slots"), (3, True, "")])
def test_the_arithmetic_of_a_cache_names_its_cells(slots: int, times: str, *, is_unified: bool) -> None:
    setting = setting_for(slots=slots, is_kv_unified=is_unified, context=1000)
    cells = 3072 if is_unified else 1024
    assert kv.kv_arithmetic(SMALL.facts("Q8_0"), setting) == f"4 layers x {cells} x 2 x (128 + 128) f16{times}"
