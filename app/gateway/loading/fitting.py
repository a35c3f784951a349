"""Before a load: what it will take of each memory, and how much context there is room for where nobody asked for any.

First fewer conversations at once, then less context each. There is room for what is free and what other models give
back when they go: all but the pinned ones. A model that fits with nothing left to give is asked for all the same: it
is for the scheduler to say that there is no room.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from app.advisor.choosing.engine_table import ENGINES
from app.advisor.memory import estimate as memory
from app.advisor.memory import placement
from app.advisor.memory.setting import Components, Setting
from app.core.errors import RoundhouseError
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.gateway.loading.gauge import with_capacity
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest, Needs
from app.supervisor.scheduling import SYSTEM
from engines.api import LaunchOptions

_AMPLE = 2
"""What takes less than one part in so many of the free memory needs no closer look, nor a look at the GPUs."""
_BESIDE_FILE = 1.25
"""Of an engine we know nothing of: its weights as large as the file, and a quarter more for what goes with them."""
LEAST_CONTEXT = 2048
"""With less than this a chat forgets its own beginning; it is better told that the model does not fit."""


class _Known(NamedTuple):
    """A load that can be computed."""

    request: LoadRequest
    facts: ModelFacts
    setting: Setting
    found: Components

    def with_setting(self, setting: Setting) -> "_Known":
        """Return it with another setting, and what that takes."""
        return self._replace(setting=setting, found=memory.components(self.facts, setting))


async def fitted(services: Services, request: LoadRequest) -> LoadRequest:
    """Return the request with slots and context that can be had on this machine now, and with what that takes."""
    known = await _known(services, request)
    if known is None:
        return await _by_size(services, request)
    if _is_ample(known):
        return _with_needs(known, None)
    return await asyncio.to_thread(_within, known, await _with_all_there_is(services, request.source.name))


async def measured(services: Services, request: LoadRequest) -> LoadRequest:
    """Return the request as it is, with what it takes."""
    known = await _known(services, request)
    if known is None:
        return await _by_size(services, request)
    machine = None if known.setting.backend == "cpu" else await services.machine.read()
    return await asyncio.to_thread(_with_needs, known, machine)


async def _with_all_there_is(services: Services, model: str) -> Machine:
    """Return the machine with what a model could have of each pool; probed anew only for what nobody else reads."""
    machine = await services.machine.read()
    capacity = await services.supervisor.capacity(model)
    if any(pool.id not in capacity for pool in machine.pools):
        machine = await services.machine.read_free()
    return with_capacity(machine, capacity)


async def _known(services: Services, request: LoadRequest) -> _Known | None:
    if request.engine not in ENGINES:  # one of the user's own
        return None
    try:
        facts = await services.facts.of_file(request.source.path)
    except RoundhouseError:  # the engine says what is wrong with the file
        return None
    setting = _setting(request, await asyncio.to_thread(_backend, services, request.engine))
    setting = await _with_companions(services, setting, request.options)
    if services.machine.last is not None:  # its processor decides what is copied into another layout
        setting = placement.adapted(setting, services.machine.last)
    return _Known(request, facts, setting, await asyncio.to_thread(memory.components, facts, setting))


async def _with_companions(services: Services, setting: Setting, options: LaunchOptions) -> Setting:
    """Return the setting with what goes with the model in memory; what cannot be read is the engine's to refuse."""
    draft = options.draft.path if options.draft is not None else None
    found = {
        name: await _facts_of(services, path) for name, path in (("draft", draft), ("projector", options.projector))
    }
    return msgspec.structs.replace(setting, **found)


async def _facts_of(services: Services, path: Path | None) -> ModelFacts | None:
    if path is None:
        return None
    try:
        return await services.facts.of_file(path)
    except RoundhouseError:
        return None


def _is_ample(known: _Known) -> bool:
    is_cpu = known.setting.backend == "cpu"
    return is_cpu and known.found.total.bytes * _AMPLE < psutil.virtual_memory().available


def _within(known: _Known, machine: Machine) -> LoadRequest:
    wanted, facts = known.setting, known.facts
    for slots in dict.fromkeys((wanted.slots, 1)):
        tried = memory.estimate(facts, machine, msgspec.structs.replace(wanted, slots=slots))
        if tried.fits:
            return _with(known, machine, context=wanted.context, slots=slots)
    most = max(tried.largest_context, LEAST_CONTEXT)
    return _with(known, machine, context=min(wanted.context, most), slots=1)


def _with(known: _Known, machine: Machine, *, context: int, slots: int) -> LoadRequest:
    setting = msgspec.structs.replace(known.setting, context=context, slots=slots)
    found = known if setting == known.setting else known.with_setting(setting)
    options = msgspec.structs.replace(known.request.options, context=context, slots=slots)
    return msgspec.structs.replace(_with_needs(found, machine), options=options)


def _with_needs(known: _Known, machine: Machine | None) -> LoadRequest:
    if known.setting.backend == "cpu" or machine is None:
        pools = {SYSTEM: sum(part.bytes - part.reclaimable for part in known.found.parts)}
    else:
        pools = memory.taken(known.facts, machine, known.setting)
    # Without the processor's extensions the copies are not known which the engine will report besides the file.
    buffers = memory.reported(known.found) if known.setting.isa else 0
    needs = Needs(pools=pools, buffers=buffers)
    return msgspec.structs.replace(known.request, needs=needs)


async def _by_size(services: Services, request: LoadRequest) -> LoadRequest:
    """Return the request with what its files suggest, where it runs on the processor; else nobody can say."""
    size = await asyncio.to_thread(_size, request.source.path)
    if not size or await asyncio.to_thread(_backend, services, request.engine) != "cpu":
        return request
    return msgspec.structs.replace(request, needs=Needs(pools={SYSTEM: int(size * _BESIDE_FILE)}))


def _size(path: Path) -> int:
    try:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _backend(services: Services, engine: str) -> str:
    return services.catalogue.backend_of(engine) or "cpu"


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
