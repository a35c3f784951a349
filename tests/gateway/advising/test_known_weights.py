"""A plan by name weighs EXL2 only where the catalogue lists such weights, or does not have the model at all."""

from typing import Any

import msgspec
import pytest

from app.core.advice import PlanRequest
from app.gateway.advising.advice import make_plan
from app.hub.repositories.catalogue_names import CatalogueMatch
from tests.gateway.played import Gateway

CARD = {
    name: msgspec.Raw(msgspec.json.encode(value))
    for name, value in {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": ["RTX 4090"]}.items()
}


async def plans_of(gateway: Gateway, model: str) -> dict[str, Any]:
    advice = await make_plan(gateway.services, PlanRequest(model=model, machine=CARD))
    return {plan.engine: plan for plan in advice.plans}


async def test_weights_that_the_catalogue_does_not_list_are_not_planned(gateway: Gateway) -> None:
    plans = await plans_of(gateway, "Qwen3 8B")
    assert next(iter(plans)) == "exllamav3"
    assert plans["exllamav2"].refused.startswith("No version of Qwen3 8B")
    assert not plans["exllamav2"].obtainable


async def test_weights_that_it_lists_are(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = gateway.services.hub.catalogue
    match = catalogue.find_match("Qwen3 8B")
    assert match is not None
    entry = msgspec.structs.replace(
        match.entry, repositories={**match.entry.repositories, "exl2": ["somebody/Qwen3-8B-exl2"]}
    )
    monkeypatch.setattr(
        catalogue, "find_match", lambda *_, **__: CatalogueMatch(entry=entry, format="", quantization="")
    )
    assert (await plans_of(gateway, "Qwen3 8B"))["exllamav2"].obtainable


async def test_of_a_model_that_it_does_not_have_the_architecture_decides(gateway: Gateway) -> None:
    assert gateway.services.hub.catalogue.find_match("Llama 2 13B") is None
    assert (await plans_of(gateway, "Llama 2 13B"))["exllamav2"].obtainable
