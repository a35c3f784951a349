"""Estimates on machines: which pool holds what, whether it fits, how much context does, and what is moved aside."""

import msgspec
import pytest

from app.advisor.memory import reserved as reserved_memory
from app.advisor.memory.estimate import (
    SpeedModel,
    estimate_memory,
    largest_fit,
    memory_sentence,
    setting_fits,
    smallest_fit,
    sum_components,
)
from app.advisor.memory.llama_cpp.weights import layer_places, types_to_repack
from app.advisor.memory.placement import adapt_setting, parts_fit, pool_rooms
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryComponents, MemoryPart, RunSetting, by_component
from app.core.advice import Estimate, EstimateConfidence, PoolUse, Rate
from app.core.machine import Gpu, Machine
from app.core.model_facts import ModelFacts, WeightGroup, WeightKind
from app.hardware.description import machine_from
from app.hub.shapes import shape_facts
from engines.api.traits import ReservedMemory
from tests.unit.advisor.engines import ENGINES, setting_for
from tests.unit.advisor.made_models import Made

GIB = 1024**3
MIB = 1024**2


def machine(text: str) -> Machine:
    return machine_from(text.encode())


WORKSTATION = machine('{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}')
SMALL_CARD = machine('{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 4060"}]}')
MAC = machine('{"os": "macOS", "cpu": "Apple M4 Max", "ram_gb": 64, "unified": true}')
SERVER = machine('{"os": "Linux", "ram_gb": 64}')
TWO_CARDS = machine('{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 3090", "count": 2}]}')


@pytest.fixture(scope="module")
def llama() -> ModelFacts:
    return shape_facts("Llama 3.1 8B", "Q4_K_M")


@pytest.fixture(scope="module")
def mixture() -> ModelFacts:
    return shape_facts("Qwen3 30B A3B", "Q4_K_M")


def on_gpu(estimate: Estimate) -> int:
    return sum(pool.bytes for pool in estimate.pools if pool.id != "system")


def weights_at(place: int, memory: MemoryComponents) -> int:
    return sum(part.bytes for part in memory.parts if (part.place, part.component) == (place, MemoryComponent.WEIGHTS))


def test_the_embedding_stays_in_system_memory_where_the_output_is_separate(llama: ModelFacts) -> None:
    memory = sum_components(llama, setting_for(backend="cuda"))
    embedding = sum(g.padded_bytes for g in llama.weights if g.kind is WeightKind.INPUT_EMBEDDING)
    assert weights_at(HOST, memory) == embedding
    assert memory.weights.bytes == sum(group.padded_bytes for group in llama.weights)
    assert memory.weights.confidence is EstimateConfidence.EXACT


def test_a_tied_embedding_is_held_twice() -> None:
    tied_facts = shape_facts("Llama 3.2 1B", "Q4_K_M")
    assert tied_facts.tied_embeddings
    once, twice = sum_components(tied_facts, setting_for()), sum_components(tied_facts, setting_for(backend="cuda"))
    embedding = sum(g.padded_bytes for g in tied_facts.weights if g.kind is WeightKind.INPUT_EMBEDDING)
    assert twice.weights.bytes - once.weights.bytes == embedding


def test_unified_memory_is_one_pool_and_keeps_its_bound(llama: ModelFacts) -> None:
    memory = estimate_memory(llama, MAC, setting_for(backend="metal", context=8192))
    assert len(memory.pools) == 1
    assert memory.pools[0].bytes == memory.total.bytes
    assert memory.fits
    tight = msgspec.structs.replace(MAC, gpus=[_bound_memory(MAC, 2 * GIB)])
    assert estimate_memory(llama, tight, setting_for(backend="metal", gpu_layers=99)).fits is False


def _bound_memory(box: Machine, size: int) -> Gpu:
    gpu = box.gpus[0]
    return msgspec.structs.replace(gpu, addressable={"metal": msgspec.structs.replace(gpu.memory_total, value=size)})


