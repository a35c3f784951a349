"""From a name of the catalogue to repositories: in the format asked for, or that of the plan for this machine.

A model is published in several formats, and several publishers have it in each. The advisor ranks the formats that an
installed engine reads; of the publishers, the first that the hub has is taken.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from app.config.store import SettingsStore
from app.core.advice import Plan
from app.core.errors import BadRequest, NotFound, RoundhouseError, quote_value
from app.core.model_facts import ModelFacts
from app.core.models import OWN_HEAD
from app.gateway.hub.hub_plans import USUAL_QUANTIZATIONS, plans_for
from app.gateway.services import Services
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.model_reference import ModelReference
from engines.api.formats import ModelFormat

if TYPE_CHECKING:
    from app.hub.repositories.catalogue_names import CatalogueMatch

FORMATS = frozenset(kind.value for kind in ModelFormat) - {ModelFormat.REMOTE.value}

_NAMED_BITS = re.compile(r"(\d)-?bit", re.IGNORECASE)


class CatalogueSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a name of the catalogue comes to on this machine: references, the preferred publisher's first, and why."""

    references: list[ModelReference]
    format: str
    reason: str = ""
    """Why this format, in a sentence; empty where there is no other."""


def check_format(name: str) -> str:
    """Return a format that somebody typed. Raises BadRequest (invalid_value) with what there is."""
    if name and name.casefold() not in FORMATS:
        hint = f"There are {', '.join(sorted(FORMATS))}."
        raise BadRequest(f"{quote_value(name)} is not a format.", hint=hint, code="invalid_value")
    return name.casefold()


async def find_named(services: Services, reference: ModelReference, model_format: str = "") -> CatalogueSource:
    """Return what a short name means. Raises BadRequest (model_not_found), NotFound (format_not_found)."""
    match = await asyncio.to_thread(_find_match, services.settings, services.hub, reference)
    asked_format = model_format or match.format
    if asked_format:
        drafts = await _plans_with_head(services, match, asked_format)
        return _in_format(match, reference, asked_format, drafts=drafts)
    formats = [kind for kind in match.entry.repositories if kind in FORMATS]
    if not formats:
        raise NotFound(
            f"The catalogue knows no repository of {match.entry.title} that an engine here could load.",
            hint=f"Its makers' own is {match.entry.base}.",
            code="format_not_found",
        )
    choice = await _choose_format(services, match, formats)
    reason = choice.reason if len(formats) > 1 else ""
    doubt = "Nobody has verified yet that its repositories exist." if match.entry.unchecked else ""
    source = _in_format(match, reference, choice.format, drafts=choice.drafts)
    return msgspec.structs.replace(source, reason=f"{reason} {doubt}".strip())


def _find_match(settings: SettingsStore, hub: HubMemory, reference: ModelReference) -> "CatalogueMatch":
    key, catalogue = settings.get_text("catalogue.key"), hub.catalogue
    match = catalogue.find_match(reference.text, key=key)
    if match is None:
        nearest = catalogue.list_nearest(reference.text, key=key)
        raise BadRequest(
            f"{quote_value(reference.text)} is a short name that is not in the catalogue.",
            hint=f"The nearest names there are {', '.join(nearest)}. Or write it as owner/name, as on its page at "
            "huggingface.co, or search for it: `roundhouse search`.",
            code="model_not_found",
        )
    return match


def _in_format(
    match: "CatalogueMatch", reference: ModelReference, model_format: str, *, drafts: bool
) -> CatalogueSource:
    repositories = match.list_repositories(model_format)
    if not repositories:
        raise NotFound(
            f"The catalogue knows no repository of {match.entry.title} in {model_format}.",
            hint=f"It knows {', '.join(match.entry.repositories)}." if match.entry.repositories else "",
            code="format_not_found",
        )
    known_branches = match.entry.branches
    ordered_matches = sorted(  # those last that are known to have other bit rates than the one named
        prefer_drafts(match.entry, repositories) if drafts else repositories,
        key=lambda place: (
            bool(match.quantization and known_branches.get(place)) and match.quantization not in known_branches[place]
        ),
    )
    places = [repository.partition("@") for repository in ordered_matches]
    references = [
        ModelReference(repository=name, revision=branch or reference.revision, quantization=match.quantization)
        for name, _, branch in places
    ]
    return CatalogueSource(references=references, format=model_format)


def prefer_drafts(entry: CatalogueEntry, repositories: list[str]) -> list[str]:
    """Put first those that carry the head for multi-token prediction, in as many bits: for plans that draft with it."""
    if not repositories:
        return repositories
    bits = _NAMED_BITS.findall(repositories[0])
    return sorted(
        repositories,
        key=lambda place: place not in entry.draft_repositories or _NAMED_BITS.findall(place) != bits,
    )


class _FormatChoice(NamedTuple):
    """The format to take, why, and whether its plan drafts with the model's own head."""

    format: str
    reason: str
    drafts: bool = False


async def _plans_with_head(services: Services, match: "CatalogueMatch", model_format: str) -> bool:
    plan = await _first_plan(services, await asyncio.to_thread(_facts_by_format, match, [model_format]))
    return plan is not None and plan.draft == OWN_HEAD


async def _choose_format(services: Services, match: "CatalogueMatch", formats: list[str]) -> _FormatChoice:
    """Return the format that is planned for this machine."""
    engines = [engine for engine in await asyncio.to_thread(services.catalogue.list_engines) if engine.installed]
    readers: dict[str, str] = {}
    for kind in formats:
        reader = next((engine.name for engine in engines if kind in engine.formats), "")
        if reader:
            readers[kind] = reader
    if not readers:
        return _FormatChoice(formats[0], f"No engine that is installed reads any of {', '.join(formats)}.")
    facts = await asyncio.to_thread(_facts_by_format, match, readers)
    plan = await _first_plan(services, facts)
    if plan is not None:
        others = ", ".join(kind for kind in formats if kind != plan.format)
        reason = f"{plan.format} for {plan.name}, as planned for this computer; also in {others}."
        return _FormatChoice(plan.format, reason, drafts=plan.draft == OWN_HEAD)
    first = next(iter(readers))
    return _FormatChoice(first, f"{first}, which {readers[first]} reads.")


async def _first_plan(services: Services, facts: Mapping[str, ModelFacts]) -> Plan | None:
    if not facts:
        return None
    try:
        plans = await plans_for(services, facts)
    except RoundhouseError:  # the machine cannot be read, or nothing runs: the order of the list decides
        return None
    return next(
        (plan for plan in plans if plan.format in facts and (plan.estimate is None or plan.estimate.fits)), None
    )


def _facts_by_format(match: "CatalogueMatch", formats: Iterable[str]) -> dict[str, ModelFacts]:
    return dict(_list_facts(match, formats))


def _list_facts(match: "CatalogueMatch", formats: Iterable[str]) -> Iterator[tuple[str, ModelFacts]]:
    from app.hub.repositories.catalogue_facts import (  # noqa: PLC0415 -- the gateway starts without shapes
        catalogue_facts,
        with_head,
    )

    for kind in formats:
        try:
            facts = catalogue_facts(match.entry, USUAL_QUANTIZATIONS[kind], format=kind)
        except RoundhouseError:  # none in this quantisation: the order of the list decides
            continue
        if facts is not None:
            yield kind, with_head(match.entry, facts)
