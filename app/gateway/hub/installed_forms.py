"""Models of the catalogue that are on this computer already: what is installed and fits goes before a download.

A list of the catalogue judges each model in the form that is best for the machine. Where the same model is here in
another form that fits, that is what the list shows, what a plan without a model plans, and what is loaded.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from app.advisor.plans.quantisations import nominal_bits
from app.core import words
from app.core.errors import BadRequest
from app.core.hub import HubPick, origin_of
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo
from app.gateway.hub.repositories import FitContext, estimate_on
from app.gateway.services import Services
from app.hub.repositories.catalogue_entry import CatalogueEntry


class InstalledForm(NamedTuple):
    """A model of the library, and what its files say of it."""

    model: ModelInfo
    facts: ModelFacts


InstalledForms = Mapping[str, list[InstalledForm]]
"""By the makers' repository of the catalogue's entry, the most bits first."""


async def read_installed(services: Services) -> InstalledForms:
    """Return what is installed of the catalogue's models."""
    return await asyncio.to_thread(
        lambda: list_installed(
            services.library.list_models(), services.hub.catalogue.find_repository, services.facts.read_model
        )
    )


def list_installed(
    models: Iterable[ModelInfo],
    find_entry: Callable[[str], CatalogueEntry | None],
    read_facts: Callable[[ModelInfo], ModelFacts | None],
) -> InstalledForms:
    """Return those of the models that the hub's cache holds from a repository of the catalogue. Reads disks."""
    forms: dict[str, list[InstalledForm]] = defaultdict(list)
    for model in models:
        origin = None if model.attached else origin_of(Path(model.path))
        entry = find_entry(origin.repository) if origin is not None else None
        if entry is None or model.preset is not None or model.problem:
            continue
        facts = read_facts(model)
        if facts is not None:
            forms[entry.base].append(InstalledForm(model, facts))
    return {
        base: sorted(installed_forms, key=lambda form: -nominal_bits(form.facts))
        for base, installed_forms in forms.items()
    }


def prefer_installed(pick: HubPick, forms: Iterable[InstalledForm], ground: FitContext) -> HubPick:
    """Return a pick as it is installed, if a form that is here fits; with what the list would have chosen besides."""
    for form in forms:
        try:
            estimate = estimate_on(form.facts, ground)
        except BadRequest:  # an architecture nobody can compute
            continue
        if not estimate.fits:
            continue
        chosen_card, installed_form = pick.card, form.model.quantization or form.model.format
        card = replace(
            chosen_card,
            format=form.model.format,
            quantization=form.model.quantization,
            engine_name=ground.traits[estimate.engine].name,
            fits=True,
            memory_bytes=estimate.needed_bytes,
            largest_context=estimate.largest_context,
            decode=estimate.decode if chosen_card.decode is not None else None,
            download_bytes=None,
            basis=f"As it is installed: {form.model.name}.",
        )
        is_same = (chosen_card.format, chosen_card.quantization) == (card.format, card.quantization)
        other = "" if is_same or not pick.reason else f", not in {chosen_card.quantization}: nothing need be downloaded"
        rate = f" at about {words.format_rate(card.decode.tokens_per_second)}" if card.decode else ""
        reason = f"{pick.reason} It is installed in {installed_form}{other}; that runs{rate}." if pick.reason else ""
        return replace(pick, card=card, installed=form.model.name, reason=reason)
    return pick