def test_what_does_not_fit_is_moved_aside_as_little_as_needed(llama: ModelFacts) -> None:
    memory = estimate_memory(
        shape_facts("Llama 3.1 70B", "Q4_K_M"), WORKSTATION, setting_for(backend="cuda", context=4096)
    )
    assert memory.fits
    assert 0 < memory.offload.gpu_layers < memory.offload.layers == 80
    assert on_gpu(memory) + GIB <= 24 * GIB
    whole = estimate_memory(llama, WORKSTATION, setting_for(backend="cuda"))
    assert (whole.offload.gpu_layers, whole.offload.layers) == (32, 32)


def test_experts_go_before_layers(mixture: ModelFacts) -> None:
    memory = estimate_memory(mixture, SMALL_CARD, setting_for(backend="cuda", context=8192))
    assert memory.fits
    assert 0 < memory.offload.cpu_moe_layers < 48
    assert memory.offload.gpu_layers == memory.offload.layers
    fewer = setting_for(backend="cuda", context=8192, cpu_moe_layers=memory.offload.cpu_moe_layers - 1)
    assert not estimate_memory(mixture, SMALL_CARD, fewer).fits


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("quantization", ["Q2_K", "Q3_K_M", "Q4_K_M"])
@pytest.mark.parametrize("ram_gb", [12, 14, 16, 18, 20, 24])
def test_a_split_is_found_where_both_memories_are_nearly_full(ram_gb: int, quantization: str, kv_type: str) -> None:
    tight = machine(f'{{"os": "Windows", "ram_gb": {ram_gb}, "gpus": [{{"name": "RTX 2060"}}]}}')
    facts = shape_facts("Qwen3 30B A3B", quantization)
    setting = setting_for(backend="cuda", context=8192, kv_type=kv_type)
    possible = [
        {"gpu_layers": layers, "cpu_moe_layers": experts}
        for layers, experts in [(layers, 0) for layers in range(49)] + [(99, experts) for experts in range(49)]
    ]
    trials = (setting_fits(facts, tight, msgspec.structs.replace(setting, **changes)) for changes in possible)
    assert estimate_memory(facts, tight, setting).fits == any(trials)


def test_what_is_asked_for_is_not_changed(llama: ModelFacts) -> None:
    memory = estimate_memory(llama, SMALL_CARD, setting_for(backend="cuda", gpu_layers=5))
    assert memory.offload.gpu_layers == 5


def test_the_largest_context_fits_and_one_step_more_does_not() -> None:
    facts = shape_facts("Qwen3 32B", "Q4_K_M")
    setting = setting_for(backend="cuda", context=4096)
    most = estimate_memory(facts, WORKSTATION, setting).largest_context
    assert 4096 < most < (facts.trained_context or 0)
    whole = msgspec.structs.replace(setting, gpu_layers=99)
    assert estimate_memory(facts, WORKSTATION, msgspec.structs.replace(whole, context=most)).fits
    assert not estimate_memory(facts, WORKSTATION, msgspec.structs.replace(whole, context=most + 256)).fits


def test_slots_and_kv_types_share_out_the_context() -> None:
    facts = shape_facts("Qwen3 32B", "Q4_K_M")
    contexts = {
        (slots, kv_type): estimate_memory(
            facts, WORKSTATION, setting_for(backend="cuda", slots=slots, kv_type=kv_type, context=1024)
        ).largest_context
        for slots in (1, 2)
        for kv_type in ("f16", "q8_0")
    }
    assert contexts[1, "f16"] // 2 - 512 <= contexts[2, "f16"] <= contexts[1, "f16"] // 2 + 512
    assert contexts[1, "q8_0"] > 1.8 * contexts[1, "f16"]


def test_a_context_is_never_longer_than_the_model_was_trained_for(llama: ModelFacts) -> None:
    assert estimate_memory(llama, SERVER, setting_for(context=4096)).largest_context == llama.trained_context


def test_a_floor_of_speed_bounds_the_context(llama: ModelFacts) -> None:
    def rates(_: RunSetting, depth: int) -> tuple[Rate, None]:
        speed = 100 - depth / 1000
        return Rate(tokens_per_second=speed, low=0, high=200, confidence=EstimateConfidence.PREDICTED), None

    memory = estimate_memory(
        llama, SERVER, setting_for(context=4096), speed=SpeedModel(rates=rates, floor=80.0, depth=512)
    )
    assert memory.largest_context == 20_000 // 256 * 256
    assert memory.depth == 512
    assert memory.decode is not None
    assert memory.decode.tokens_per_second == pytest.approx(99.488)


