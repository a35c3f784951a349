"""Finding models: what a hub has, one card per model with what it would take here, and what the catalogue advises.

A hub is asked at most once in a while for the same page; what it said is kept, and is all there is while it cannot be
reached. What a card takes is computed anew each time: memory is not free for ever. Whether it has newer files of the
models that came from it is asked each repository once, a few at a time.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
from aiohttp import web
from msgspec.structs import replace

from app.config.environment import hub_endpoint
from app.config.paths import Paths
from app.config.store import SettingsStore
from app.core.connections import ConnectionReason
from app.core.errors import NotFound, Offline, RoundhouseError, Unavailable
from app.core.hub import HubCard, HubQuery, HubResults, HubSearchHit, Origin, origin_of
from app.core.library import Freshness, ModelUpdate
from app.core.models import ModelInfo
from app.gateway.background import Background
from app.gateway.hub.model_pull import older_answer
from app.gateway.hub.repositories import FitContext, fit_context
from app.gateway.services import SERVICES, Services
from app.hub.download.cache import RepositoryCache
from app.hub.library.library import Library
from app.hub.repositories import variants
from app.hub.repositories.answers import HubAnswer, HubMemory
from app.hub.repositories.catalogue import CatalogueContent
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.repository import read_repository
from app.hub.repositories.search import SearchPage, group_cards, search_hub

log = logging.getLogger(__name__)

_REPOSITORIES_AT_ONCE = 4
_Model = tuple[ModelInfo, Origin]


async def find(services: Services, query: HubQuery) -> HubResults:
    """Return one page of what fits. Raises what the hub's refusals mean, Conflict (offline) where nothing is known."""
    answer, note = await asyncio.to_thread(_listing_with_note, services.hub, query)
    ground = await fit_context(services)
    content = await asyncio.to_thread(services.hub.catalogue.read_content, key_of(services.settings))
    entries = {entry.base: entry for entry in content.models}
    cards_found = await asyncio.to_thread(_judge_cards, services.paths, answer.value, ground, entries)
    return HubResults(cards=cards_found, as_of=answer.at, next=answer.value.next, note=note)


async def refresh(settings: SettingsStore, hub: HubMemory) -> CatalogueContent:
    """Fetch the catalogue anew. Raises what `ModelCatalogue.fetch_newest` does, Conflict (offline)."""
    return await asyncio.to_thread(hub.catalogue.fetch_newest, settings.get_text("catalogue.url"), key_of(settings))


def key_of(settings: SettingsStore) -> str:
    """Return the key that a fetched catalogue must be signed with; empty for none."""
    return settings.get_text("catalogue.key")


def _listing_with_note(hub: HubMemory, query: HubQuery) -> tuple[HubAnswer[SearchPage], str]:
    endpoint, searches = hub_endpoint(), hub.searches
    question = f"{endpoint} {msgspec.json.encode(query).decode()}"
    cached_answer = searches.find_answer(question)
    if cached_answer is not None and cached_answer.is_fresh:
        return cached_answer, ""
    try:
        return searches.keep_answer(question, search_hub(endpoint, query, token=hub.token.read_token())), ""
    except (Unavailable, Offline) as error:
        return older_answer(cached_answer, error)


def _judge_cards(
    paths: Paths, listing: SearchPage, ground: FitContext, entries: Mapping[str, CatalogueEntry]
) -> list[HubCard]:
    from app.gateway.hub.card_fits import with_fit  # noqa: PLC0415 -- the gateway starts without the advisor

    def with_what_is_here(card: HubCard) -> HubCard:
        repositories = [_mark_local(repository, paths) for repository in card.repositories]
        return msgspec.structs.replace(card, repositories=repositories)

    return [with_what_is_here(with_fit(card, ground, entries.get(card.base))) for card in group_cards(listing.listed)]


def _mark_local(repository: HubSearchHit, paths: Paths) -> HubSearchHit:
    is_here = RepositoryCache(paths.hub_cache, repository.repository).is_there
    return msgspec.structs.replace(repository, is_here=is_here) if is_here else repository


def add_catalogue(app: web.Application) -> None:
    """Have the application look for a newer catalogue once it answers."""
    app.cleanup_ctx.append(_refresh_at_start)


async def _refresh_at_start(app: web.Application) -> AsyncIterator[None]:
    background = Background()
    background.spawn(_refresh_quietly(app[SERVICES].settings, app[SERVICES].hub))
    yield
    await background.join(cancel=True)


async def _refresh_quietly(settings: SettingsStore, hub: HubMemory) -> None:
    """Fetch the catalogue if an address is set; what goes wrong is only logged: the one that is here stays."""
    if not settings.get_text("catalogue.url"):
        return
    try:
        await refresh(settings, hub)
    except RoundhouseError as error:
        log.warning("The catalogue was not refreshed: %s", error)


async def updates_of_models(library: Library, hub: HubMemory) -> list[ModelUpdate]:
    """Return how each model from a hub compares, by name. A repository that cannot be asked about says why.

    Raises Conflict (offline).
    """
    models = await asyncio.to_thread(library.list_models)
    models_by_repository = await asyncio.to_thread(_by_repository, models)
    token = await asyncio.to_thread(hub.token.read_token)
    room = asyncio.Semaphore(_REPOSITORIES_AT_ONCE)

    async def compare_one(place: tuple[str, str], here: list[_Model]) -> list[ModelUpdate]:
        async with room:
            return await asyncio.to_thread(_compare_models, place, here, token)

    parts = await asyncio.gather(*(compare_one(place, here) for place, here in models_by_repository.items()))
    return sorted((update for part in parts for update in part), key=lambda update: update.model.casefold())


def _by_repository(models: list[ModelInfo]) -> dict[tuple[str, str], list[_Model]]:
    """Return the models by the repository and the branch they are from."""
    models_by_repository: dict[tuple[str, str], list[_Model]] = defaultdict(list)
    for model in models:
        origin = origin_of(Path(model.path))
        if origin is not None and model.preset is None and not model.store:
            models_by_repository[origin.repository, variants.initial_update(model, origin).revision].append(
                (model, origin)
            )
    return models_by_repository


def _compare_models(place: tuple[str, str], here: list[_Model], token: str) -> list[ModelUpdate]:
    repository, revision = place
    try:
        there = read_repository(
            hub_endpoint(), repository, revision=revision, token=token, why=ConnectionReason.MODEL_UPDATES
        )
        return [variants.compare_with_hub(model, origin, there) for model, origin in here]
    except Offline:
        raise
    except NotFound as error:
        return [_unknown(pair, str(error), Freshness.GONE) for pair in here]
    except (RoundhouseError, OSError) as error:
        return [_unknown(pair, str(error), Freshness.UNKNOWN) for pair in here]


def _unknown(pair: _Model, note: str, state: Freshness) -> ModelUpdate:
    return replace(variants.initial_update(*pair, note), state=state)
