"""The catalogue as people look through it: every model for a use, or by words of its names, judged for this machine.

Nothing here needs a network. What the catalogue has that it did not have when somebody last looked is marked.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from app.config.paths import Paths
from app.config.store import SettingsStore
from app.core.advice import Advice, FitVerdict, Intent, Plan, PlanRequest
from app.core.hub import CatalogueQuery, HubPick, HubUse, MachineAdvice
from app.core.licences import commercial_use
from app.gateway.hub.listing_cache import ListingTerms, keep_picks
from app.gateway.hub.repositories import FitContext, fit_context
from app.gateway.hub.support_gaps import GapInputs, find_gap, name_facts, read_gap_inputs
from app.gateway.services import Services
from app.hub.download.cache import RepositoryCache
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.catalogue import CatalogueContent
from app.hub.repositories.catalogue_entry import CatalogueEntry

if TYPE_CHECKING:
    from app.gateway.advising.advice import CandidateModels

_MOST_BY_NAME = 60
"""Models that match words: more words find what is not among them."""
_ELSEWHERE = frozenset({Intent.APP, Intent.BROWSER, Intent.FLEET})
"""Uses whose models do not run on one computer with an engine of ours: they take its measure with well-known ones."""
_USES = {Intent.CODING: HubUse.CODING, Intent.AGENT: HubUse.CODING}
_VERDICT_ORDER = (FitVerdict.FITS, FitVerdict.SLOW, None, FitVerdict.TOO_LARGE)


async def list_best(
    services: Services, use: HubUse, description: Mapping[str, msgspec.Raw] | None = None
) -> list[HubPick]:
    """Return the models whose quality for a use is known, the best first: here, or on the machine described."""
    content = await asyncio.to_thread(_read_content, services.hub, services.settings)
    ground = await fit_context(services, description)
    pick = _pick_for_completion if use is HubUse.AUTOCOMPLETE else _pick_ranked
    picks = await asyncio.to_thread(pick, services, content, use, ground)
    return await _complete_picks(services, content, picks, ground if description is None else None)


async def plan_machine(services: Services, request: PlanRequest) -> MachineAdvice:
    """Return plans for the model named; without one, for the best of the catalogue, with the others that run well.

    Raises BadRequest for impossible wishes, NotFound for an unknown model.
    """
    from app.gateway.advising import advice  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.gateway.hub.model_picks import explain_absence  # noqa: PLC0415 -- as above

    if request.model.strip() or request.intent in _ELSEWHERE:
        return _with_picks(await advice.make_plan(services, request), [])
    advice.check_plan(request)
    picks = await list_best(services, _USES.get(request.intent, HubUse.CHAT), request.machine)
    recommended_picks = [pick for pick in picks if pick.is_recommended]
    if (
        recommended_picks and recommended_picks[0].installed
    ):  # planned as when it is named: with its own files and settings
        plans = await advice.make_plan(services, replace(request, model=recommended_picks[0].installed))
    else:
        forms = await asyncio.to_thread(_forms_of, services.hub, services.settings, recommended_picks[:1])
        plans = _put_first(await advice.make_plan(services, request, forms), recommended_picks[:1])
    return replace(_with_picks(plans, recommended_picks), note=explain_absence(picks))


def _put_first(plans: Advice, first: list[HubPick]) -> Advice:
    """Return plans with the recommended form first: another may fit, but leave other programs too little memory."""

    def is_other(plan: Plan) -> bool:
        return not any((plan.format, plan.quantization) == (pick.card.format, pick.card.quantization) for pick in first)

    return replace(plans, plans=sorted(plans.plans, key=is_other)) if first else plans


def _with_picks(plans: Advice, recommended_picks: list[HubPick]) -> MachineAdvice:
    return MachineAdvice(
        plans=plans.plans,
        intent=plans.intent,
        users=plans.users,
        machine=plans.machine,
        model=plans.model,
        service=plans.service,
        recommended=recommended_picks,
    )


def _forms_of(hub: HubMemory, settings: SettingsStore, first: list[HubPick]) -> "CandidateModels":
    """Return what the best model can be had in; nothing where none is recommended: then only engines are planned."""
    from app.gateway.advising.advice import CandidateModels  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.gateway.hub.entry_forms import list_forms  # noqa: PLC0415 -- as above

    content = _read_content(hub, settings)
    entry = next((entry for entry in content.models if first and entry.name == first[0].pull), None)
    forms = list_forms(entry) if entry is not None else ()
    return CandidateModels(candidates=forms, model=first[0].name if forms else "")


async def list_catalogue(services: Services, query: CatalogueQuery) -> list[HubPick]:
    """Return all that the catalogue has for a use, or whose names have the query's words; what is best comes first."""
    content, ground = await _read_inputs(services)
    if query.text.strip():
        entries = [entry for entry in content.models if _has_words(entry, query.text)][:_MOST_BY_NAME]
        picks = await asyncio.to_thread(_judge_entries, entries, None, ground)
    elif query.use is HubUse.AUTOCOMPLETE:
        picks = await asyncio.to_thread(_pick_for_completion, services, content, query.use, ground)
    else:
        ranked_picks = await asyncio.to_thread(_pick_ranked, services, content, query.use, ground)
        picks = [*ranked_picks, *await asyncio.to_thread(_judge_rest, services, content, query.use, ground)]
    return await _complete_picks(services, content, picks, ground)


