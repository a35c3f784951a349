"""What a repository would be on this machine: each variant's memory, context and speed, and which one to take.

Sizes are exact before anything is fetched; the rest follows from one header. What cannot be found out is left open and
said, and never keeps the sizes from being shown.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from app.config.environment import hub_endpoint
from app.core.advice import Estimate, EstimateRequest, Plan
from app.core.engines import EngineInfo
from app.core.errors import BadRequest, Forbidden, RoundhouseError, Unauthorized
from app.core.hub import HubCompanion, HubModel, HubVariant
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.gateway.hub import hub_plans, model_pull
from app.gateway.services import Services
from app.hub.download.cache import RepositoryCache
from app.hub.repositories.offers import RepositoryOffer, variant_label
from app.hub.repositories.repository import Repository, repository_page, what_to_do
from app.hub.repositories.variants import ModelVariant, companions_of

if TYPE_CHECKING:
    from app.advisor.choosing.engine_table import EngineTable
    from app.gateway.advising import advice

_QUALITY = (
    (7.5, "As good as the original."),
    (5.5, "Hardly any loss."),
    (4.5, "Little loss."),
    (3.5, "The usual balance of size and quality."),
    (2.5, "Answers are visibly worse."),
    (0.0, "Answers are much worse: choose a smaller model instead if you can."),
)
"""Least nominal bits per weight, and what to expect from there on."""


class FitContext(NamedTuple):
    """What every variant is judged on."""

    machine: Machine
    engines: list[EngineInfo]
    known: "advice.ObservedSpeeds"
    traits: "EngineTable"
    """The engines as they can be had for the machine."""


async def fit_context(services: Services, description: Mapping[str, msgspec.Raw] | None = None) -> FitContext:
    """Return what there is to run models with, here or on the machine that is described."""
    from app.engine_store.host import described_host, host_of  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.gateway.advising import advice  # noqa: PLC0415 -- as above
    from app.gateway.advising.engine_table import engines_for  # noqa: PLC0415 -- as above

    machine, is_here = await advice.machine_for(services.machine, description)
    engines = await asyncio.to_thread(services.catalogue.list_engines) if is_here else []
    observed_speeds = advice.ObservedSpeeds(
        calibrations=await services.speed_measurements.calibrations() if is_here else []
    )
    host = host_of(machine) if is_here else described_host(machine)
    return FitContext(
        machine, engines, observed_speeds, engines_for(machine, services.catalogue.recipes, engines, host)
    )


async def describe(services: Services, typed_name: str) -> HubModel:
    """Return what a name or address offers. Raises what naming and the hub raise; pickles only are BadRequest."""
    named_offer = await model_pull.offer_of(services, typed_name)
    answer, offer = named_offer.answer, named_offer.answer.value
    offered_variants = offer.list_variants()
    facts: dict[str, ModelFacts] = {}
    notes, plans = [named_offer.note], list[Plan]()
    token = await asyncio.to_thread(services.hub.token.read_token)
    gate = what_to_do(hub_endpoint(), offer.repository.name, has_token=bool(token)) if offer.repository.gated else ""
    try:
        facts = await asyncio.to_thread(model_pull.read_variant_facts, services.hub, named_offer)
        plans = await hub_plans.plans_for(services, facts)
    except (Unauthorized, Forbidden) as error:
        notes.append("Its memory use can be estimated once its terms are accepted." if gate else str(error))
    except RoundhouseError as error:
        notes.append(f"Its memory use could not be estimated: {error}")
    ground = await fit_context(services)
    best = hub_plans.pick_best(plans, offered_variants, facts)
    cache = RepositoryCache(services.paths.hub_cache, offer.repository.name)
    rows = await asyncio.to_thread(
        lambda: [
            _describe_variant(offered_variant, facts.get(variant_label(offered_variant)), ground)
            for offered_variant in offered_variants
        ]
    )
    marked_rows = [
        _mark_choice(variant, offered_variant, best, cache, offer)
        for variant, offered_variant in zip(rows, offered_variants, strict=True)
    ]
    description = _describe_model(offer.repository, marked_rows, facts, " ".join(filter(None, notes)))
    return msgspec.structs.replace(description, companions=_list_companions(offer, cache), as_of=answer.at, gate=gate)


def _list_companions(offer: RepositoryOffer, cache: RepositoryCache) -> list[HubCompanion]:
    commit = offer.repository.commit
    return [
        HubCompanion(kind=kind, path=file.path, size_bytes=file.size, is_here=cache.has_file(commit, file))
        for kind, file in companions_of(offer.repository)
    ]


def _describe_variant(variant: ModelVariant, facts: ModelFacts | None, ground: FitContext) -> HubVariant:
    hub_variant = HubVariant(
        quantization=variant.quantization or (facts.quantization if facts else ""),
        format=facts.format if facts else variant.format,
        size_bytes=variant.size_bytes,
        revision=variant.revision,
        files=len(variant.files),
        projector_bytes=variant.projector.size if variant.projector else 0,
        projector=variant.projector.path if variant.projector else "",
    )
    return hub_variant if facts is None else _with_estimate(hub_variant, facts, ground)


def _with_estimate(variant: HubVariant, facts: ModelFacts, ground: FitContext) -> HubVariant:
    from app.advisor.plans.quantisations import nominal_bits  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

    bits = nominal_bits(facts)
    quality = next(sentence for least, sentence in _QUALITY if bits >= least)
    try:
        estimate = estimate_on(facts, ground)
    except BadRequest as error:  # an architecture nobody can compute
        return msgspec.structs.replace(variant, quality=quality, reason=str(error))
    return msgspec.structs.replace(
        variant,
        quality=quality,
        engine=estimate.engine,
        engine_name=engine_table()[estimate.engine].name,
        fits=estimate.fits,
        memory_bytes=estimate.needed_bytes,
        context=estimate.context,
        largest_context=estimate.largest_context,
        decode=estimate.decode,
        reason="" if estimate.fits else next(iter(estimate.notes), ""),
    )


def estimate_on(facts: ModelFacts, ground: FitContext) -> Estimate:
    """Return what a model would take here, at the usual context. Raises BadRequest where nobody can tell."""
    from app.advisor.choosing import targets  # noqa: PLC0415 -- as above
    from app.advisor.memory import estimate as memory  # noqa: PLC0415 -- as above
    from app.gateway.advising import advice  # noqa: PLC0415 -- as above

    setting = advice.setting_for(facts, ground.machine, EstimateRequest(model=facts.name), ground.engines)
    rates = advice.predict_speed(facts, ground.machine, ground.known)
    estimate = memory.estimate_memory(facts, ground.machine, setting, speed=rates)
    if any(engine.id == setting.engine.id and engine.installed for engine in ground.engines):
        return estimate
    return advice.with_verdict_of_engine(estimate, targets.explain_lack(ground.machine, setting.engine))


def _mark_choice(
    hub_variant: HubVariant,
    variant: ModelVariant,
    best: hub_plans.BestVariant | None,
    cache: RepositoryCache,
    offer: RepositoryOffer,
) -> HubVariant:
    is_here = all(cache.has_file(offer.home_of(variant).commit, file) for file in variant.files)
    if best is None or best.variant is not variant:
        return msgspec.structs.replace(hub_variant, is_here=is_here)
    return msgspec.structs.replace(hub_variant, is_here=is_here, is_recommended=True, reason=best.reason)


def _describe_model(
    repository: Repository, variants: list[HubVariant], facts: Mapping[str, ModelFacts], note: str
) -> HubModel:
    known_facts = next(iter(facts.values()), None)
    return HubModel(
        repository=repository.name,
        revision=repository.revision,
        commit=repository.commit,
        page=repository_page(hub_endpoint(), repository.name),
        variants=variants,
        architecture=known_facts.architecture if known_facts else "",
        parameters=known_facts.parameters if known_facts else None,
        active_parameters=known_facts.active_parameters if known_facts else None,
        trained_context=known_facts.trained_context if known_facts else None,
        capabilities=known_facts.capabilities if known_facts else [],
        licence=repository.licence,
        base_models=repository.base_models,
        gated=repository.gated,
        needs_remote_code=known_facts.needs_remote_code if known_facts else False,
        downloads=repository.downloads,
        likes=repository.likes,
        modified=repository.modified,
        note=note,
    )
