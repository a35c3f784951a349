"""Which model a request for sound or pictures means.

What a model can do there depends on its projector and its engine, so it is looked for in the list as it is shown, and
not by its files alone. An endpoint that does not say whether it transcribes is asked before nothing is found.
"""

import asyncio
from collections.abc import Sequence

from app.core.errors import NotFound, RoundhouseError
from app.core.models import ModelInfo
from app.gateway.library.endpoint_routes import with_probes
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import aliases_of, read_models, resolve_model
from app.gateway.loading.requested_model import (
    AUTO,
    ResolvedModel,
    find_stand_in,
    is_able,
    is_auto,
    model_in_use,
    models_of_profile,
    none_able_error,
)
from app.gateway.services import Services
from app.hub.library.library import Library
from engines.api import Route

_MOST_PROBES = 8
"""Attached models that are asked at once, the newest: a hub may have hundreds."""


async def resolve_able_model(services: Services, name: str | None, route: Route) -> ResolvedModel:
    """Return the model of that name, or without one the one in use that can, with what it can do here.

    Raises as `resolve_model` does, or BadRequest (no_model_able).
    """
    aliases = aliases_of(services.settings, services.profiles.effective_profile())
    if not name or await asyncio.to_thread(_means_auto, services.library, aliases, name):
        name = (await _find_able_model(services, route)).name
    target = await resolve_model(services, name, route=route)
    target = await with_probes(services.library, services.shared_work, services.events, target, route)
    (model,) = await with_capabilities(services, [target.model])
    return target._replace(model=model)


async def find_lack(services: Services, route: Route) -> str:
    """Return why no model can be asked on a route, with what to do; nothing where one can."""
    try:
        await resolve_able_model(services, None, route)
    except RoundhouseError as error:
        return f"{error} {error.hint}".strip()
    return ""


def _means_auto(library: Library, aliases: Sequence[str], name: str) -> bool:
    if is_auto(name):
        return True
    try:
        library.find_model(name)
    except NotFound:
        return find_stand_in(name, aliases) == AUTO
    return False


async def _find_able_model(services: Services, route: Route) -> ModelInfo:
    statuses = services.supervisor.list_statuses()
    models = await with_capabilities(services, await read_models(services))
    of_profile = models_of_profile(models, services.profiles.effective_profile())
    model = model_in_use(of_profile, statuses, "", route) or model_in_use(models, statuses, "", route)
    if model is None:
        attached_models = sorted((model for model in models if model.attached), key=lambda model: -model.modified_at)
        probes = (_has_route(services, model, route) for model in attached_models[:_MOST_PROBES])
        probed_models = zip(attached_models, await asyncio.gather(*probes), strict=False)
        model = next((model for model, has_route in probed_models if has_route), None)
    if model is None:
        raise none_able_error(route)
    return model


async def _has_route(services: Services, model: ModelInfo, route: Route) -> bool:
    """Tell whether an endpoint turns out to have a route for a model; one that must not be called has not."""
    try:
        target = await resolve_model(services, model.name, route=route)
    except RoundhouseError:
        return False
    target = await with_probes(services.library, services.shared_work, services.events, target, route)
    return is_able(target.model, route)
