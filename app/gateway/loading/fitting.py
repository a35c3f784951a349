"""Before a load: what it will take of each memory, and how much context there is room for.

Where nobody asked for any context, first fewer conversations at once, then less context each. There is room for what is
free and what other models give back when they go: all but the pinned ones. A model that fits with nothing left to give
is asked for all the same: it is for the scheduler to say that there is no room.

A request may say how much context it needs. Clients compute it from the prompt, so that it grows by a few tokens every
turn, or send the most the model was trained for. So it is rounded up to a power of two, never below what is loaded for
everybody else, never above what the model was trained for or what fits. A model that has enough is left as it is.
"""

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.memory import estimate as memory
from app.advisor.memory import placement
from app.advisor.memory.setting import Components, Setting
from app.config.table import BY_NAME
from app.core.engines import EngineState
from app.core.errors import RoundhouseError
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.engine_store.catalogue import Catalogue
from app.gateway.advising.engine_table import engine_table
from app.gateway.advising.machine import MachineReader, with_capacity
from app.gateway.advising.model_facts import FactsReader
from app.gateway.loading.requested_model import Found
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest, Needs
from app.supervisor.pool import Supervisor
from app.supervisor.scheduling import SYSTEM
from engines.api import LaunchOptions

log = logging.getLogger(__name__)

_AMPLE = 2
"""What takes less than one part in so many of the free memory needs no closer look, nor a look at the GPUs."""
_BESIDE_FILE = 1.25
"""Of an engine we know nothing of: its weights as large as the file, and a quarter more for what goes with them."""
LEAST_CONTEXT = 2048
"""With less than this a chat forgets its own beginning; it is better told that the model does not fit."""
_MOST_CONTEXT = int(BY_NAME["models.context"].maximum or 1 << 22)
"""What a person may set is the most a client may ask for."""


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
        return await _by_size(services.catalogue, request)
    if _is_ample(known):
        return _with_needs(known, None)
    return await asyncio.to_thread(
        _within, known, await _with_all_there_is(services.supervisor, services.machine, request.source.name)
    )


async def measured(services: Services, request: LoadRequest) -> LoadRequest:
    """Return the request as it is, with what it takes."""
    known = await _known(services, request)
    if known is None:
        return await _by_size(services.catalogue, request)
    machine = None if known.setting.backend == "cpu" else await services.machine.read()
    return await asyncio.to_thread(_with_needs, known, machine)


async def _with_all_there_is(supervisor: Supervisor, machine: MachineReader, model: str) -> Machine:
    """Return the machine with what a model could have of each pool; probed anew only for what nobody else reads."""
    now = await machine.read()
    capacity = await supervisor.capacity(model)
    if any(pool.id not in capacity for pool in now.pools):
        now = await machine.read_free()
    return with_capacity(now, capacity)


async def _known(services: Services, request: LoadRequest) -> _Known | None:
    engine = engine_table().get(request.engine)
    if engine is None:  # one of the user's own
        return None
    try:
        facts = await services.facts.of_file(request.source.path)
    except RoundhouseError:  # the engine says what is wrong with the file
        return None
    setting = _setting(request, engine, await asyncio.to_thread(_backend, services.catalogue, request.engine))
    setting = await _with_companions(services.facts, setting, request.options)
    if services.machine.last is not None:  # its processor decides what is copied into another layout
        setting = placement.adapted(setting, services.machine.last)
    return _Known(request, facts, setting, await asyncio.to_thread(memory.components, facts, setting))


async def _with_companions(facts: FactsReader, setting: Setting, options: LaunchOptions) -> Setting:
    """Return the setting with what goes with the model in memory; what cannot be read is the engine's to refuse."""
    draft = options.draft.path if options.draft is not None else None
    found = {name: await _facts_of(facts, path) for name, path in (("draft", draft), ("projector", options.projector))}
    return msgspec.structs.replace(setting, **found)


async def _facts_of(facts: FactsReader, path: Path | None) -> ModelFacts | None:
    if path is None:
        return None
    try:
        return await facts.of_file(path)
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


async def _by_size(catalogue: Catalogue, request: LoadRequest) -> LoadRequest:
    """Return the request with what its files suggest, where it runs on the processor; else nobody can say."""
    size = await asyncio.to_thread(_size, request.source.path)
    if not size or await asyncio.to_thread(_backend, catalogue, request.engine) != "cpu":
        return request
    return msgspec.structs.replace(request, needs=Needs(pools={SYSTEM: int(size * _BESIDE_FILE)}))


def _size(path: Path) -> int:
    try:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _backend(catalogue: Catalogue, engine: str) -> str:
    return catalogue.backend_of(engine) or "cpu"


def _setting(request: LoadRequest, engine: EngineTraits, backend: str) -> Setting:
    options = request.options
    return Setting(
        engine=engine,
        backend=backend,
        context=options.context or LEAST_CONTEXT,
        slots=options.slots,
        kv_type=options.kv_type or "f16",
        gpu_layers=options.gpu_layers,
        task=options.task,
    )


async def with_context(services: Services, found: Found, wanted: int) -> LoadRequest:
    """Return what loads the model with `wanted` tokens of context, or as many as it can have. Says so if fewer."""
    load = found.load
    usual = load.options.context
    most = min(found.model.trained_context or wanted, _MOST_CONTEXT)
    target = min(rounded_up(wanted), most)
    if usual is None or target <= usual:
        return load
    fits = await _fitted_context(services, load, target)
    fitting = fits.options.context or target
    context = max(usual, target if fitting >= target else rounded_down(fitting))
    if context < min(wanted, most):
        log.warning("%s keeps %d tokens of context, not the %d asked for", found.model.name, context, wanted)
    return _with_tokens(fits, context) if context > usual else load


def rounded_up(tokens: int) -> int:
    """Return the next power of two."""
    return 1 << max(0, tokens - 1).bit_length()


def rounded_down(tokens: int) -> int:
    """Return the last power of two: memory that is free a little more or less each time must not mean a new load."""
    return 1 << max(0, tokens.bit_length() - 1)


async def _fitted_context(services: Services, load: LoadRequest, context: int) -> LoadRequest:
    running = next((one for one in services.supervisor.statuses() if one.model == load.source.name), None)
    if running is not None and running.state is EngineState.READY and (running.context or 0) >= context:
        return _with_tokens(load, context)
    return await fitted(services, _with_tokens(load, context))


def _with_tokens(load: LoadRequest, context: int) -> LoadRequest:
    return msgspec.structs.replace(load, options=msgspec.structs.replace(load.options, context=context))
