"""What a library or a launch takes, part by part, and how the parts are summed by component and by pool and said."""

import msgspec
import pytest

from app.advisor.memory.estimate import (
    engine_reported_bytes,
    estimate_memory,
    memory_by_pool,
    memory_notes,
    memory_sentence,
    sum_components,
)
from app.advisor.memory.libraries import compute_places, library_parts
from app.advisor.memory.setting import (
    HOST,
    MemoryComponent,
    MemoryPart,
    as_draft,
    assemble_parts,
    by_component,
)
from app.core.advice import EstimateConfidence, PoolUse
from app.core.model_facts import AttentionKind, WeightKind
from app.hardware.description import machine_from
from engines.api.traits import GrowingMemory
from tests.unit.advisor.engines import setting_for
from tests.unit.advisor.made_models import TINY, group_of, repack_model

MIB, GIB = 1024**2, 1024**3
PROCESSOR = machine_from(b'{"os": "Linux", "ram_gb": 64}')
CARD = machine_from(b'{"os": "Linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}')


def test_a_librarys_parts_are_shares_of_sums() -> None:
    facts = TINY.facts("4.0bpw", "exl3")
    setting = setting_for(engine="exllamav3", backend="cuda", gpus=2, context=1000, slots=3)
    library = setting.engine.memory
    assert isinstance(library, GrowingMemory)
    library = msgspec.structs.replace(
        library, embedding_on_host=False, cache_step=256, cache_spare=0, chunk=500, computes_all_logits=False
    )
    setting = msgspec.structs.replace(setting, engine=msgspec.structs.replace(setting.engine, memory=library))
    sizes = [by_component(part for part in library_parts(facts, setting) if part.place == place) for place in (0, 1)]
    assert sizes[0] == sizes[1]
    weights = sum(group.bytes for group in facts.weights)
    assert sizes[0]["weights"] == weights // 2
    assert sizes[0]["kv"] == 4 * 3 * 1024 * 2 * (128 + 128) * 2 // 2
    assert sizes[0]["compute"] == (3 * 4096 + 5 * 1024) * 500 * 2 // 2
    logits = msgspec.structs.replace(library, computes_all_logits=True)
    setting = msgspec.structs.replace(setting, engine=msgspec.structs.replace(setting.engine, memory=logits))
    assert by_component(part for part in library_parts(facts, setting) if part.place == 0)["compute"] == (
        (32_000 + 1024) * 500 * 2 // 2
    )
    short = msgspec.structs.replace(setting, context=100)
    assert by_component(part for part in library_parts(facts, short) if part.place == 0)["compute"] == (
        (32_000 + 1024) * 100 * 2 // 2
    )
    fixed_setting = msgspec.structs.replace(setting, cache_tokens=512)
    assert by_component(part for part in library_parts(facts, fixed_setting) if part.place == 0)["kv"] == 4 * 512 * 512
    assert (compute_places(setting), compute_places(setting_for(engine="exllamav3"))) == ([0, 1], [HOST])


def test_a_librarys_window_keeps_its_tokens_and_a_chunk_for_each_conversation() -> None:
    facts = TINY.facts("4.0bpw", "exl3")
    layers = [msgspec.structs.replace(each, window=64, attention=AttentionKind.SLIDING) for each in facts.layers]
    setting = setting_for(engine="exllamav3", backend="cuda", context=4096, slots=2, batch=36)
    parts = library_parts(msgspec.structs.replace(facts, layers=layers), setting)
    assert by_component(parts)["kv"] == 4 * (64 + 36) * 2 * 2 * (128 + 128) * 2


# ----- sums in words and by pool


def test_a_launch_is_as_roundhouse_starts_an_engine_where_nothing_else_is_said() -> None:
    setting = setting_for()
    assert (setting.backend, setting.context, setting.slots, setting.batch, setting.gpus) == ("cpu", 4096, 1, 512, 1)
    assert (setting.kv_type, setting.value_type, setting.task) == ("f16", "", "chat")
    assert (setting.gpu_layers, setting.cpu_moe_layers, setting.split, setting.gpu_memory) == (None, 0, (), ())
    assert (setting.flash_attention, setting.prefills, setting.repacks, setting.limits_outputs) == (True,) * 4
    assert (setting.is_kv_unified, setting.is_swa_full, setting.has_own_draft) == (False,) * 3
    assert (setting.rollback_copies, setting.memory_fraction, setting.cache_tokens) == (0, None, None)
    assert (setting.projector, setting.draft, setting.runtime_shift, setting.isa) == (None, None, None, ())


