"""Before a load: how much context the machine really has room for, where nobody asked for a certain one.

First fewer conversations at once, then less context each. A model that fits with nothing left to give is loaded all
the same: its engine has the last word, and says what it lacks.
"""

import asyncio

import msgspec
import psutil

from app.advisor import memory
from app.advisor.engine_table import ENGINES
from app.advisor.memory_setting import Setting
from app.core.errors import RoundhouseError
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest

_AMPLE = 2
"""What takes less than one part in so many of the free memory needs no closer look, nor a look at the GPUs."""
LEAST_CONTEXT = 2048
"""With less than this a chat forgets its own beginning; it is better told that the model does not fit."""


async def fitted(services: Services, request: LoadRequest, *, reclaimed_bytes: int = 0) -> LoadRequest:
    """Return the request with slots and context that fit on this machine now; unchanged where nothing is known.

    `reclaimed_bytes` are in use by what it would take the place of.
    """
    if request.engine not in ENGINES:  # one of the user's own
        return request
    try:
        facts = await services.facts.of_file(request.source.path)
    except RoundhouseError:  # the engine says what is wrong with the file
        return request
    wanted = _setting(request, await asyncio.to_thread(_backend, services, request.engine))
    needed = await asyncio.to_thread(memory.components, facts, wanted)
    if needed.total.bytes * _AMPLE < psutil.virtual_memory().available + reclaimed_bytes:
        return request
    machine = _with_more_free(await services.machine.read_free(), wanted.backend, reclaimed_bytes)
    return await asyncio.to_thread(_within, request, wanted, facts, machine)


def _within(request: LoadRequest, wanted: Setting, facts: ModelFacts, machine: Machine) -> LoadRequest:
    for slots in dict.fromkeys((wanted.slots, 1)):
        tried = memory.estimate(facts, machine, msgspec.structs.replace(wanted, slots=slots))
        if tried.fits:
            return _with(request, context=wanted.context, slots=slots)
    if tried.largest_context >= LEAST_CONTEXT:
        return _with(request, context=min(wanted.context, tried.largest_context), slots=1)
    return _with(request, context=min(wanted.context, LEAST_CONTEXT), slots=1)


def _with_more_free(machine: Machine, backend: str, more_bytes: int) -> Machine:
    """Return the machine as it is once an engine has left. What was spread over several GPUs is not counted on."""
    at = 0 if backend == "cpu" else len(machine.pools) - 1
    if not more_bytes or at not in {0, 1} or (free := machine.pools[at].free.value) is None:
        return machine
    pools = list(machine.pools)
    pools[at] = msgspec.structs.replace(
        pools[at], free=msgspec.structs.replace(pools[at].free, value=free + more_bytes)
    )
    return msgspec.structs.replace(machine, pools=pools)


def _with(request: LoadRequest, *, context: int, slots: int) -> LoadRequest:
    options = msgspec.structs.replace(request.options, context=context, slots=slots)
    return msgspec.structs.replace(request, options=options)


def _backend(services: Services, engine: str) -> str:
    return next((found.backend for found in services.catalogue.list() if found.id == engine), "") or "cpu"


def _setting(request: LoadRequest, backend: str) -> Setting:
    options = request.options
    return Setting(
        engine=request.engine,
        backend=backend,
        context=options.context or LEAST_CONTEXT,
        slots=options.slots,
        kv_type=options.kv_type or "f16",
        gpu_layers=options.gpu_layers,
        task=options.task,
    )
