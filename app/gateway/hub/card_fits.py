"""What a card of a search would take here: computed for its usual quantisation, before its repository is looked at.

Well-known models are computed from their published shape, models of the catalogue from what it states of them. Of
others the parameters are known at best: the well-known model closest in size stands in, scaled. In each case it is an
estimate, and says so.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from app.advisor.choosing import targets
from app.core.advice import Estimate, Rate
from app.core.errors import RoundhouseError
from app.core.hub import HubCard
from app.core.identity import IdentityKey
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.gateway.advising.engine_table import engine_table
from app.gateway.advising.model_facts import find_well_known
from app.gateway.hub.hub_plans import USUAL_QUANTIZATIONS
from app.gateway.hub.repositories import FitContext, estimate_on
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts, shape_of_entry
from app.hub.shapes import ModelShape, find_shape, list_shapes, shape_facts

_NEXT_BEST = ("Q4_K_S", "IQ4_XS", "Q4_0", "MXFP4", "Q5_K_M", "Q3_K_M", "Q6_K", "Q8_0", "F16", "BF16")
_SAME_SIZE = 0.25
"""A well-known model of the same name may differ so much, as a share, before it is taken for another model."""


def with_fit(card: HubCard, ground: FitContext, entry: CatalogueEntry | None = None) -> HubCard:
    """Return a card with what it takes here, by what the catalogue states of it; as it is where nobody can say."""
    form = _form(card, ground.machine)
    if form is None:
        return card
    kind, quantization = form
    try:
        fit_facts = _facts_of(card, entry, kind, quantization)
        estimate = estimate_on(fit_facts.facts, ground) if fit_facts is not None else None
    except RoundhouseError:  # this quantisation is none of this architecture's
        return card
    if fit_facts is None or estimate is None:
        return card
    facts = fit_facts.facts
    card = msgspec.structs.replace(
        card,
        format=kind,
        quantization=quantization,
        engine_name=engine_table()[estimate.engine].name,
        parameters=card.parameters or facts.parameters,
        download_bytes=round(facts.file_bytes * (card.parameters or facts.parameters) / facts.parameters),
    )
    return _exact_fit(card, estimate, fit_facts.basis) if fit_facts.basis else _scale_fit(card, estimate, facts)


class _CardFacts(NamedTuple):
    """The facts to judge a card by, and what they rest on; empty for those of a model that stands in for it."""

    facts: ModelFacts
    basis: str = ""


def _facts_of(card: HubCard, entry: CatalogueEntry | None, kind: str, quantization: str) -> _CardFacts | None:
    """Return the facts by its published shape, else by its catalogue entry, else of the model closest in size."""
    if entry is not None and (facts := _entry_facts(IdentityKey(entry), kind, quantization)) is not None:
        source = "published shape" if shape_of_entry(entry) is not None else "layers and widths"
        return _CardFacts(facts, f"Estimated from the {source} of {entry.title}.")
    shape = _shape_of(card)
    if shape is not None:
        basis = f"Estimated from the published shape of {shape.name}."
        return _CardFacts(shape_facts(shape.name, quantization, format=kind), basis)
    closest = _closest(card)
    return _CardFacts(shape_facts(closest.name, quantization, format=kind)) if closest is not None else None


@lru_cache(maxsize=512)
def _entry_facts(key: IdentityKey[CatalogueEntry], kind: str, quantization: str) -> ModelFacts | None:
    return catalogue_facts(key.value, quantization, format=kind)


def _form(card: HubCard, machine: Machine) -> tuple[str, str] | None:
    """Return the format and quantisation to judge by: of the formats there are, the first that runs here."""
    formats = {kind for repository in card.repositories for kind in repository.formats}
    order = ["mlx", *USUAL_QUANTIZATIONS] if machine.os.name.value == "macOS" else list(USUAL_QUANTIZATIONS)
    known_kinds = [kind for kind in order if kind in formats]
    if not known_kinds:
        return None
    runs = (kind for kind in known_kinds if not targets.explain_lack(machine, engine_table().reader(kind)))
    chosen_kind = next(runs, known_kinds[0])
    return chosen_kind, _quantization(card, chosen_kind)


def _quantization(card: HubCard, kind: str) -> str:
    usual = USUAL_QUANTIZATIONS[kind]
    if kind != "gguf":
        return usual
    labels = {
        label for repository in card.repositories if kind in repository.formats for label in repository.quantizations
    }
    well_known = find_well_known(card.base)
    native = well_known.native if well_known else ""
    if not labels:
        return native or usual
    return next((label for label in (native, usual, *_NEXT_BEST) if label in labels), usual)


def _shape_of(card: HubCard) -> ModelShape | None:
    """Return the published shape of a model, if its name is well known and its size does not speak against it."""
    shape = find_shape(card.base)
    if shape is None or not shape.parameters:
        return shape
    parameters = card.parameters
    return shape if parameters is None or abs(parameters - shape.parameters) <= _SAME_SIZE * shape.parameters else None


def _closest(card: HubCard) -> ModelShape | None:
    if not card.parameters:
        return None
    architecture = next((repository.architecture for repository in card.repositories if repository.architecture), "")
    candidates = _shapes_of(architecture)
    if not candidates:
        candidates = _expert_shapes() if card.active_parameters else _dense_shapes()
    size = card.parameters
    return min(candidates, key=lambda shape: abs(math.log(shape.parameters / size)), default=None)


@lru_cache(maxsize=64)
def _shapes_of(architecture: str) -> Sequence[ModelShape]:
    return [shape for shape in list_shapes() if shape.architecture == architecture and shape.parameters]


@lru_cache(maxsize=1)
def _dense_shapes() -> Sequence[ModelShape]:
    return [shape for name in ("llama", "qwen3") for shape in _shapes_of(name)]


@lru_cache(maxsize=1)
def _expert_shapes() -> Sequence[ModelShape]:
    """Return models with experts: reading few of them is slower than reading as much in one piece."""
    return [shape for shape in list_shapes() if shape.values.get(f"{shape.architecture}.expert_count")]


def _exact_fit(card: HubCard, estimate: Estimate, basis: str) -> HubCard:
    return msgspec.structs.replace(
        card,
        fits=estimate.fits,
        memory_bytes=estimate.needed_bytes,
        largest_context=estimate.largest_context if estimate.fits else None,
        decode=estimate.decode,
        basis=basis,
    )


def _scale_fit(card: HubCard, estimate: Estimate, facts: ModelFacts) -> HubCard:
    """Return what a model takes that is as much larger than the stand-in as it has more parameters."""
    factor = (card.parameters or facts.parameters) / facts.parameters
    memory = round(estimate.needed_bytes * factor)
    free = sum(pool.free or 0 for pool in estimate.pools)
    return msgspec.structs.replace(
        card,
        fits=estimate.fits if factor <= 1 or not estimate.fits else memory <= free,
        memory_bytes=memory,
        decode=_slower(estimate.decode, _speed_divisor(card, facts, factor)),
        basis=f"Estimated from its parameters alone, as if it were made like {facts.name}.",
    )


def _speed_divisor(card: HubCard, facts: ModelFacts, factor: float) -> float:
    """Return how many times as much is read for one token as of the stand-in: with experts, less than it is large."""
    if not card.active_parameters:
        return factor
    return card.active_parameters / (facts.active_parameters or facts.parameters)


def _slower(rate: Rate | None, factor: float) -> Rate | None:
    if rate is None:
        return None
    return msgspec.structs.replace(
        rate,
        tokens_per_second=rate.tokens_per_second / factor,
        low=rate.low / factor,
        high=rate.high / factor,
        arithmetic="",
    )
