"""The model that completes code in editors: which one it is, and whether it has room beside the one for chats.

One setting says which. The scheduler keeps that model after all others, requests for the middle of a text that name no
model mean it, and tools are wired to it.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from app.core.capabilities import Capability
from app.core.errors import BadRequest, NotFound, RoundhouseError
from app.core.hub import CatalogueQuery, HubUse
from app.core.models import Autocomplete, ModelInfo
from app.gateway.hub import catalogue_listing
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import find_model, is_ready, load_request
from app.gateway.loading.requested_model import AUTOCOMPLETE, chosen_for_completion, model_in_use
from app.gateway.services import Services

_UNSEEN = "It is not on this computer."


async def read_autocomplete(services: Services) -> Autocomplete:
    """Return how code completion stands."""
    models = await with_capabilities(services, await asyncio.to_thread(services.library.list_models))
    choices = [model for model in models if _completes(model)]
    state = Autocomplete(
        model=services.settings.get_text(AUTOCOMPLETE),
        choices=[model.name for model in sorted(choices, key=lambda model: model.size_bytes)],
    )
    chosen_model = chosen_for_completion(services.settings, models)
    beside = _chat_model(services, models, chosen_model)
    if beside is not None:
        state = msgspec.structs.replace(state, beside=beside.name)
    if chosen_model is None:
        return await _with_offer(services, msgspec.structs.replace(state, problem=_UNSEEN if state.model else ""))
    is_loaded = is_ready(services.supervisor, chosen_model.runs_as)
    return await _with_room(services, msgspec.structs.replace(state, is_loaded=is_loaded), chosen_model, beside)


async def check_completion_model(services: Services, name: str) -> ModelInfo:
    """Return the model of that name. Raises BadRequest for none, and for one that knows no marks of a gap."""
    try:
        (model,) = await with_capabilities(services, [await find_model(services, name)])
    except NotFound as error:
        raise BadRequest(error.body.sentence, hint=error.hint, code=error.code) from None
    if not _completes(model) and not model.attached:
        raise BadRequest(
            f"{model.title} does not complete code: its vocabulary has no marks for a gap.",
            hint="`roundhouse autocomplete` names models that do.",
            code="model_cannot",
        )
    return model


def _completes(model: ModelInfo) -> bool:
    return Capability.INFILL in model.capabilities and not model.problem


def _chat_model(services: Services, models: Sequence[ModelInfo], completion: ModelInfo | None) -> ModelInfo | None:
    settings = services.settings
    others = [model for model in models if completion is None or model.runs_as != completion.runs_as]
    chosen_name = settings.get_text("models.default") if settings.is_chosen("models.default") else ""
    named_model = next((model for model in others if chosen_name and model.name == chosen_name), None)
    return named_model or model_in_use(others, services.supervisor.list_statuses(), chosen_name)


async def _with_room(
    services: Services, state: Autocomplete, completion: ModelInfo, beside: ModelInfo | None
) -> Autocomplete:
    try:
        own = await _pools_of(services, completion)
        others = {} if beside is None else await _pools_of(services, beside)
    except RoundhouseError as error:
        return msgspec.structs.replace(state, problem=str(error))
    if own is None or others is None or not (own and others):
        return state
    room = await _room_for(services, completion)
    needed_bytes = {pool: own.get(pool, 0) + others.get(pool, 0) for pool in room if pool in own or pool in others}
    if not needed_bytes:
        return state
    tightest = min(needed_bytes, key=lambda pool: room[pool] - needed_bytes[pool])
    return msgspec.structs.replace(
        state,
        fits=needed_bytes[tightest] <= room[tightest],
        pool=tightest,
        needed=needed_bytes[tightest],
        room=max(0, room[tightest]),
    )


async def _pools_of(services: Services, model: ModelInfo) -> Mapping[str, int] | None:
    """Return what a model takes of each memory, nothing for one that runs elsewhere; None where nobody can say."""
    load = await load_request(services, model.name)
    if not load.takes_memory:
        return {}
    return None if load.needs is None else load.needs.pools


async def _room_for(services: Services, model: ModelInfo) -> dict[str, int]:
    """Return what models that are not pinned may take of each memory, as the scheduler counts it for two."""
    most = await services.supervisor.model_capacity(model.runs_as)
    return {pool: amount - services.supervisor.policy.head_room for pool, amount in most.items()}


async def _with_offer(services: Services, state: Autocomplete) -> Autocomplete:
    picks = await catalogue_listing.list_catalogue(services, CatalogueQuery(use=HubUse.AUTOCOMPLETE))
    best = next((pick for pick in picks if pick.is_best), None)
    if best is None:
        return state
    return msgspec.structs.replace(state, offer=best.pull, offer_bytes=best.card.download_bytes or 0)