def test_a_tiny_model_is_said_in_mebibytes() -> None:
    pool = PoolUse(name="Memory", bytes=48 << 20, free=8 * GIB, parts={"weights": 40 << 20, "kv": 8 << 20})
    assert memory_sentence([pool]) == "48.0 MiB of 8.0 GiB free in Memory"


def test_the_sentence_is_a_sum_that_adds_up(llama: ModelFacts) -> None:
    memory = estimate_memory(llama, WORKSTATION, setting_for(backend="cuda", context=8192))
    card = memory.sentence.split("; ")[0]
    assert "weights" in card
    assert "KV" in card
    assert "of 2" in card
    assert "RTX 4090" in card
    assert sum(pool.bytes for pool in memory.pools) == memory.total.bytes
    assert all(sum(pool.parts.values()) == pool.bytes for pool in memory.pools)


def test_repacked_weights_are_counted_and_said_but_do_not_bar_a_fit(llama: ModelFacts) -> None:
    memory = estimate_memory(llama, SERVER, setting_for(isa=("avx2",)))
    plain = estimate_memory(llama, SERVER, setting_for(isa=("sse4_2",)))
    assert memory.weights.bytes > 1.4 * plain.weights.bytes
    assert any("held twice" in note for note in memory.notes)
    narrow = machine('{"os": "Linux", "ram_gb": 10, "free_ram_gb": 8}')
    assert estimate_memory(llama, narrow, setting_for(isa=("avx2",), context=2048)).total.bytes > 7 * GIB


