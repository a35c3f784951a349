"""What the catalogue's entries come to: as many parameters as stated, as many read, and the past by their layers."""

import msgspec
import pytest

from app.core.model_facts import AttentionKind, ModelFacts, WeightGroup, WeightKind
from app.hub.repositories.catalogue_entry import CatalogueAttention, CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts, shape_of_entry, with_head
from tests.catalogue_docs import shipped_entries

ENTRIES = {entry.title: entry for entry in shipped_entries()}
OWN = [entry for entry in ENTRIES.values() if shape_of_entry(entry) is None and entry.parameters and entry.layers]

_LARGE = 1e9
"""Of smaller models embeddings are so large a part that what is read for a token is counted in different ways."""


def entry_with(**figures: object) -> CatalogueEntry:
    stated_fields: dict[str, object] = {
        "title": "Made 100B",
        "family": "Made",
        "names": ["made"],
        "base": "made-up/unheard-of",
        "parameters": 100_000_000_000,
        "layers": 48,
        "hidden": 4096,
        "kv_heads": 8,
        "head_dim": 128,
        "attention": CatalogueAttention.FULL,
        "context": 131_072,
    }
    return msgspec.convert({**stated_fields, **figures}, CatalogueEntry)


def test_all_that_state_enough_have_facts() -> None:
    assert len(OWN) > 80
    assert all(catalogue_facts(entry, "Q4_K_M") for entry in OWN)


@pytest.mark.slow(cases=56)
@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.title)
def test_as_many_parameters_are_there_and_read_as_stated(entry: CatalogueEntry) -> None:
    facts = catalogue_facts(entry, "Q4_K_M")
    assert facts is not None
    stated_parameters = entry.parameters - entry.draft_parameters
    assert sum(group.elements for group in facts.weights) == pytest.approx(stated_parameters, rel=0.01)
    if entry.active_parameters > _LARGE:
        assert sum(_elements_read(group, facts) for group in facts.weights) == pytest.approx(
            entry.active_parameters, rel=0.15
        )


def _elements_read(group: WeightGroup, facts: ModelFacts) -> float:
    if group.kind in {WeightKind.LOOKUP_TABLE, WeightKind.DRAFT, WeightKind.INPUT_EMBEDDING}:
        return 0
    if group.kind is not WeightKind.EXPERTS or group.layer is None:
        return group.elements
    layer = facts.layers[group.layer]
    return group.elements * layer.experts_used / layer.experts


@pytest.mark.slow
def test_four_bits_take_less_than_five_bits_a_weight() -> None:
    for entry in (entry for entry in OWN if entry.parameters > _LARGE):
        facts = catalogue_facts(entry, "Q4_K_M")
        assert facts is not None
        assert facts.file_bytes * 8 / entry.parameters < 5.6, entry.title


def test_layers_keep_of_the_past_what_the_entry_says() -> None:
    hybrid = catalogue_facts(entry_with(attention=CatalogueAttention.HYBRID_LINEAR, full_every=4), "Q4_K_M")
    sliding_facts = catalogue_facts(
        entry_with(attention=CatalogueAttention.SLIDING, full_every=6, window=1024), "Q4_K_M"
    )
    latent = catalogue_facts(entry_with(attention=CatalogueAttention.LATENT, kv_heads=0), "Q4_K_M")
    assert hybrid is not None
    assert sliding_facts is not None
    assert latent is not None
    assert [layer.attention for layer in hybrid.layers[:4]] == [AttentionKind.NONE] * 3 + [AttentionKind.FULL]
    assert hybrid.layers[0].state_elements > 0
    assert [layer.window for layer in sliding_facts.layers[4:7]] == [1024, 0, 1024]
    assert {layer.latent_dim for layer in latent.layers} == {576}


@pytest.mark.parametrize(("kind", "quantization", "head"), [("gguf", "Q4_K_M", 0), ("exl3", "4.05bpw", 4e9)])
def test_tables_and_draft_heads_stand_apart(kind: str, quantization: str, head: float) -> None:
    """The head is where somebody publishes it: no GGUF file has this model's."""
    entry = ENTRIES["Qwen3.8 Flash Next 125B-A6B"]
    flash = catalogue_facts(entry, quantization, format=kind)
    assert flash is not None
    flash = with_head(entry, flash)
    by_kind = {kind: sum(group.elements for group in flash.weights if group.kind is kind) for kind in WeightKind}
    assert by_kind[WeightKind.LOOKUP_TABLE] == pytest.approx(51e9, rel=0.01)
    assert by_kind[WeightKind.DRAFT] == head
    assert flash.parameters == entry.parameters - entry.draft_parameters + head


def test_experts_that_are_stated_have_the_rows_they_are_stored_in() -> None:
    """Rows of 640 are no multiple of 256, so what leaves an expert is stored in more bits; n-grams in 4.5."""
    flash = catalogue_facts(ENTRIES["Qwen3.8 Flash Next 125B-A6B"], "UD-Q2_K_XL")
    assert flash is not None
    experts = {group.type for group in flash.weights if group.kind is WeightKind.EXPERTS}
    tables = {group.type for group in flash.weights if group.kind is WeightKind.LOOKUP_TABLE}
    assert (experts, tables) == ({"Q2_K", "Q4_0", "Q5_0"}, {"IQ4_NL"})
    assert {(layer.experts, layer.experts_used, layer.feed_forward) for layer in flash.layers} == {(512, 10, 640)}


def test_a_shape_that_the_entry_speaks_against_is_not_taken() -> None:
    minicpm = ENTRIES["MiniCPM5 2B"]
    facts = catalogue_facts(minicpm, "Q4_K_M")
    assert facts is not None
    assert shape_of_entry(minicpm) is None
    assert len(facts.layers) == minicpm.layers
    shape = shape_of_entry(ENTRIES["Qwen3.8 27B"])
    assert shape is not None
    assert shape.name == "Qwen3.5 27B"


def test_an_entry_without_figures_has_none() -> None:
    assert catalogue_facts(entry_with(layers=0), "Q4_K_M") is None
