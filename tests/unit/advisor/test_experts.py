"""The advisor beside people who measure: what they run on twelve machines, and speeds they published."""

from statistics import median

import msgspec
import pytest

from app.advisor.memory.estimate import SpeedModel, estimate_memory
from app.advisor.memory.setting import RunSetting
from app.advisor.speed.estimate import decode_rate
from app.gateway.advising.engine_table import engine_table
from app.hardware.description import machine_from
from app.hub.repositories.catalogue_facts import catalogue_facts
from tests.expert_docs import (
    PAGE,
    TALK,
    ExpertMachine,
    ExpertSize,
    as_generated,
    compare_speeds,
    entries,
    estimate_size,
    expert_machines,
    expert_sizes,
    is_named_or_better,
    is_stated,
    list_picks,
    pick_line,
)


@pytest.mark.slow
@pytest.mark.parametrize("machine", expert_machines(), ids=lambda machine: machine.title)
def test_the_first_is_what_people_run_or_ranked_above(machine: ExpertMachine) -> None:
    first, *others = list_picks(machine.title)
    assert first.is_best
    assert first.card.fits
    assert first.card.decode is not None
    assert is_named_or_better(machine, first), [first.name, *(pick.name for pick in others[:5])]
    assert first.card.decode.tokens_per_second >= (5 if machine.title.startswith("Raspberry") else TALK)
    assert pick_line(machine) in PAGE.read_text(encoding="utf-8"), "python -m tests.expert_docs --write"


@pytest.mark.slow
def test_published_speeds_are_met() -> None:
    rows = compare_speeds()
    assert len(rows) >= 70
    assert median(row.error for row in rows) <= 0.15
    assert sum(row.is_inside for row in rows) / len(rows) >= 0.8


def test_a_small_board_writes_as_fast_as_its_memory_lets_it() -> None:
    rows = [
        row for row in compare_speeds() if row.row.machine.startswith("Raspberry") and row.row.model == "Llama 3.2 3B"
    ]
    assert [row.error <= 0.15 for row in rows] == [True]


@pytest.mark.parametrize("size", expert_sizes(), ids=lambda size: f"{size.model} {size.format} {size.quantization}")
def test_downloads_weigh_what_people_measured(size: ExpertSize) -> None:
    assert estimate_size(size) == pytest.approx(size.gb * 1e9, rel=0.04)


def test_most_of_these_sizes_follow_from_the_bits() -> None:
    stated_sizes = [size for size in expert_sizes() if is_stated(size)]
    assert len(stated_sizes) <= 10
    assert len(expert_sizes()) - len(stated_sizes) >= 39


def test_the_docs_have_the_tables_of_today() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert as_generated(page, "speeds", "sizes") == page, "python -m tests.expert_docs --write"


def test_where_lookup_tables_lie_is_said_and_they_need_no_room() -> None:
    machine = machine_from(msgspec.json.encode({"os": "linux", "cpu": "AMD Ryzen AI Max+ 395", "ram_gb": 128}))
    facts = catalogue_facts(entries()["Qwen3.8 Flash Next 125B-A6B"], "Q4_K_M")
    assert facts is not None
    setting = RunSetting(engine=engine_table()["llama.cpp"], backend="vulkan", context=8192)
    speed = SpeedModel(rates=lambda trial, depth: (decode_rate(facts, machine, trial, depth=depth), None))
    estimate = estimate_memory(facts, machine, setting, speed=speed)
    assert any("lookup tables stay in system memory or on the disk" in note for note in estimate.notes)
    assert estimate.needed_bytes < 0.8 * estimate.total.bytes
    assert estimate.decode is not None
    assert estimate.decode.low < 23, "llama.cpp wrote 20 to 23 there"
    assert estimate.decode.high > 38, "and Halogen 38"
    assert estimate.decode.high > 2 * estimate.decode.low, "what the tables cost depends on the engine"


def test_a_table_of_n_grams_is_waited_for_in_every_layer_where_it_lies_apart() -> None:
    """Half of what was predicted is what people measured; with the table on the drive a page is read besides."""
    entry = entries()["Qwen3.8 Flash Next 125B-A6B"]
    facts = catalogue_facts(entry, "NVFP4", format="nvfp4")
    assert facts is not None
    setting = RunSetting(engine=engine_table()["vllm"], backend="cuda")
    times = []
    for machine in (
        {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 256, "gpus": ["RTX PRO 6000 Blackwell"]},
        {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 32, "gpus": ["RTX PRO 6000 Blackwell"]},
    ):
        rate = decode_rate(facts, machine_from(msgspec.json.encode(machine)), setting)
        assert rate is not None
        assert "looking up n-grams" in rate.arithmetic
        times.append(1 / rate.tokens_per_second)
    layers = len(facts.layers)
    assert times[1] - times[0] == pytest.approx(layers * 120e-6, rel=0.01)
    plain = catalogue_facts(entries()["Qwen3.8 27B"], "Q4_K_M")
    assert plain is not None
    rate = decode_rate(plain, machine_from(b'{"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64}'), setting)
    assert rate is None or "n-grams" not in rate.arithmetic