async def note_look(hub: HubMemory, settings: SettingsStore) -> None:
    """Remember that somebody has seen all that the catalogue has now. Raises StorageFault."""
    content = await asyncio.to_thread(_read_content, hub, settings)
    await asyncio.to_thread(hub.looks.note_look, [entry.base for entry in content.models])


def _read_content(hub: HubMemory, settings: SettingsStore) -> CatalogueContent:
    return hub.catalogue.read_content(settings.get_text("catalogue.key"))


async def _read_inputs(services: Services) -> tuple[CatalogueContent, FitContext]:
    return await asyncio.to_thread(_read_content, services.hub, services.settings), await fit_context(services)


def _has_words(entry: CatalogueEntry, text: str) -> bool:
    names = " ".join([entry.title, entry.family, entry.base, *entry.names]).casefold()
    return all(word in names for word in text.casefold().split())


def _pick_ranked(services: Services, content: CatalogueContent, use: HubUse, ground: FitContext) -> list[HubPick]:
    from app.gateway.hub.model_picks import pick_models  # noqa: PLC0415 -- the gateway starts without the advisor

    least = services.settings.get_int("catalogue.least_speed")
    terms = ListingTerms("ranked", use, content, ground, least)
    return keep_picks(services.hub, terms, lambda: pick_models(content.models, use, ground, least))


def _pick_for_completion(
    services: Services, content: CatalogueContent, use: HubUse, ground: FitContext
) -> list[HubPick]:
    from app.gateway.hub.model_picks import recommend_completion  # noqa: PLC0415 -- the gateway starts without it

    return recommend_completion(_judge_rest(services, content, use, ground))


def _judge_rest(services: Services, content: CatalogueContent, use: HubUse, ground: FitContext) -> list[HubPick]:
    """Judge the models whose quality for a use nobody knows."""
    rest = [entry for entry in content.models if use in entry.uses and use.value not in entry.ranks]
    terms = ListingTerms("rest", use, content, ground)
    return keep_picks(services.hub, terms, lambda: _judge_entries(rest, use, ground))


def _judge_entries(entries: Sequence[CatalogueEntry], use: HubUse | None, ground: FitContext) -> list[HubPick]:
    """Return models as picks, those that run first; without a use, each for its own first one."""
    from app.gateway.hub.card_fits import with_fit  # noqa: PLC0415 -- as above
    from app.gateway.hub.model_picks import WRITING_USES, catalogue_card  # noqa: PLC0415 -- as above

    def judge_entry(entry: CatalogueEntry) -> HubPick:
        card = with_fit(catalogue_card(entry), ground, entry)
        own_use = use or next(iter(entry.uses), HubUse.CHAT)
        writes = own_use in WRITING_USES and "speech" not in entry.good_for[:1]
        return HubPick(
            name=entry.title,
            pull=entry.name,
            repository=card.repositories[0].repository,
            use=own_use,
            card=card if writes else replace(card, decode=None),
            quality=entry.ranks.get(own_use.value, 0),
            is_quality_derived=own_use.value in entry.derived,
        )

    picks = [judge_entry(entry) for entry in entries]
    return sorted(picks, key=lambda pick: (_VERDICT_ORDER.index(pick.card.verdict), -pick.quality))


async def _complete_picks(
    services: Services, content: CatalogueContent, picks: Sequence[HubPick], ground: FitContext | None
) -> list[HubPick]:
    """Return picks with what the catalogue says of them and what is so here; without a ground, of another machine."""
    from app.gateway.hub.installed_forms import prefer_installed, read_installed  # noqa: PLC0415 -- as above

    inputs = await read_gap_inputs(services.catalogue, services.machine, services.support)
    entries = {entry.name: entry for entry in content.models}
    if ground is not None:
        here = await read_installed(services)
        picks = await asyncio.to_thread(
            lambda: [prefer_installed(pick, here.get(entries[pick.pull].base, ()), ground) for pick in picks]
        )
    return await asyncio.to_thread(lambda: list(_list_complete(services.paths, services.hub, entries, picks, inputs)))


def _list_complete(
    paths: Paths, hub: HubMemory, entries: dict[str, CatalogueEntry], picks: Sequence[HubPick], inputs: GapInputs
) -> Iterator[HubPick]:
    """Yield picks with what the catalogue says of them, and what is so here."""
    cache = paths.hub_cache
    seen_names = hub.looks.read_seen()
    for pick in picks:
        entry = entries[pick.pull]
        places = [place.partition("@")[0] for repository in entry.repositories.values() for place in repository]
        yield replace(
            pick,
            family=entry.family,
            good_for=entry.good_for,
            licence=entry.licence,
            commercial=commercial_use(entry.licence),
            released=entry.released,
            draft_repositories=entry.draft_repositories,
            needs=_explain_needs(entry, pick, inputs),
            is_new=seen_names is not None and entry.base not in seen_names,
            is_here=any(RepositoryCache(cache, place).is_there for place in places),
        )


def _explain_needs(entry: CatalogueEntry, pick: HubPick, inputs: GapInputs) -> str:
    """Return what has to be updated before a model loads, as far as its published shape tells its architecture."""
    from app.hub.repositories.catalogue_facts import shape_of_entry  # noqa: PLC0415 -- the gateway starts without shapes

    shape = shape_of_entry(entry)
    if shape is None:
        return ""
    names = name_facts(shape.architecture, pick.card.format, pick.card.quantization)
    gap = find_gap(names, inputs)
    return gap.short if gap is not None else ""