@pytest.mark.parametrize(
    ("isa", "types"),
    [
        (("avx2", "avx512f"), {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}),
        (("asimddp",), {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4", "Q1_0"}),
        (("sse4_2",), set()),
    ],
)
def test_which_types_are_repacked_depends_on_the_processor(isa: tuple[str, ...], types: set[str]) -> None:
    assert types_to_repack(isa) == types


def test_layers_are_split_in_order_and_the_last_card_has_the_output(llama: ModelFacts) -> None:
    places = layer_places(llama, setting_for(backend="cuda", gpus=2, split=(3.0, 1.0)))
    assert places == sorted(places)
    assert places.count(0) == 25
    assert places[-1] == 1
    partly = layer_places(llama, setting_for(backend="cuda", gpu_layers=10))
    assert partly == [HOST] * 23 + [0] * 10


def test_two_cards_are_two_pools(llama: ModelFacts) -> None:
    memory = estimate_memory(llama, TWO_CARDS, setting_for(backend="cuda", gpus=2))
    assert len(memory.pools) == 3
    assert abs(memory.pools[1].bytes - memory.pools[2].bytes) < GIB


def test_an_unknown_amount_of_memory_is_no_promise(llama: ModelFacts) -> None:
    unknown = msgspec.structs.replace(SERVER, pools=[])
    blank = type(SERVER.memory.total)()
    unknown = msgspec.structs.replace(
        unknown, memory=msgspec.structs.replace(SERVER.memory, total=blank, available=blank, limit=blank)
    )
    memory = estimate_memory(llama, unknown, setting_for())
    assert not memory.fits
    assert any("unknown" in note for note in memory.notes)


def test_a_hybrids_checkpoints_are_said() -> None:
    memory = estimate_memory(
        shape_facts("Qwen3.5 27B", "Q4_K_M"), WORKSTATION, setting_for(backend="cuda", context=32768)
    )
    assert any("checkpoint of 150 MiB" in note for note in memory.notes)


def test_a_reserving_engine_turns_memory_into_tokens() -> None:
    facts = shape_facts("Qwen3 8B", "FP8", format="safetensors")
    setting = setting_for(engine="vllm", backend="cuda", context=16384)
    memory = estimate_memory(facts, WORKSTATION, setting)
    assert memory.fits
    card = memory.pools[-1]
    assert card.bytes == pytest.approx(0.92 * 24 * GIB, rel=0.03)
    capacity = reserved_memory.cache_capacity(facts, msgspec.structs.replace(setting, gpu_memory=(24 * GIB,)))
    assert capacity.tokens == capacity.bytes // (36 * 8 * (128 + 128) * 2)
    assert memory.largest_context <= capacity.tokens
    assert any("conversations of 16,384 tokens" in note for note in memory.notes)


def test_what_a_reserving_engine_takes_for_graphs_lies_beside_its_activations() -> None:
    facts = shape_facts("Qwen3 8B", "FP8", format="safetensors")
    setting = setting_for(engine="vllm", backend="cuda")
    memory = setting.engine.memory
    assert isinstance(memory, ReservedMemory)
    larger = msgspec.structs.replace(memory, graphs=memory.graphs + GIB)
    with_more = msgspec.structs.replace(setting, engine=msgspec.structs.replace(setting.engine, memory=larger))
    more, less = (reserved_memory.activation_bytes(facts, each) for each in (with_more, setting))
    assert more - less == GIB


def test_a_reserving_engine_keeps_whole_blocks_of_each_conversation() -> None:
    facts = shape_facts("Qwen3 8B", "FP8", format="safetensors")
    setting = setting_for(engine="vllm", backend="cuda", context=1000, slots=2)
    assert reserved_memory.cache_demand(facts, setting) == 2 * 1008 * 36 * 8 * (128 + 128) * 2


@pytest.mark.parametrize(("engine", "share"), [("vllm", 0.4), ("dynamo", 0.4)])
def test_on_a_processor_what_is_reserved_is_a_share_of_the_computer_s_memory(engine: str, share: float) -> None:
    memory = estimate_memory(
        shape_facts("Qwen3 8B", "FP8", format="safetensors"), WORKSTATION, setting_for(engine=engine)
    )
    (pool,) = memory.pools
    physical = WORKSTATION.pools[0].physical.value
    assert physical is not None
    assert pool.bytes == pytest.approx(share * physical + 3 * GIB, rel=0.03)
    assert any("40% of the computer's memory" in note for note in memory.notes)


def test_sglang_on_a_processor_takes_what_its_conversations_need() -> None:
    facts = shape_facts("Qwen3 8B", "FP8", format="safetensors")
    setting = setting_for(engine="sglang", context=4096, slots=2)
    total = sum_components(facts, setting)
    assert by_component(total.parts)["kv"] == reserved_memory.cache_demand(facts, setting)
    assert estimate_memory(facts, WORKSTATION, setting).fits
    assert not estimate_memory(facts, WORKSTATION, msgspec.structs.replace(setting, slots=200)).fits


def test_a_reservation_too_small_for_one_conversation_does_not_fit() -> None:
    facts = shape_facts("Qwen3 32B", "FP8", format="safetensors")
    memory = estimate_memory(facts, WORKSTATION, setting_for(engine="vllm", backend="cuda", context=4096))
    assert not memory.fits
    assert not any("is unknown" in note for note in memory.notes), "it is known, and too little"
    assert memory.largest_context == 0


def test_tensor_parallel_halves_weights_and_cache() -> None:
    facts = shape_facts("Qwen3 32B", "FP8", format="safetensors")
    single, two = (setting_for(engine="sglang", backend="cuda", gpus=count) for count in (1, 2))
    assert reserved_memory.weight_share(facts, two) * 2 == pytest.approx(
        reserved_memory.weight_share(facts, single), rel=0.01
    )
    assert reserved_memory.cache_demand(facts, two) * 2 == reserved_memory.cache_demand(facts, single)


def test_mlx_and_exllama_keep_their_own_kinds_of_cache() -> None:
    facts = shape_facts("Qwen3 4B", "4bit", format="mlx")
    sizes = {
        kv_type: sum_components(facts, setting_for(engine="mlx-lm", backend="metal", kv_type=kv_type)).kv.bytes
        for kv_type in ("f16", "q8_0", "q4_0")
    }
    assert sizes["q8_0"] / sizes["f16"] == pytest.approx(68 / 128)
    assert sizes["q4_0"] / sizes["f16"] == pytest.approx(36 / 128)
    exl = sum_components(facts, setting_for(engine="exllamav3", backend="cuda", cache_tokens=32768, context=4096))
    assert exl.kv.bytes == 36 * 32768 * 8 * 256 * 2


def compute_on_card(components: MemoryComponents) -> int:
    """Return the bytes that computing takes on the first card."""
    return sum(p.bytes for p in components.parts if p.place == 0 and p.component is MemoryComponent.COMPUTE)


def test_a_prompts_chunk_takes_its_logits_or_its_widest_activations() -> None:
    facts, tokens = shape_facts("Qwen3 8B", "4bit", format="mlx"), 2048
    chunks = {
        engine: compute_on_card(sum_components(facts, setting_for(engine=engine, backend=backend)))
        for engine, backend in (("mlx-lm", "metal"), ("exllamav2", "cuda"))
    }
    assert chunks == {
        "mlx-lm": (151936 + 4096) * tokens * 2,
        "exllamav2": (3 * 12288 + 5 * 4096) * tokens * 2,
    }


def test_a_card_of_unknown_size_holds_nothing_and_bars_nothing_elsewhere() -> None:
    host, card = pool_rooms(WORKSTATION, setting_for(backend="cuda"))
    rooms = [host, msgspec.structs.replace(card, free=None)]
    part = MemoryPart(place=HOST, component=MemoryComponent.WEIGHTS, bytes=GIB)
    assert parts_fit([part], rooms)
    assert not parts_fit([msgspec.structs.replace(part, place=card.places[0])], rooms)


def test_of_a_card_that_does_not_tell_its_memory_a_share_of_its_pool_is_taken() -> None:
    [card] = WORKSTATION.gpus
    unsized_card = msgspec.structs.replace(card, memory_total=msgspec.structs.replace(card.memory_total, value=None))
    machine = msgspec.structs.replace(WORKSTATION, gpus=[unsized_card])
    [pool] = [pool for pool in machine.pools if pool.id == card.pool]
    assert adapt_setting(setting_for(backend="cuda"), machine).gpu_memory == (pool.physical.value,)


def test_a_copy_that_the_system_may_drop_is_not_needed() -> None:
    part = MemoryPart(place=HOST, component=MemoryComponent.WEIGHTS, bytes=10, reclaimable=4)
    assert by_component([part, part], is_needed=True) == {"weights": 12}
    assert by_component([part, part]) == {"weights": 20}


def test_every_conversation_of_a_step_has_logits(llama: ModelFacts) -> None:
    memory = sum_components(llama, setting_for(backend="cuda", slots=512, context=256))
    assert compute_on_card(memory) >= 512 * llama.vocabulary * 4


def test_a_cache_takes_what_its_arithmetic_says_and_no_byte_more(llama: ModelFacts) -> None:
    assert sum_components(llama, setting_for(context=4096)).kv.bytes == 4096 * 32 * 8 * (128 + 128) * 2


def test_exllama_keeps_the_embedding_in_system_memory() -> None:
    facts = shape_facts("Llama 3.1 8B", "4.0bpw", format="exl3")
    memory = sum_components(facts, setting_for(engine="exllamav3", backend="cuda"))
    assert weights_at(HOST, memory) == sum(g.bytes for g in facts.weights if g.kind is WeightKind.INPUT_EMBEDDING)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_a_rule(engine: str, llama: ModelFacts) -> None:
    backend = {"mlx-lm": "metal", "mlx-vlm": "metal", "openvino": "cpu", "onnxruntime-genai": "cpu"}.get(engine, "cuda")
    memory = sum_components(llama, setting_for(engine=engine, backend=backend))
    assert memory.weights.bytes > 4 * GIB
    assert memory.kv.bytes > 0
    assert memory.runtime.bytes > 10 * MIB
    assert memory.runtime.confidence is not EstimateConfidence.EXACT
    assert memory.total.bytes == sum(part.bytes for part in memory.parts)


def test_a_draft_and_a_projector_are_counted_apart(llama: ModelFacts) -> None:
    draft = shape_facts("Llama 3.2 1B", "Q4_K_M")
    memory = sum_components(llama, setting_for(draft=draft, projector=draft))
    assert memory.draft is not None
    assert memory.projector is not None
    assert memory.draft.bytes > memory.projector.bytes == draft.file_bytes
    assert {part.component for part in memory.parts} >= {MemoryComponent.DRAFT, MemoryComponent.PROJECTOR}


@pytest.mark.parametrize(("limit", "largest"), [(0, 0), (255, 0), (256, 256), (900, 768), (5000, 1000)])
def test_the_search_finds_the_last_step_that_fits(limit: int, largest: int) -> None:
    assert largest_fit(lambda value: value <= limit, most=1000, step=256) == largest
    assert largest_fit(lambda value: value <= limit, most=1000) == min(limit, 1000)


def test_of_nothing_nothing_fits() -> None:
    assert largest_fit(lambda _: True, most=0) == 0


def test_the_search_finds_the_first_that_fits() -> None:
    assert smallest_fit(lambda value: value >= 7, most=10) == 7
    assert smallest_fit(lambda _: True, most=10) == 0
    assert smallest_fit(lambda _: False, most=10) is None


def model_with_head() -> ModelFacts:
    """Return a model of four layers, with a head for multi-token prediction as a fifth."""
    plain = Made(layers=4).facts("Q8_0")
    head = msgspec.structs.replace(plain.layers[-1], is_draft=True)
    weights = WeightGroup(
        kind=WeightKind.DRAFT, layer=4, type="Q8_0", tensors=3, elements=10**6, bytes=10**6, padded_bytes=10**6
    )
    return msgspec.structs.replace(plain, layers=[*plain.layers, head], weights=[*plain.weights, weights])


def test_a_models_own_head_is_counted_where_it_drafts() -> None:
    """A layer's cache, the head's weights and a second graph; nothing of it where the head is not used."""
    facts = model_with_head()
    head = facts.layers[-1]
    assert facts.has_draft_head
    assert not Made(layers=4).facts("Q8_0").has_draft_head
    setting = setting_for(context=4096)
    without = sum_components(facts, setting)
    drafting_sum = sum_components(facts, msgspec.structs.replace(setting, has_own_draft=True))
    assert without.draft is None
    assert drafting_sum.draft is not None
    row = 2 * head.kv_heads * head.key_dim * 2 * 4096
    assert drafting_sum.draft.bytes == 10**6 + row + without.compute.bytes
    assert drafting_sum.total.bytes == without.total.bytes + drafting_sum.draft.bytes


@pytest.mark.parametrize(("kv_type", "bits"), [("f16", 16), ("q8_0", 8.25), ("q4_0", 4.25)])
def test_exllamav3_s_draft_head_is_counted_with_its_cache_in_the_bits_of_the_model_s(kv_type: str, bits: float) -> None:
    facts = model_with_head()
    head = facts.layers[-1]
    setting = setting_for("exllamav3", backend="cuda", context=4096, kv_type=kv_type)
    without = sum_components(facts, setting)
    drafting_sum = sum_components(facts, msgspec.structs.replace(setting, has_own_draft=True))
    assert without.draft is None
    assert drafting_sum.draft is not None
    row = 2 * head.kv_heads * head.key_dim * bits / 8 * 4096
    assert drafting_sum.draft.bytes == pytest.approx(10**6 + row + without.compute.bytes, rel=0.03), "scales aside"
    assert drafting_sum.total.bytes == without.total.bytes + drafting_sum.draft.bytes
    assert {part.place for part in drafting_sum.parts if part.component is MemoryComponent.DRAFT} == {0}


def test_a_draft_model_is_counted_by_every_kind_of_engine(llama: ModelFacts) -> None:
    draft = shape_facts("Llama 3.2 1B", "BF16", format="safetensors")
    for setting in (
        setting_for("mlx-lm", backend="metal", draft=draft),
        setting_for("vllm", backend="cuda", draft=draft, gpu_memory=(24 * GIB,)),
    ):
        draft_part = sum_components(llama, setting).draft
        assert draft_part is not None
        assert draft_part.bytes >= 0.99 * draft.file_bytes


def test_what_drafts_leaves_a_reserving_engine_less_for_its_cache() -> None:
    facts = model_with_head()
    plain = setting_for("vllm", backend="cuda", context=4096, gpu_memory=(24 * GIB,))
    drafting_setting = msgspec.structs.replace(plain, has_own_draft=True)
    before, after = (reserved_memory.cache_capacity(facts, setting) for setting in (plain, drafting_setting))
    assert before.bytes - after.bytes == 10**6
    assert after.tokens == pytest.approx(before.tokens * 4 / 5, rel=0.01), "five layers keep a cache where four did"
    totals = {sum_components(facts, setting).total.bytes for setting in (plain, drafting_setting)}
    assert len(totals) == 1, "the share that is reserved stays"
