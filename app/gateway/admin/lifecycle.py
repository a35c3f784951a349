"""The memory that models share, giving it all back for a while, and what is set for single models."""

import asyncio

import msgspec

from app.core.events import SettingChanged
from app.core.memory import MemoryState, Pause
from app.core.models import ModelChoices, ModelSettings, SetModel
from app.gateway.admin.calls import Call, Endpoint, NoQuery
from app.gateway.library.model_choices import checked, choices
from app.gateway.loading.launch import find_model, policy_from
from app.gateway.loading.model_tuning import noted


async def memory(call: Call[None, NoQuery]) -> MemoryState:
    """GET /memory."""
    found = await call.services.supervisor.memory()
    machine = call.services.machine.last
    names = {pool.id: pool.name or pool.id for pool in machine.pools} if machine is not None else {}
    pools = [msgspec.structs.replace(pool, name=names.get(pool.id, pool.name)) for pool in found.pools]
    return msgspec.structs.replace(found, pools=pools)


async def paused(call: Call[None, NoQuery]) -> Pause:
    """GET /pause."""
    return call.services.supervisor.pausing.state()


async def pause(call: Call[None, NoQuery]) -> Pause:
    """POST /pause. Answers that had begun are not waited for: the reply names the models that write them."""
    call.services.supervisor.pausing.pause()
    return await paused(call)


async def resume(call: Call[None, NoQuery]) -> None:
    """DELETE /pause."""
    call.services.supervisor.pausing.resume()


async def all_settings(call: Call[None, NoQuery]) -> dict[str, ModelSettings]:
    """GET /model-settings."""
    return call.services.tuning.all()


async def one(call: Call[None, NoQuery]) -> ModelChoices:
    """GET /model-settings/{name}."""
    model = await find_model(call.services, call.names["name"])
    return await asyncio.to_thread(choices, call.services, model)


async def change(call: Call[SetModel, NoQuery]) -> ModelSettings:
    """POST /model-settings: all of one model's at once. A pin and a time count at once, the rest with the next load."""
    services, wanted = call.services, call.body
    model = await find_model(services, wanted.model)
    name = model.runs_as
    await asyncio.to_thread(checked, services, model, wanted.settings)
    services.tuning.change(name, noted(model, wanted.settings))
    services.supervisor.policy = policy_from(services.settings, services.tuning)
    services.events.publish(SettingChanged(name=f"model.{name}"))
    return services.tuning.of(name)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/memory",
        handler=memory,
        summary="Say how much memory there is for models, who holds it and who waits for it",
        reply=MemoryState,
    ),
    Endpoint(
        method="GET",
        path="/pause",
        handler=paused,
        summary="Say whether models are kept out of memory",
        reply=Pause,
    ),
    Endpoint(
        method="POST",
        path="/pause",
        handler=pause,
        summary="Give all memory back once answers are done, and load nothing until told to go on",
        reply=Pause,
    ),
    Endpoint(
        method="DELETE",
        path="/pause",
        handler=resume,
        summary="Go on, and load again what was loaded",
        status=204,
    ),
    Endpoint(
        method="GET",
        path="/model-settings",
        handler=all_settings,
        summary="List what is set for single models, by name",
        reply=dict[str, ModelSettings],
    ),
    Endpoint(
        method="GET",
        path="/model-settings/{name}",
        handler=one,
        summary="Say what is set for one model, what it recommends itself, and what there is to choose from",
        reply=ModelChoices,
    ),
    Endpoint(
        method="POST",
        path="/model-settings",
        handler=change,
        summary="Set everything for one model: how it runs, is read and sampled, what goes with it, pin and time",
        body=SetModel,
        reply=ModelSettings,
    ),
)
