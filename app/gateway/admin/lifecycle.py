"""The memory that models share, giving it all back for a while, and what is set for single models."""

import asyncio

import msgspec

from app.core.events import SettingChanged
from app.core.memory import MemoryState, Pause
from app.core.models import ModelChoices, ModelSettings, SetModel
from app.gateway.admin.calls import Call, NoQuery, Routes
from app.gateway.library.model_choices import checked, choices
from app.gateway.loading.launch import find_model, policy_from
from app.gateway.loading.model_tuning import noted

routes = Routes()


@routes.add("GET", "/memory")
async def memory(call: Call[None, NoQuery]) -> MemoryState:
    """Say how much memory there is for models, who holds it and who waits for it."""
    found = await call.services.supervisor.memory()
    machine = call.services.machine.last
    names = {pool.id: pool.name or pool.id for pool in machine.pools} if machine is not None else {}
    pools = [msgspec.structs.replace(pool, name=names.get(pool.id, pool.name)) for pool in found.pools]
    return msgspec.structs.replace(found, pools=pools)


@routes.add("GET", "/pause")
async def paused(call: Call[None, NoQuery]) -> Pause:
    """Say whether models are kept out of memory."""
    return call.services.supervisor.pausing.state()


@routes.add("POST", "/pause")
async def pause(call: Call[None, NoQuery]) -> Pause:
    """Give all memory back once answers are done, and load nothing until told to go on.

    Answers that had begun are not waited for: the reply names the models that write them.
    """
    call.services.supervisor.pausing.pause()
    return await paused(call)


@routes.add("DELETE", "/pause")
async def resume(call: Call[None, NoQuery]) -> None:
    """Go on, and load again what was loaded."""
    call.services.supervisor.pausing.resume()


@routes.add("GET", "/model-settings")
async def all_settings(call: Call[None, NoQuery]) -> dict[str, ModelSettings]:
    """List what is set for single models, by name."""
    return call.services.tuning.all()


@routes.add("GET", "/model-settings/{name}")
async def one(call: Call[None, NoQuery]) -> ModelChoices:
    """Say what is set for one model, what it recommends itself, and what there is to choose from."""
    model = await find_model(call.services, call.names["name"])
    return await asyncio.to_thread(choices, call.services, model)


@routes.add("POST", "/model-settings")
async def change(call: Call[SetModel, NoQuery]) -> ModelSettings:
    """Set everything for one model: how it runs, is read and sampled, what goes with it, pin and time.

    All of one model's at once. A pin and a time count at once, the rest with the next load.
    """
    services, wanted = call.services, call.body
    model = await find_model(services, wanted.model)
    name = model.runs_as
    await asyncio.to_thread(checked, services, model, wanted.settings)
    services.tuning.change(name, noted(model, wanted.settings))
    services.supervisor.policy = policy_from(services.settings, services.tuning)
    services.events.publish(SettingChanged(name=f"model.{name}"))
    return services.tuning.of(name)