@pytest.mark.parametrize(
    ("changes", "uses"),
    [({}, True), ({"backend": "cpu"}, False), ({"gpus": 0}, False), ({"gpu_layers": 0}, False), ({"gpus": 2}, True)],
)
def test_a_card_is_used_by_a_backend_that_has_layers_on_one(changes: dict[str, object], *, uses: bool) -> None:
    setting = msgspec.structs.replace(setting_for(backend="cuda", gpu_layers=1), **changes)
    assert setting.uses_gpu is uses


def test_parts_are_summed_by_component_with_the_least_sure_of_them() -> None:
    parts = [
        MemoryPart(place=0, component=MemoryComponent.KV, bytes=5, arithmetic="a"),
        MemoryPart(place=HOST, component=MemoryComponent.KV, bytes=7, arithmetic="b", reclaimable=3),
        MemoryPart(place=1, component=MemoryComponent.KV, bytes=1, arithmetic="a"),
        MemoryPart(
            place=1, component=MemoryComponent.RUNTIME, bytes=2, confidence=EstimateConfidence.TABLE, arithmetic="c"
        ),
        MemoryPart(place=4, component=MemoryComponent.STATE, bytes=0, confidence=EstimateConfidence.PREDICTED),
        MemoryPart(place=3, component=MemoryComponent.OUTPUT, bytes=0, arithmetic="none"),
    ]
    total = assemble_parts(parts)
    assert (total.kv.bytes, total.kv.arithmetic, total.kv.confidence) == (13, "a + b", EstimateConfidence.EXACT)
    assert (total.total.bytes, total.total.confidence) == (15, EstimateConfidence.TABLE)
    assert (total.projector, total.draft) == (None, None)
    assert total.places == [HOST, 0, 1, 3]
    assert by_component(parts) == {"kv": 13, "runtime": 2}
    assert by_component(parts, is_needed=True) == {"kv": 10, "runtime": 2}
    assert engine_reported_bytes(total) == 13
    [draft] = as_draft(parts[:1])
    assert (draft.component, draft.bytes, draft.place) == (MemoryComponent.DRAFT, 5, 0)
    assert assemble_parts([draft]).draft == assemble_parts([draft]).total.__class__(
        bytes=5, confidence=EstimateConfidence.EXACT, arithmetic=draft.arithmetic
    )


def test_what_the_system_may_drop_is_needed_in_no_pool() -> None:
    facts, setting = repack_model(TINY), setting_for(isa=("avx2",), context=1024)
    estimate = estimate_memory(facts, PROCESSOR, setting)
    [pool] = estimate.pools
    assert pool.reclaimable > 0
    assert memory_by_pool(facts, PROCESSOR, setting) == {pool.id: pool.bytes - pool.reclaimable}
    assert sum(pool.parts.values()) == pool.bytes - pool.reclaimable == pool.needed_bytes


@pytest.mark.parametrize(
    ("parts", "free", "sentence"),
    [
        ({"weights": GIB}, 2 * GIB, "1.0 weights = 1.0 of 2.0 GiB free in P"),
        (
            {"weights": GIB, "kv": 40 * MIB, "output": 40 * MIB},
            None,
            "1.0 weights + 0.1 other = 1.1 GiB, out of an unknown amount, in P",
        ),
        ({"weights": GIB, "kv": 40 * MIB}, GIB, "1.0 weights + a little more = 1.0 of 1.0 GiB free in P"),
        ({"kv": 52 * MIB}, GIB, "0.1 KV = 0.1 of 1.0 GiB free in P"),
        ({"kv": 50 * MIB}, GIB, "50.0 MiB of 1.0 GiB free in P"),
        ({}, GIB, "0 B of 1.0 GiB free in P"),
    ],
)
def test_a_sum_is_said_in_tenths_of_a_gibibyte(parts: dict[str, int], free: int | None, sentence: str) -> None:
    pool = PoolUse(name="P", bytes=sum(parts.values()), free=free, parts=parts)
    assert memory_sentence([pool]) == sentence


def test_what_is_held_twice_is_said_without_the_tables_that_are_mapped() -> None:
    facts = repack_model(TINY)
    table = group_of(WeightKind.LOOKUP_TABLE, None, "Q8_0", 100 * MIB)
    facts = msgspec.structs.replace(facts, weights=[*facts.weights, table])
    setting = setting_for(isa=("avx2",))
    total = sum_components(facts, setting)
    copied_bytes = sum(part.reclaimable for part in total.parts) - table.padded_bytes
    tables, twice = list(memory_notes(facts, setting, total))
    assert tables.startswith("106 MiB of lookup tables")
    assert twice.startswith(f"{copied_bytes / MIB:.1f} MiB of the weights are held twice")
    assert not list(memory_notes(facts, setting, assemble_parts([])))
