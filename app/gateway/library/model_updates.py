"""Ask the hub whether it has newer files of the models that came from it: each repository once, a few at a time."""

import asyncio
from collections import defaultdict
from pathlib import Path

from msgspec.structs import replace

from app.config.environment import hub_endpoint
from app.core.connections import Why
from app.core.errors import NotFound, Offline, RoundhouseError
from app.core.library import Freshness, ModelUpdate
from app.core.models import ModelInfo
from app.core.origins import Origin, origin_of
from app.gateway.services import Services
from app.hub.repositories import updates
from app.hub.repositories.repository import read_repository

_AT_ONCE = 4
_Model = tuple[ModelInfo, Origin]


async def check(services: Services) -> list[ModelUpdate]:
    """Return how each model from a hub compares, by name. A repository that cannot be asked about says why.

    Raises Conflict (offline).
    """
    models = await asyncio.to_thread(services.library.models)
    known = await asyncio.to_thread(_by_repository, models)
    token = await asyncio.to_thread(services.hub.token.read)
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(place: tuple[str, str], here: list[_Model]) -> list[ModelUpdate]:
        async with room:
            return await asyncio.to_thread(_compared, place, here, token)

    found = await asyncio.gather(*(one(place, here) for place, here in known.items()))
    return sorted((update for part in found for update in part), key=lambda update: update.model.casefold())


def _by_repository(models: list[ModelInfo]) -> dict[tuple[str, str], list[_Model]]:
    """Return the models by the repository and the branch they are from."""
    found: dict[tuple[str, str], list[_Model]] = defaultdict(list)
    for model in models:
        origin = origin_of(Path(model.path))
        if origin is not None and model.preset is None and not model.store:
            found[origin.repository, updates.asked(model, origin).revision].append((model, origin))
    return found


def _compared(place: tuple[str, str], here: list[_Model], token: str) -> list[ModelUpdate]:
    repository, revision = place
    try:
        there = read_repository(hub_endpoint(), repository, revision=revision, token=token, why=Why.MODEL_UPDATES)
        return [updates.compared(model, origin, there) for model, origin in here]
    except Offline:
        raise
    except NotFound as error:
        return [_unknown(one, str(error), Freshness.GONE) for one in here]
    except (RoundhouseError, OSError) as error:
        return [_unknown(one, str(error), Freshness.UNKNOWN) for one in here]


def _unknown(one: _Model, note: str, state: Freshness) -> ModelUpdate:
    return replace(updates.asked(*one, note), state=state)
