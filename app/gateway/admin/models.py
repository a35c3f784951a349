"""The models on this machine and at attached endpoints, and what is set for single ones."""

import asyncio
import contextlib
from pathlib import Path

from app.core.errors import RoundhouseError
from app.core.events import ModelsChanged, SettingChanged
from app.core.models import (
    AttachEndpoint,
    Autocomplete,
    ChooseAutocomplete,
    CorrectAttached,
    MakeModel,
    ModelChoices,
    ModelInfo,
    ModelSettings,
    RegisterModel,
    SetModel,
)
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.library import attached_endpoints
from app.gateway.library.model_choices import check_settings, list_choices
from app.gateway.loading.autocomplete import check_completion_model, read_autocomplete
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import find_model, load_request, renew_policy
from app.gateway.loading.model_tuning import settings_to_keep
from app.gateway.loading.requested_model import AUTOCOMPLETE
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest

routes = RouteTable()


@routes.add("GET", "/models")
async def list_models(call: AdminCall[None, NoQuery]) -> list[ModelInfo]:
    """List the models on this computer."""
    return await with_capabilities(call.services, await asyncio.to_thread(call.services.library.list_models))


@routes.add("POST", "/models")
async def register(call: AdminCall[RegisterModel, NoQuery]) -> ModelInfo:
    """List a model file where it lies."""
    model = await asyncio.to_thread(call.services.library.register_path, Path(call.body.path))
    call.services.events.publish(ModelsChanged())
    return (await with_capabilities(call.services, [model]))[0]


@routes.add("DELETE", "/models/{name}")
async def forget(call: AdminCall[None, NoQuery]) -> None:
    """Forget a registered file and leave it on disk."""
    model = await asyncio.to_thread(call.services.library.find_model, call.names["name"])
    await asyncio.to_thread(call.services.library.forget_model, model.name)
    if model.attached:
        await call.services.supervisor.expire_model(model.name)  # an endpoint that is let go is looked at no more
    call.services.events.publish(ModelsChanged())


@routes.add("GET", "/model-settings")
async def all_settings(call: AdminCall[None, NoQuery]) -> dict[str, ModelSettings]:
    """List what is set for single models, by name."""
    return call.services.model_settings.all_settings()


@routes.add("GET", "/model-settings/{name}")
async def settings_of(call: AdminCall[None, NoQuery]) -> ModelChoices:
    """Say what is set for one model, what it recommends itself, and what there is to choose from."""
    model = await find_model(call.services, call.names["name"])
    return await asyncio.to_thread(list_choices, call.services, model)


@routes.add("POST", "/model-settings")
async def set_model(call: AdminCall[SetModel, NoQuery]) -> ModelSettings:
    """Set everything for one model: how it runs, is read and sampled, what goes with it, pin and time.

    A pin and a time count at once, the rest with the next load.
    """
    services, body = call.services, call.body
    model = await find_model(services, body.model)
    name = model.runs_as
    await asyncio.to_thread(check_settings, services, model, body.settings)
    services.model_settings.change_settings(name, settings_to_keep(model, body.settings))
    renew_policy(services)
    services.events.publish(SettingChanged(name=f"model.{name}"))
    return services.model_settings.own_settings(name)


@routes.add("GET", "/autocomplete")
async def autocomplete(call: AdminCall[None, NoQuery]) -> Autocomplete:
    """Say which model completes code in editors, and whether it has room beside the one for chats."""
    return await read_autocomplete(call.services)


@routes.add("POST", "/autocomplete")
async def choose_autocomplete(call: AdminCall[ChooseAutocomplete, NoQuery]) -> Autocomplete:
    """Choose the model that completes code in editors, or none.

    It is loaded at once, and the load goes on when the client leaves.
    """
    services, name = call.services, ""
    if call.body.model:
        name = (await check_completion_model(services, call.body.model)).runs_as
    services.settings.change_values({AUTOCOMPLETE: name})
    renew_policy(services)
    services.events.publish(SettingChanged(name=AUTOCOMPLETE))
    state = await read_autocomplete(services)
    if name and state.fits is not False and not state.is_loaded and not state.problem:
        request = await load_request(services, name)
        call.background.spawn(_load_quietly(services, request))
    return state


async def _load_quietly(services: Services, request: LoadRequest) -> None:
    """Load a model; if it fails, its status and the log say so."""
    with contextlib.suppress(RoundhouseError):
        await services.supervisor.ensure_ready(request)


@routes.add("POST", "/made")
async def make(call: AdminCall[MakeModel, NoQuery]) -> ModelInfo:
    """Give a model's weights a further name, with settings of its own."""
    library, body = call.services.library, call.body
    base = await asyncio.to_thread(library.find_model, body.base)
    model = await asyncio.to_thread(library.make_model, body.name, Path(base.path), body.preset)
    await call.services.supervisor.expire_model(model.name)  # one that runs under this name has the settings of before
    call.services.events.publish(ModelsChanged())
    return (await with_capabilities(call.services, [model]))[0]


@routes.add("GET", "/attached")
async def list_attached(call: AdminCall[None, NoQuery]) -> list[ModelInfo]:
    """List the models of attached endpoints."""
    return await attached_endpoints.list_attached(call.services.library)


@routes.add("POST", "/attached")
async def attach(call: AdminCall[AttachEndpoint, NoQuery]) -> list[ModelInfo]:
    """Put the models of an endpoint that runs elsewhere behind this one."""
    return await attached_endpoints.attach(call.services, call.body)


@routes.add("PATCH", "/attached/{name}")
async def correct(call: AdminCall[CorrectAttached, NoQuery]) -> ModelInfo:
    """Say what an attached model can do and how much it takes, and ask its endpoint anew for the rest."""
    return await attached_endpoints.correct(call.services.library, call.services.events, call.names["name"], call.body)


@routes.add("DELETE", "/attached/{name}")
async def detach(call: AdminCall[None, NoQuery]) -> None:
    """Take an attached model off the list and forget its key."""
    await attached_endpoints.detach(
        call.services.supervisor, call.services.library, call.services.events, call.names["name"]
    )
