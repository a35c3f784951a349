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
from app.gateway.hub import pulling
from app.gateway.services import Services
from app.hub.download.cache import RepositoryCache
from app.hub.repositories.gates import page, what_to_do
from app.hub.repositories.offers import Offer, label
from app.hub.repositories.repository import Repository
from app.hub.repositories.variants import Variant, companions_of

if TYPE_CHECKING:
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


class Ground(NamedTuple):
    """What every variant is judged on."""

    machine: Machine
    engines: list[EngineInfo]
    known: "advice.Seen"


async def ground_of(services: Services) -> Ground:
    """Return what there is here to run models with."""
    from app.gateway.advising import advice  # noqa: PLC0415 -- the gateway starts without the advisor

    return Ground(
        await services.machine.read_free(),
        await asyncio.to_thread(services.catalogue.list),
        advice.Seen(calibrations=await services.measuring.calibrations()),
    )


async def describe(services: Services, typed: str) -> HubModel:
    """Return what a name or address offers. Raises what naming and the hub raise; pickles only are BadRequest."""
    told, older = await pulling.offer_of(services.settings, services.hub, typed)
    offer = told.value
    offered = offer.variants()
    facts: dict[str, ModelFacts] = {}
    notes, plans = [older], list[Plan]()
    token = await asyncio.to_thread(services.hub.token.read)
    gate = what_to_do(hub_endpoint(), offer.repository.name, has_token=bool(token)) if offer.repository.gated else ""
    try:
        facts = await asyncio.to_thread(pulling.with_facts, services.hub, typed, told)
        plans = await pulling.plans_for(services, facts)
    except (Unauthorized, Forbidden) as error:
        notes.append("Its memory use can be estimated once its terms are accepted." if gate else str(error))
    except RoundhouseError as error:
        notes.append(f"Its memory use could not be estimated: {error}")
    ground = await ground_of(services)
    best = pulling.recommended(plans, offered, facts)
    cache = RepositoryCache(services.paths.hub_cache, offer.repository.name)
    shown = await asyncio.to_thread(lambda: [_shown(one, facts.get(label(one)), ground) for one in offered])
    marked = [_marked(variant, one, best, cache, offer) for variant, one in zip(shown, offered, strict=True)]
    described = _described(offer.repository, marked, facts, " ".join(filter(None, notes)))
    return msgspec.structs.replace(described, companions=_beside(offer, cache), as_of=told.at, gate=gate)


def _beside(offer: Offer, cache: RepositoryCache) -> list[HubCompanion]:
    commit = offer.repository.commit
    return [
        HubCompanion(kind=kind, path=file.path, size_bytes=file.size, is_here=cache.has(commit, file))
        for kind, file in companions_of(offer.repository)
    ]


def _shown(variant: Variant, facts: ModelFacts | None, ground: Ground) -> HubVariant:
    shown = HubVariant(
        quantization=variant.quantization or (facts.quantization if facts else ""),
        format=facts.format if facts else variant.format,
        size_bytes=variant.size_bytes,
        revision=variant.revision,
        files=len(variant.files),
        projector_bytes=variant.projector.size if variant.projector else 0,
        projector=variant.projector.path if variant.projector else "",
    )
    return shown if facts is None else _sized(shown, facts, ground)


def _sized(shown: HubVariant, facts: ModelFacts, ground: Ground) -> HubVariant:
    from app.advisor.plans.quantisations import nominal_bits  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

    bits = nominal_bits(facts)
    quality = next(said for least, said in _QUALITY if bits >= least)
    try:
        found = estimate_on(facts, ground)
    except BadRequest as error:  # an architecture nobody can compute
        return msgspec.structs.replace(shown, quality=quality, reason=str(error))
    return msgspec.structs.replace(
        shown,
        quality=quality,
        engine=found.engine,
        engine_name=engine_table()[found.engine].name,
        fits=found.fits,
        memory_bytes=found.total.bytes,
        context=found.context,
        largest_context=found.largest_context,
        decode=found.decode,
        reason="" if found.fits else next(iter(found.notes), ""),
    )


def estimate_on(facts: ModelFacts, ground: Ground) -> Estimate:
    """Return what a model would take here, at the usual context. Raises BadRequest where nobody can tell."""
    from app.advisor.choosing import targets  # noqa: PLC0415 -- as above
    from app.advisor.memory import estimate as memory  # noqa: PLC0415 -- as above
    from app.gateway.advising import advice  # noqa: PLC0415 -- as above

    setting = advice.setting_for(facts, ground.machine, EstimateRequest(model=facts.name), ground.engines)
    rates = advice.speed_of(facts, ground.machine, ground.known)
    found = memory.estimate(facts, ground.machine, setting, speed=rates)
    if any(engine.id == setting.engine.id and engine.installed for engine in ground.engines):
        return found
    return advice.where_it_runs(found, targets.lack(ground.machine, setting.engine))


def _marked(
    shown: HubVariant, variant: Variant, best: pulling.Best | None, cache: RepositoryCache, offer: Offer
) -> HubVariant:
    is_here = all(cache.has(offer.home(variant).commit, file) for file in variant.files)
    if best is None or best.variant is not variant:
        return msgspec.structs.replace(shown, is_here=is_here)
    return msgspec.structs.replace(shown, is_here=is_here, is_recommended=True, reason=best.reason)


def _described(
    repository: Repository, variants: list[HubVariant], facts: Mapping[str, ModelFacts], note: str
) -> HubModel:
    known = next(iter(facts.values()), None)
    return HubModel(
        repository=repository.name,
        revision=repository.revision,
        commit=repository.commit,
        page=page(hub_endpoint(), repository.name),
        variants=variants,
        architecture=known.architecture if known else "",
        parameters=known.parameters if known else None,
        active_parameters=known.active_parameters if known else None,
        trained_context=known.trained_context if known else None,
        capabilities=known.capabilities if known else [],
        licence=repository.licence,
        base_models=repository.base_models,
        gated=repository.gated,
        needs_remote_code=known.needs_remote_code if known else False,
        downloads=repository.downloads,
        likes=repository.likes,
        modified=repository.modified,
        note=note,
    )
