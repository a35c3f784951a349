"""Which machines hold layers of a model: what each answers, how the layers would lie, and having it so."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.plans.across import LAYER_COSTS, NODE_COSTS, MachineRoom, plan_layers
from app.core.across import HERE, AcrossPlan, AcrossRequest, MachineMemory
from app.core.engines import EngineInfo
from app.core.errors import BadRequest, Conflict, EngineFailed, NotFound, RoundhouseError, Unavailable
from app.core.machine import Machine, Pool
from app.core.machines import PairedMachine
from app.core.models import ModelInfo
from app.gateway.across.room import (
    INSTALL_HINT,
    LAYER_ENGINE,
    choose_pool,
    describe_room,
    digest_model,
    memory_share,
    span_of,
)
from app.gateway.across.tunnel import (
    ANSWER_S,
    MOST_NODES,
    UNREACHABLE,
    NodeOrder,
    Pipe,
    TunnelReply,
    TunnelRequest,
    call_machine,
)
from app.gateway.advising.engine_table import engine_table
from app.gateway.loading.launch import find_model
from app.gateway.machines.trust import TrustedMachines
from app.gateway.services import Services
from engines.api import ComputerSpan, ModelFormat
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.launch import NO_RPC

_PINGS = 8
_MEASURED_BYTES = 4 << 20
_MOST_MACHINES = MOST_NODES - 1
_BY_LAYERS = (
    "It runs on {engine}, by its RPC backend: the other computers hold layers and need no copy of the model. "
    "One request is answered at a time."
)
_BY_NODES = (
    "It runs on {engine}, with a process and a copy of the model on each computer. llama.cpp's RPC, which needs no "
    "copies, takes GGUF files only, which this model is not."
)
_OF_NODES = "For one request each computer waits while the others compute; with several requests all of them compute."


class _SpanEngine(NamedTuple):
    """The engine that would run a model over several computers, and what it is asked for."""

    id: str
    name: str
    span: ComputerSpan
    order: NodeOrder | None


async def list_memory(services: Services, model: str = "") -> list[MachineMemory]:
    """Return what each paired machine lends this one now, measured, for a model or for llama.cpp's layers.

    Raises Conflict while none is let in, and NotFound, BadRequest or EngineFailed for the model.
    """
    await services.trusted_machines.open_list()
    engine = await _engine_of(services, model) if model else _llama_cpp(services)
    own = await describe_room(services, engine.order)
    return await _measure_machines(services.trusted_machines, services.trusted_machines.list_machines(), engine, own)


async def plan_across(services: Services, request: AcrossRequest) -> AcrossPlan:
    """Return how a model would lie over these machines. Raises NotFound, BadRequest, Conflict or Unavailable."""
    await services.trusted_machines.open_list()
    others = _find_machines(services.trusted_machines, request.across)
    return (await _make_plan(services, request, others))[0]


async def _make_plan(
    services: Services, request: AcrossRequest, others: Sequence[PairedMachine]
) -> tuple[AcrossPlan, _SpanEngine]:
    facts = await services.facts.find(request.model)
    engine = await _engine_of(services, request.model, facts.format)
    own = await describe_room(services, engine.order)
    if own.problem and engine.order is None:
        raise EngineFailed(NO_RPC, hint=INSTALL_HINT, code="not_installed")
    if own.problem:
        raise EngineFailed(own.problem, code="not_installed")
    states = await _measure_machines(services.trusted_machines, others, engine, own)
    for state in states:
        if state.problem:
            code = UNREACHABLE if state.is_away else "machine_refuses"
            raise Unavailable(f"{state.name} can hold no layers: {state.problem}", hint=state.hint, code=code)
    machines = [
        MachineRoom(name=HERE, free_bytes=own.free_bytes, bandwidth_gb_s=own.bandwidth_gb_s),
        *map(_room_of, states),
    ]
    context = request.context or await _context_of(services, request.model)
    setting = RunSetting(
        engine=engine_table()[engine.id],
        backend=own.backend or "cpu",
        context=min(context, facts.trained_context or context),
        slots=1 if engine.order is None else engine.order.slots,
    )
    try:
        plan = plan_layers(facts, setting, machines, LAYER_COSTS if engine.order is None else NODE_COSTS)
    except ValueError:
        raise BadRequest(f"{facts.name} has fewer layers than there are machines.", code="invalid_value") from None
    pool = choose_pool(await services.machine.read_free(), setting.backend)
    plan = msgspec.structs.replace(plan, pool=pool.id if pool is not None else plan.pool)
    return _add_span_facts(plan, engine), engine


def _add_span_facts(plan: AcrossPlan, engine: _SpanEngine) -> AcrossPlan:
    """Return the plan with how its engine works over computers, and what of that was tried."""
    if engine.order is None:
        reasons = [_BY_LAYERS.format(engine=engine.name), *plan.reasons, engine.span.tried]
    else:
        reasons = [_BY_NODES.format(engine=engine.name), *plan.reasons, _OF_NODES, engine.span.tried]
    return msgspec.structs.replace(plan, reasons=reasons, is_started=engine.span.is_started)


def _llama_cpp(services: Services) -> _SpanEngine:
    about = services.adapters[LAYER_ENGINE].descriptor if LAYER_ENGINE in services.adapters else DESCRIPTOR
    assert about.span is not None  # noqa: S101 -- for the type checker: it is in its descriptor
    return _SpanEngine(about.id, about.name, about.span, None)


async def _engine_of(services: Services, model: str, model_format: str = "gguf") -> _SpanEngine:
    """Return the engine that runs a model over several computers: the one set for it if it can, else the first here.

    Raises EngineFailed where none does.
    """
    try:
        model_info = await find_model(services, model)
    except NotFound:
        if model_format == ModelFormat.GGUF:
            return _llama_cpp(services)  # one that is no model of this computer can be planned for
        raise
    if model_info.format == ModelFormat.GGUF:
        return _llama_cpp(services)
    engine = await asyncio.to_thread(_choose_engine, services, model_info)
    span = services.adapters[engine.id].descriptor.span
    assert span is not None  # noqa: S101 -- for the type checker: it was chosen for it
    own = services.model_settings.settings_of(model_info.runs_as)
    order = NodeOrder(
        engine=engine.id,
        model=model_info.runs_as,
        digest=await asyncio.to_thread(digest_model, Path(model_info.path)),
        slots=own.slots or services.settings.get_int("models.slots"),
        kv_type=own.kv_type,
        batch_tokens=own.batch_tokens,
    )
    return _SpanEngine(engine.id, engine.name, span, order)


def _choose_engine(services: Services, model: ModelInfo) -> EngineInfo:
    """Return it. Raises EngineFailed with which would do. Runs programs: for a thread."""
    readers = [
        reader for reader in services.catalogue.readers_of(model.format) if span_of(services, reader.id) is not None
    ]
    startable = [reader for reader in readers if _starts(services, reader)]
    able = [reader for reader in startable if reader.installed] if startable else readers  # the others are planned only
    own = services.model_settings.settings_of(model.runs_as).engine
    chosen_reader = next((reader for reader in able if reader.id == own), next(iter(able), None))
    if chosen_reader is not None:
        return chosen_reader
    names = " or ".join(reader.name for reader in startable)
    raise EngineFailed(
        f"No engine that is installed here runs {model.title} ({model.format}) over several computers.",
        hint=f"{names} would." if readers else "A GGUF file can lie over several, with llama.cpp.",
        code="not_installed",
    )


def _starts(services: Services, reader: EngineInfo) -> bool:
    span = span_of(services, reader.id)
    return span is not None and span.is_started


async def _context_of(services: Services, model: str) -> int:
    """Return the context that is set for a model, or for all."""
    own = None
    with suppress(NotFound):  # one that is no model of this computer can be planned for
        own = services.model_settings.settings_of((await find_model(services, model)).runs_as).context
    return own or services.settings.get_int("models.context")


async def arrange_across(services: Services, model: str, request: AcrossRequest) -> None:
    """Have the model lie over these machines from its next load on; over none, here alone as before.

    Raises as `plan_across` does, and Conflict where it does not fit.
    """
    names = (
        [machine.name for machine in _find_machines(services.trusted_machines, request.across)]
        if request.across
        else []
    )
    if services.spreads.is_over(model, names, request.context):
        return
    if model in services.spreads:
        await services.supervisor.unload_model(model)
        services.spreads.forget_model(model)
    if not names:
        return
    await services.trusted_machines.open_list()
    plan, engine = await _make_plan(services, request, _find_machines(services.trusted_machines, request.across))
    if not plan.is_started:
        raise Conflict(
            f"Roundhouse does not start {engine.name} on other computers.", hint=engine.span.tried, code="not_supported"
        )
    if not plan.fits:
        raise Conflict(plan.sentence, hint="A smaller quantisation, less context or another machine makes room.")
    if engine.order is None:
        await services.spreads.connect_machines(model, plan)
        return
    order = msgspec.structs.replace(engine.order, context=plan.context, layers=[share.layers for share in plan.shares])
    machine = await services.machine.read_free()
    share = memory_share(machine, _pool_of(machine, plan.pool), plan.shares[0].needed_bytes)
    await services.spreads.connect_machines(model, plan, order, memory_share=share)


def _pool_of(machine: Machine, pool: str) -> Pool | None:
    return next((each for each in machine.pools if each.id == pool), None)


def _find_machines(trusted_machines: TrustedMachines, across: Sequence[str]) -> list[PairedMachine]:
    """Return the paired machines of these names, each once. Raises NotFound, BadRequest."""
    machines = list(dict.fromkeys(trusted_machines.find_machine(name) for name in across if name != HERE))
    if not machines:
        raise BadRequest("No other machine was named.", hint="`--across NAME,NAME` names them.", code="invalid_value")
    if len(machines) > _MOST_MACHINES:
        raise BadRequest(f"At most {_MOST_MACHINES} machines can hold layers of a model.", code="invalid_value")
    return machines


async def _measure_machines(
    trusted_machines: TrustedMachines, machines: Sequence[PairedMachine], engine: _SpanEngine, own: TunnelReply
) -> list[MachineMemory]:
    """Return what each lends, at the same time; one with another version of the engine says so."""
    states = await asyncio.gather(*(_measure_memory(trusted_machines, machine, engine.order) for machine in machines))
    return [_compare_engines(state, engine, own) for state in states]


def _compare_engines(state: MachineMemory, engine: _SpanEngine, own: TunnelReply) -> MachineMemory:
    """Return what a machine lends, with a problem where its engine is not the same as here."""
    is_same = state.version == own.version and (engine.order is None or state.backend == own.backend)
    if state.problem or not own.version or not engine.span.is_started or is_same:
        return state
    theirs, ours = (f"{each.version} {each.backend if engine.order else ''}".strip() for each in (state, own))
    problem = f"It has {engine.name} {theirs}, and this computer {ours}. They must be the same."
    command = f"`roundhouse engines install {engine.id}{'' if engine.order else ' --variant rpc'}`"
    hint = f"{command} on both brings the same version."
    return msgspec.structs.replace(state, problem=problem, hint=hint)


async def _measure_memory(
    trusted_machines: TrustedMachines, machine: PairedMachine, order: NodeOrder | None
) -> MachineMemory:
    """Ask a machine what it lends, and measure the way to it; not the link to one that lends nothing."""
    blank = MachineMemory(name=machine.name, address=f"{machine.host}:{machine.port}")
    try:
        reply, pipe = await call_machine(trusted_machines, machine, TunnelRequest(ask="state", node=order))
        try:
            latency_ms = None if reply.problem else await _measure_latency(pipe)
        finally:
            pipe[1].close()
        link_mb_s = None if reply.problem else await _measure_link(trusted_machines, machine)
    except RoundhouseError as error:
        return msgspec.structs.replace(blank, problem=str(error), hint=error.hint, is_away=error.code == UNREACHABLE)
    except (OSError, EOFError) as error:  # TimeoutError is an OSError
        return msgspec.structs.replace(blank, problem=f"The connection broke off: {error}", is_away=True)
    return msgspec.structs.replace(
        blank,
        problem=reply.problem,
        hint=reply.hint,
        free_bytes=reply.free_bytes,
        bandwidth_gb_s=reply.bandwidth_gb_s,
        version=reply.version,
        backend=reply.backend,
        latency_ms=latency_ms,
        link_mb_s=link_mb_s,
    )


async def _measure_link(trusted_machines: TrustedMachines, machine: PairedMachine) -> float:
    request = TunnelRequest(ask="receive", count=_MEASURED_BYTES)
    _reply, (reader, writer) = await call_machine(trusted_machines, machine, request)
    try:
        start = time.perf_counter()
        async with asyncio.timeout(ANSWER_S):
            await reader.readexactly(_MEASURED_BYTES)
        return _MEASURED_BYTES / max(time.perf_counter() - start, 1e-6) / 1e6
    finally:
        writer.close()


async def _measure_latency(pipe: Pipe) -> float:
    times = []
    async with asyncio.timeout(ANSWER_S):
        for _ in range(_PINGS):
            start = time.perf_counter()
            pipe[1].write(b".")
            await pipe[0].readexactly(1)
            times.append(time.perf_counter() - start)
    return median(times) * 1e3


def _room_of(state: MachineMemory) -> MachineRoom:
    return MachineRoom(
        name=state.name,
        free_bytes=state.free_bytes,
        bandwidth_gb_s=state.bandwidth_gb_s,
        latency_ms=state.latency_ms or 0.0,
        link_mb_s=state.link_mb_s,
    )
