"""Which forms of a model are made for a machine: each takes a while, so those that cannot be planned are left out."""

import math
from collections.abc import Sequence

import pytest

from app.core.hub import HubUse
from app.core.model_facts import ModelFacts
from app.gateway.advising.advice import ObservedSpeeds
from app.gateway.hub.entry_forms import EVERY_FORM, FormBounds, list_forms
from app.gateway.hub.model_picks import pick_models
from app.gateway.hub.repositories import FitContext
from app.hardware.description import machine_from
from app.hub.facts.gguf import facts_from
from app.hub.shapes import find_shape, shape_facts
from tests.expert_docs import entries
from tests.unit.advisor.engines import engines_on

GB = 10**9


def names(forms: Sequence[ModelFacts]) -> list[str]:
    return [facts.quantization for facts in forms]


def bounds(most_gb: float = math.inf, least_gb: float = 0, formats: tuple[str, ...] = ("gguf",)) -> FormBounds:
    return FormBounds(formats, most_gb * GB, least_gb * GB)


def test_what_is_larger_than_all_memory_is_left_out_and_nothing_that_might_fit() -> None:
    every = [facts for facts in list_forms(entries()["Qwen3.8 27B"], EVERY_FORM) if facts.format == "gguf"]
    limited_forms = list_forms(entries()["Qwen3.8 27B"], bounds(most_gb=12))
    left_out = [facts for facts in every if facts not in limited_forms]
    assert left_out
    assert all(facts.file_bytes > 12 * GB for facts in left_out)


def test_of_a_model_that_is_too_large_the_smallest_form_says_what_it_needs() -> None:
    assert names(list_forms(entries()["Qwen3.8 27B"], bounds(most_gb=1))) == ["Q2_K"]


def test_fewer_bits_are_left_out_only_where_four_are_certain_to_fit() -> None:
    entry = entries()["Qwen3.5 4B"]
    assert "Q2_K" in names(list_forms(entry, bounds(least_gb=4)))
    assert names(list_forms(entry, bounds(least_gb=8))) == ["Q5_K_M", "Q4_K_M", "IQ4_XS", "UD-Q4_K_XL"]
    native = list_forms(entries()["gpt-oss 20B"], bounds(least_gb=512))
    assert names(native) == ["MXFP4"]


@pytest.mark.parametrize("card", ["RTX 3090", "RTX 4060"])
def test_the_picks_are_those_that_every_form_leads_to(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    description = f'{{"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 32, "gpus": ["{card}"]}}'
    machine = machine_from(description.encode())
    ground = FitContext(machine, [], ObservedSpeeds(calibrations=[]), engines_on(machine))
    some = [entries()[title] for title in ("Qwen3.8 27B", "Qwen3.6 35B-A3B", "Qwen3.5 9B", "Gemma 4 E2B")]
    limited_picks = pick_models(some, HubUse.CHAT, ground, 10)
    monkeypatch.setattr("app.gateway.hub.model_picks._bounds_of", lambda _: EVERY_FORM)
    assert pick_models(some, HubUse.CHAT, ground, 10) == limited_picks


@pytest.mark.parametrize("quantization", ["Q4_K_M", "UD-Q2_K_XL", "BF16"])
@pytest.mark.parametrize("name", ["Qwen3.6 35B-A3B", "Gemma 3 27B", "Llama 3.1 8B"])
def test_a_quantisation_has_the_weights_of_a_file_in_it(name: str, quantization: str) -> None:
    shape = find_shape(name)
    assert shape is not None
    whole = facts_from(shape.build_metadata(), shape.build_tensors(quantization), name=shape.name)
    facts = shape_facts(name, quantization)
    assert facts.weights == whole.weights
    assert (facts.file_bytes, facts.active_parameters, facts.layers) == (
        whole.file_bytes,
        whole.active_parameters,
        whole.layers,
    )
