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
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.memory import estimate as memory
from app.advisor.memory import placement
from app.advisor.memory.setting import MemoryComponents, RunSetting
from app.config.table import BY_NAME
from app.core.engines import EngineInfo, EngineState
from app.core.errors import RoundhouseError
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.host import host_of
from app.gateway.advising.companions import add_companions
from app.gateway.advising.engine_table import engine_table, engines_for
from app.gateway.advising.machine import MachineReader, with_capacity
from app.gateway.advising.model_facts import FactsReader
from app.gateway.loading.gpu_choice import gpu_of, machine_with_gpu
from app.gateway.loading.load_plan import options_from_plan, plan_setting
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest, MemoryNeeds
from app.supervisor.pool import Supervisor
from app.supervisor.scheduling import SYSTEM

log = logging.getLogger(__name__)

_AMPLE = 2
"""What takes less than one part in so many of the free memory needs no closer look, nor a look at the GPUs."""
_BESIDE_FILE = 1.25
"""Of an engine we know nothing of: its weights as large as the file, and a quarter more for what goes with them."""
_MOST_SHARE = 2
"""Of the estimate: what an engine takes beyond it is no estimate's error."""
LEAST_CONTEXT = 2048
"""With less than this a chat forgets its own beginning; it is better told that the model does not fit."""
_MOST_CONTEXT = int(BY_NAME["models.context"].maximum or 1 << 22)
"""What a person may set is the most a client may ask for."""


class _ComputedLoad(NamedTuple):
    """A load that can be computed."""

    request: LoadRequest
    facts: ModelFacts
    setting: RunSetting
    components: MemoryComponents

    def with_setting(self, setting: RunSetting) -> "_ComputedLoad":
        """Return it with another setting, and what that takes."""
        return self._replace(setting=setting, components=memory.sum_components(self.facts, setting))


async def fit_load(
    services: Services, request: LoadRequest, *, is_fixed: bool = False, capacity: dict[str, int] | None = None
) -> LoadRequest:
    """Return the request as it is planned for this machine now, and with what that takes.

    Context and slots stay as they are if they are fixed: somebody asked for them. `capacity` is what it may have of
    each pool, where that is not what the pinned models leave.
    """
    computed_load = await _compute_load(services.catalogue, services.facts, services.machine.last, request)
    if computed_load is None:
        return await _by_size(services.catalogue, request)
    if capacity is None and (_is_ample(computed_load) or (computed_load.setting.backend == "cpu" and is_fixed)):
        return _with_needs(computed_load, None)
    machine = await _with_capacity_for(services.supervisor, services.machine, request.runs_as, capacity)
    engines = await asyncio.to_thread(services.catalogue.readers_of, request.source.format)
    return await asyncio.to_thread(_fit_within, computed_load, machine, engines, is_fixed=is_fixed)


async def _with_capacity_for(
    supervisor: Supervisor, machine: MachineReader, model: str, capacity: dict[str, int] | None
) -> Machine:
    """Return the machine with what a model could have of each pool; probed anew only for what nobody else reads."""
    now = await machine.read()
    capacity = await supervisor.model_capacity(model) if capacity is None else capacity
    if any(pool.id not in capacity for pool in now.pools):
        now = await machine.read_free()
    return with_capacity(now, capacity)


async def _compute_load(
    catalogue: EngineCatalogue, reader: FactsReader, machine: Machine | None, request: LoadRequest
) -> _ComputedLoad | None:
    engine = engine_table().get(request.engine)
    if engine is None:  # one of the user's own
        return None
    try:
        facts = await reader.of_file(request.source.path)
    except RoundhouseError:  # the engine says what is wrong with the file
        return None
    setting = _setting(request, engine, await asyncio.to_thread(_backend, catalogue, request.engine))
    setting = await asyncio.to_thread(add_companions, reader, setting, request.options)
    if machine is not None:  # its processor decides what is copied into another layout
        setting = placement.adapt_setting(setting, machine)
    return _ComputedLoad(request, facts, setting, await asyncio.to_thread(memory.sum_components, facts, setting))


def _is_ample(computed_load: _ComputedLoad) -> bool:
    is_cpu = computed_load.setting.backend == "cpu"
    return is_cpu and computed_load.components.total.bytes * _AMPLE < psutil.virtual_memory().available


def _fit_within(
    computed_load: _ComputedLoad, machine: Machine, engines: Sequence[EngineInfo], *, is_fixed: bool
) -> LoadRequest:
    setting, facts, options = computed_load.setting, computed_load.facts, computed_load.request.options
    machine = machine_with_gpu(machine, gpu_of(options))
    engine = engines_for(machine, {}, engines, host_of(machine))[setting.engine.id]
    setting = msgspec.structs.replace(setting, engine=engine)
    pick = plan_setting(facts, machine, setting, kv_type=options.kv_type, is_fixed=is_fixed)
    if pick is not None:
        planned_load = computed_load.with_setting(placement.adapt_setting(pick.setting, machine))
        return msgspec.structs.replace(
            _with_needs(planned_load, machine), options=options_from_plan(options, pick, machine)
        )
    if is_fixed:
        return _with_needs(computed_load, machine)
    for slots in dict.fromkeys((setting.slots, 1)):
        estimate = memory.estimate_memory(facts, machine, msgspec.structs.replace(setting, slots=slots))
        if estimate.fits:
            return _with_size(computed_load, machine, context=setting.context, slots=slots)
    most = max(estimate.largest_context, LEAST_CONTEXT)
    return _with_size(computed_load, machine, context=min(setting.context, most), slots=1)


