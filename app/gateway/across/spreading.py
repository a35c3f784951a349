"""Which machines hold layers of a model: what each answers, how the layers would lie, and having it so."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from statistics import median

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.plans.across import MachineRoom, plan_layers
from app.core.across import HERE, AcrossPlan, AcrossRequest, MachineMemory
from app.core.errors import BadRequest, Conflict, EngineFailed, NotFound, RoundhouseError, Unavailable
from app.core.machines import PairedMachine
from app.gateway.across.lending import ENGINE, INSTALL_HINT, lender_state
from app.gateway.across.tunnel import ANSWER_S, UNREACHABLE, Pipe, TunnelReply, TunnelRequest, call_machine
from app.gateway.advising.engine_table import engine_table
from app.gateway.loading.launch import find_model
from app.gateway.machines.trust import TrustedMachines
from app.gateway.services import Services
from engines.llama_cpp.launch import NO_RPC

_PINGS = 8
_MEASURED_BYTES = 4 << 20
_MOST_MACHINES = 16
"""`GGML_RPC_MAX_SERVERS` of llama.cpp."""


async def list_memory(services: Services) -> list[MachineMemory]:
    """Return what each paired machine lends this one now, measured. Raises Conflict while none is let in."""
    await services.trusted.open_list()
    own = await lender_state(services)
    return await _measure_machines(services.trusted, services.trusted.list_machines(), own)


async def plan_across(services: Services, request: AcrossRequest) -> AcrossPlan:
    """Return how a model would lie over these machines. Raises NotFound, BadRequest, Conflict or Unavailable."""
    await services.trusted.open_list()
    others = _find_machines(services.trusted, request.across)
    facts = await services.facts.find(request.model)
    own = await lender_state(services)
    if own.problem:
        raise EngineFailed(NO_RPC, hint=INSTALL_HINT, code="not_installed")
    states = await _measure_machines(services.trusted, others, own)
    for state in states:
        if state.problem:
            code = UNREACHABLE if state.is_away else "machine_refuses"
            raise Unavailable(f"{state.name} can hold no layers: {state.problem}", hint=state.hint, code=code)
    machines = [
        MachineRoom(name=HERE, free_bytes=own.free_bytes, bandwidth_gb_s=own.bandwidth_gb_s),
        *map(_room_of, states),
    ]
    context = request.context or await _context_of(services, request.model)
    setting = RunSetting(engine=engine_table()[ENGINE], context=min(context, facts.trained_context or context))
    try:
        return plan_layers(facts, setting, machines)
    except ValueError:
        raise BadRequest(f"{facts.name} has fewer layers than there are machines.", code="invalid_value") from None


async def _context_of(services: Services, model: str) -> int:
    """Return the context that is set for a model, or for all."""
    own = None
    with suppress(NotFound):  # one that is no model of this computer can be planned for
        own = services.tuning.settings_of((await find_model(services, model)).runs_as).context
    return own or services.settings.get_int("models.context")


async def arrange_across(services: Services, model: str, request: AcrossRequest) -> None:
    """Have the model lie over these machines from its next load on; over none, here alone as before.

    Raises as `plan_across` does, and Conflict where it does not fit.
    """
    names = [machine.name for machine in _find_machines(services.trusted, request.across)] if request.across else []
    if services.spreads.is_over(model, names, request.context):
        return
    if model in services.spreads:
        await services.supervisor.unload_model(model)
        services.spreads.forget_model(model)
    if not names:
        return
    plan = await plan_across(services, request)
    if not plan.fits:
        raise Conflict(plan.sentence, hint="A smaller quantisation, less context or another machine makes room.")
    await services.spreads.connect_machines(model, plan)


def _find_machines(trusted: TrustedMachines, across: Sequence[str]) -> list[PairedMachine]:
    """Return the paired machines of these names, each once. Raises NotFound, BadRequest."""
    machines = list(dict.fromkeys(trusted.find_machine(name) for name in across if name != HERE))
    if not machines:
        raise BadRequest("No other machine was named.", hint="`--across NAME,NAME` names them.", code="invalid_value")
    if len(machines) > _MOST_MACHINES:
        raise BadRequest(f"At most {_MOST_MACHINES} machines can hold layers of a model.", code="invalid_value")
    return machines


async def _measure_machines(
    trusted: TrustedMachines, machines: Sequence[PairedMachine], own: TunnelReply
) -> list[MachineMemory]:
    """Return what each lends, at the same time; one with another version of llama.cpp says so."""
    states = await asyncio.gather(*(_measure_memory(trusted, machine) for machine in machines))
    return [_compare_versions(state, own.version) for state in states]


def _compare_versions(state: MachineMemory, own_version: str) -> MachineMemory:
    if state.problem or not own_version or state.version == own_version:
        return state
    problem = f"It has llama.cpp {state.version}, and this computer {own_version}. They must be the same."
    hint = "`roundhouse engines install llama.cpp --variant rpc` on both brings the same version."
    return msgspec.structs.replace(state, problem=problem, hint=hint)


async def _measure_memory(trusted: TrustedMachines, machine: PairedMachine) -> MachineMemory:
    """Ask a machine what it lends, and measure the way to it; not the link to one that lends nothing."""
    blank = MachineMemory(name=machine.name, address=f"{machine.host}:{machine.port}")
    try:
        reply, pipe = await call_machine(trusted, machine, TunnelRequest(ask="state"))
        try:
            latency_ms = None if reply.problem else await _measure_latency(pipe)
        finally:
            pipe[1].close()
        link_mb_s = None if reply.problem else await _measure_link(trusted, machine)
    except RoundhouseError as error:
        return msgspec.structs.replace(blank, problem=str(error), hint=error.hint, is_away=error.code == UNREACHABLE)
    except (OSError, EOFError) as error:  # TimeoutError is an OSError
        return msgspec.structs.replace(blank, problem=f"The connection broke off: {error}", is_away=True)
    return msgspec.structs.replace(
        blank,
        problem=reply.problem,
        free_bytes=reply.free_bytes,
        bandwidth_gb_s=reply.bandwidth_gb_s,
        version=reply.version,
        latency_ms=latency_ms,
        link_mb_s=link_mb_s,
    )


async def _measure_link(trusted: TrustedMachines, machine: PairedMachine) -> float:
    request = TunnelRequest(ask="receive", count=_MEASURED_BYTES)
    _reply, (reader, writer) = await call_machine(trusted, machine, request)
    try:
        begun = time.perf_counter()
        async with asyncio.timeout(ANSWER_S):
            await reader.readexactly(_MEASURED_BYTES)
        return _MEASURED_BYTES / max(time.perf_counter() - begun, 1e-6) / 1e6
    finally:
        writer.close()


async def _measure_latency(pipe: Pipe) -> float:
    times = []
    async with asyncio.timeout(ANSWER_S):
        for _ in range(_PINGS):
            begun = time.perf_counter()
            pipe[1].write(b".")
            await pipe[0].readexactly(1)
            times.append(time.perf_counter() - begun)
    return median(times) * 1e3


def _room_of(state: MachineMemory) -> MachineRoom:
    return MachineRoom(
        name=state.name,
        free_bytes=state.free_bytes,
        bandwidth_gb_s=state.bandwidth_gb_s,
        latency_ms=state.latency_ms or 0.0,
        link_mb_s=state.link_mb_s,
    )
