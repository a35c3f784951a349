"""Models in memory: loaded, given back for a while, and what their engines write; the memory that they share."""

import asyncio
from typing import Annotated

import msgspec

from app.config.table import BY_NAME
from app.core.across import AcrossRequest
from app.core.engines import EngineState, EngineStatus, MemoryState, Pause
from app.core.errors import BadRequest
from app.core.events import LogLine
from app.core.models import MAX_SLOTS, LoadModel, LoadOptions, UnloadModel
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.loading.launch import find_model, load_request

routes = RouteTable()

_MAX_TAIL = 5000
_KV_TYPES = ("f16", "q8_0", "q4_0")
_HIGHEST = 2**31 - 1  # engines keep these in a C int
_BOUNDS: dict[str, tuple[float, float]] = {
    "context": (1, int(BY_NAME["models.context"].maximum or _HIGHEST)),
    "slots": (1, MAX_SLOTS),
    "threads": (1, 512),  # ggml, which llama.cpp computes with, runs no more
    "gpu_layers": (0, _HIGHEST),  # more than there are means all
    "gpu_memory_fraction": (0.05, 1.0),
}


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`model` says whose engine, without it every engine's; `tail` how many of the last lines."""

    model: str = ""
    tail: Annotated[int, msgspec.Meta(ge=0, le=_MAX_TAIL)] = 200


@routes.add("GET", "/memory")
async def memory(call: AdminCall[None, NoQuery]) -> MemoryState:
    """Say how much memory there is for models, who holds it and who waits for it."""
    state = await call.services.supervisor.read_memory()
    machine = call.services.machine.last
    names = {pool.id: pool.name or pool.id for pool in machine.pools} if machine is not None else {}
    pools = [msgspec.structs.replace(pool, name=names.get(pool.id, pool.name)) for pool in state.pools]
    return msgspec.structs.replace(state, pools=pools)


@routes.add("GET", "/pause")
async def paused(call: AdminCall[None, NoQuery]) -> Pause:
    """Say whether models are kept out of memory."""
    return call.services.supervisor.pausing.pause_state()


@routes.add("POST", "/pause")
async def pause(call: AdminCall[None, NoQuery]) -> Pause:
    """Give all memory back once answers are done, and load nothing until told to go on.

    Answers that had begun are not waited for: the reply names the models that write them.
    """
    call.services.supervisor.pausing.pause_all()
    return await paused(call)


@routes.add("DELETE", "/pause")
async def resume(call: AdminCall[None, NoQuery]) -> None:
    """Go on, and load again what was loaded."""
    call.services.supervisor.pausing.resume_all()


@routes.add("GET", "/running")
async def running(call: AdminCall[None, NoQuery]) -> list[EngineStatus]:
    """List the engine processes."""
    return call.services.supervisor.list_statuses()


@routes.add("POST", "/load")
async def load(call: AdminCall[LoadModel, NoQuery]) -> EngineStatus:
    """Make a model ready.

    The load goes on when the client leaves.
    """
    body = call.body
    options = _check_options(body.options)
    if options.across is not None:
        from app.gateway.across.spreading import arrange_across  # noqa: PLC0415 -- start-up must not pay for the advisor

        name = (await find_model(call.services, body.model)).runs_as
        across = AcrossRequest(model=body.model, across=list(options.across), context=options.context)
        await arrange_across(call.services, name, across)
        options = msgspec.structs.replace(options, across=None)
    request = await load_request(call.services, body.model, options)
    any_options = body.options == LoadOptions()
    load_task = call.background.spawn(call.services.supervisor.ensure_ready(request, any_options=any_options))
    if body.wait:
        return await asyncio.shield(load_task)
    await asyncio.sleep(0)  # lets the load begin, so that the status is the new one
    return _find_status(call, request.source.name) or EngineStatus(
        model=request.source.name, engine=request.engine, state=EngineState.STARTING
    )


@routes.add("POST", "/unload")
async def unload(call: AdminCall[UnloadModel, NoQuery]) -> EngineStatus:
    """Stop a model's engine."""
    name = await _real_name(call, call.body.model)
    return await call.services.supervisor.unload_model(name, force=call.body.force)


@routes.add("GET", "/logs")
async def logs(call: AdminCall[None, LogQuery]) -> list[LogLine]:
    """Show the last lines an engine wrote."""
    name = await _real_name(call, call.query.model) if call.query.model else ""
    return call.services.supervisor.read_log(name, tail=call.query.tail)


async def _real_name(call: AdminCall[object, object], model: str) -> str:
    """Return what the supervisor calls a model. Raises NotFound."""
    if _find_status(call, model) is not None:
        return model
    return (await asyncio.to_thread(call.services.library.find_model, model)).runs_as


def _find_status(call: AdminCall[object, object], model: str) -> EngineStatus | None:
    return next((status for status in call.services.supervisor.list_statuses() if status.model == model), None)


def _check_options(options: LoadOptions) -> LoadOptions:
    """Return the options if an engine can be given them. Raises BadRequest that names the field."""
    for name, (lowest, highest) in _BOUNDS.items():
        value = getattr(options, name)
        if value is not None and not lowest <= value <= highest:
            raise BadRequest(f"`options.{name}` must be from {lowest} to {highest}, not {value}.", code="invalid_value")
    if options.kv_type is not None and options.kv_type not in _KV_TYPES:
        raise BadRequest(f"`options.kv_type` must be one of {', '.join(_KV_TYPES)}.", code="invalid_value")
    return options
