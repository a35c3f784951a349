"""Layers dealt out over machines: by what is free, whole, and with the arithmetic of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.advisor.memory.setting import RunSetting
from app.advisor.plans.across import LAYER_COSTS, NODE_COSTS, MachineRoom, deal_out, plan_layers
from app.core.model_facts import Layer, ModelFacts, WeightGroup, WeightKind
from app.gateway.advising.engine_table import engine_table

GB = 10**9
SETTING = RunSetting(engine=engine_table()["llama.cpp"], context=4096)


def group(kind: WeightKind, layer: int | None, size: int) -> WeightGroup:
    return WeightGroup(kind=kind, layer=layer, type="Q8_0", tensors=1, elements=size, bytes=size, padded_bytes=size)


def facts_with(layers: int, layer_bytes: int = GB, about: Layer | None = None) -> ModelFacts:
    about = about or Layer(heads=32, kv_heads=8, key_dim=128, value_dim=128)
    kind = WeightKind.EXPERTS if about.experts else WeightKind.FEED_FORWARD
    return ModelFacts(
        name="Made",
        format="gguf",
        architecture="llama",
        quantization="Q8_0",
        layers=[about] * layers,
        weights=[
            group(WeightKind.INPUT_EMBEDDING, None, GB // 2),
            group(WeightKind.OUTPUT, None, GB // 2),
            *(group(kind, number, layer_bytes) for number in range(layers)),
        ],
        hidden=4096,
        vocabulary=32000,
        file_bytes=layers * layer_bytes,
        parameters=1,
        active_parameters=1,
    )


def room(name: str, free: int, **link: float) -> MachineRoom:
    return MachineRoom(name=name, free_bytes=free, bandwidth_gb_s=50.0, **link)


HERE, DESK = room("here", 16 * GB), room("desk", 16 * GB, latency_ms=0.5, link_mb_s=100.0)


@given(st.lists(st.integers(1, 100), min_size=3, max_size=40), st.lists(st.integers(0, 1000), min_size=1, max_size=3))
def test_every_layer_is_dealt_out_once_and_nobody_gets_none(costs: list[int], free: list[int]) -> None:
    counts = deal_out(costs, free)
    assert sum(counts) == len(costs)
    assert min(counts) >= 1


def test_layers_lie_where_memory_is_free() -> None:
    assert deal_out([1] * 40, [30, 10]) == [30, 10]
    assert deal_out([1] * 40, [10, 10, 20]) == [10, 10, 20]


def test_fewer_layers_than_machines_are_refused() -> None:
    with pytest.raises(ValueError, match="fewer layers"):
        deal_out([1], [1, 1])


def test_what_fits_on_neither_fits_on_both() -> None:
    plan = plan_layers(facts_with(24), SETTING, [HERE, DESK])
    assert plan.fits
    assert [share.layers for share in plan.shares] == [12, 12]
    assert not plan_layers(facts_with(24), SETTING, [room("here", 6 * GB), DESK]).fits
    assert not any("alone" in reason for reason in plan.reasons)


def test_what_is_too_large_says_which_machine_has_too_little() -> None:
    plan = plan_layers(facts_with(60), SETTING, [HERE, DESK])
    assert "here would need" in plan.sentence
    assert "alone" in " ".join(plan_layers(facts_with(2), SETTING, [HERE, DESK]).reasons)


def test_a_slower_link_makes_tokens_later_and_the_arithmetic_shows_it() -> None:
    slow = room("desk", 16 * GB, latency_ms=20.0, link_mb_s=1.0)
    near, far = (plan_layers(facts_with(24), SETTING, [HERE, desk]) for desk in (DESK, slow))
    assert near.tokens_per_second is not None
    assert far.tokens_per_second is not None
    assert far.tokens_per_second < near.tokens_per_second
    assert "2 x 20.00 ms" in far.shares[1].arithmetic
    assert "ms" not in far.shares[0].arithmetic
    expected_ms = 20.0 * 2 + 2 * 4096 * 4 / 1e3
    assert far.shares[1].token_ms == pytest.approx(
        (near.shares[1].token_ms or 0) - 0.5 * 2 - 2 * 4096 * 4 / 1e5 + expected_ms
    )


def test_only_the_chosen_experts_are_read() -> None:
    about = Layer(heads=32, kv_heads=8, key_dim=128, value_dim=128, experts=8, experts_used=2)
    sparse, dense = (plan_layers(facts_with(24, about=each), SETTING, [HERE, DESK]) for each in (about, None))
    assert sparse.shares[0].needed_bytes == dense.shares[0].needed_bytes
    assert (sparse.shares[0].token_ms or 0) < (dense.shares[0].token_ms or 0)


def test_without_a_bandwidth_no_speed_is_claimed() -> None:
    blind = MachineRoom(name="desk", free_bytes=16 * GB, bandwidth_gb_s=None)
    assert plan_layers(facts_with(24), SETTING, [HERE, blind]).tokens_per_second is None


def test_a_process_on_each_waits_for_the_network_less_often_and_takes_more_memory() -> None:
    vllm = RunSetting(engine=engine_table()["vllm"], context=4096, slots=2)
    layers, nodes = (plan_layers(facts_with(24), vllm, [HERE, DESK], costs) for costs in (LAYER_COSTS, NODE_COSTS))
    assert (nodes.engine, nodes.engine_name, nodes.slots) == ("vllm", "vLLM", 2)
    assert "1 x 0.50 ms" in nodes.shares[1].arithmetic
    assert "2 x 0.50 ms" in layers.shares[1].arithmetic
    more = nodes.shares[0].needed_bytes - layers.shares[0].needed_bytes
    assert more == NODE_COSTS.compute_bytes - LAYER_COSTS.compute_bytes
    assert nodes.tokens_per_second is not None
    times = [share.token_ms or 0 for share in nodes.shares]
    assert 1e3 / nodes.tokens_per_second == pytest.approx(sum(times) + 2 * NODE_COSTS.step_s * 1e3)