def _with_size(computed_load: _ComputedLoad, machine: Machine, *, context: int, slots: int) -> LoadRequest:
    setting = msgspec.structs.replace(computed_load.setting, context=context, slots=slots)
    resized_load = computed_load if setting == computed_load.setting else computed_load.with_setting(setting)
    options = msgspec.structs.replace(computed_load.request.options, context=context, slots=slots)
    return msgspec.structs.replace(_with_needs(resized_load, machine), options=options)


def _with_needs(computed_load: _ComputedLoad, machine: Machine | None) -> LoadRequest:
    if computed_load.setting.backend == "cpu" or machine is None:
        pools = {SYSTEM: sum(part.bytes - part.reclaimable for part in computed_load.components.parts)}
    else:
        pools = memory.memory_by_pool(computed_load.facts, machine, computed_load.setting)
    # Without the processor's extensions the copies are not known which the engine will report besides the file.
    buffers = memory.engine_reported_bytes(computed_load.components) if computed_load.setting.isa else 0
    private_limit = 0
    if computed_load.setting.backend == "cpu":  # weights that cannot be mapped are read
        private_limit = _MOST_SHARE * sum(pools.values()) + computed_load.components.total.bytes
    needs = MemoryNeeds(pools=pools, buffers=buffers, private_limit=private_limit)
    return msgspec.structs.replace(computed_load.request, needs=needs)


async def _by_size(catalogue: EngineCatalogue, request: LoadRequest) -> LoadRequest:
    """Return the request with what its files suggest, where it runs on the processor; else nobody can say."""
    size = await asyncio.to_thread(_size, request.source.path)
    if not size or await asyncio.to_thread(_backend, catalogue, request.engine) != "cpu":
        return request
    needs = MemoryNeeds(pools={SYSTEM: int(size * _BESIDE_FILE)}, private_limit=_MOST_SHARE * size + size)
    return msgspec.structs.replace(request, needs=needs)


def _size(path: Path) -> int:
    try:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _backend(catalogue: EngineCatalogue, engine: str) -> str:
    return catalogue.backend_of(engine) or "cpu"


def _setting(request: LoadRequest, engine: EngineTraits, backend: str) -> RunSetting:
    options = request.options
    chunk = options.max_batch_tokens if options.task == "chat" else None  # else as large as the context, by itself
    return RunSetting(
        engine=engine,
        backend=backend,
        context=options.context or LEAST_CONTEXT,
        slots=options.slots,
        kv_type=options.kv_type or "f16",
        batch=chunk or RunSetting(engine=engine).batch,
        gpu_layers=options.gpu_layers,
        cpu_moe_layers=options.cpu_moe_layers or 0,
        memory_fraction=options.gpu_memory_fraction,
        flash_attention=options.flash_attention is not False,
        task=options.task,
    )


async def with_context(services: Services, target_model: ResolvedModel, requested_context: int) -> LoadRequest:
    """Return what loads the model with `requested_context` tokens of context, or as many as fit. Says so if fewer."""
    load = target_model.load
    usual = load.options.context
    most = min(target_model.model.trained_context or requested_context, _MOST_CONTEXT)
    target = min(round_up(requested_context), most)
    if usual is None or target <= usual:
        return load
    fits = await _fit_context(services, load, target)
    fitting_context = fits.options.context or target
    context = max(usual, target if fitting_context >= target else round_down(fitting_context))
    if context < min(requested_context, most):
        log.warning(
            "%s keeps %d tokens of context, not the %d asked for", target_model.model.name, context, requested_context
        )
    return _with_tokens(fits, context) if context > usual else load


def round_up(tokens: int) -> int:
    """Return the next power of two."""
    return 1 << max(0, tokens - 1).bit_length()


def round_down(tokens: int) -> int:
    """Return the last power of two: memory that is free a little more or less each time must not mean a new load."""
    return 1 << max(0, tokens.bit_length() - 1)


async def _fit_context(services: Services, load: LoadRequest, context: int) -> LoadRequest:
    running_status = next(
        (status for status in services.supervisor.list_statuses() if status.model == load.source.name), None
    )
    if (
        running_status is not None
        and running_status.state is EngineState.READY
        and (running_status.context or 0) >= context
    ):
        return _with_tokens(load, context)
    return await fit_load(services, _with_tokens(load, context))


def _with_tokens(load: LoadRequest, context: int) -> LoadRequest:
    return msgspec.structs.replace(load, options=msgspec.structs.replace(load.options, context=context))
