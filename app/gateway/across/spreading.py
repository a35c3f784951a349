"""Which machines hold layers of a model: what each answers, how the layers would lie, and having it so."""

import asyncio
import time
from collections.abc import Sequence
from statistics import median

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.plans.across import MachineRoom, plan_layers
from app.core.across import HERE, AcrossPlan, AcrossRequest, MemberState, TunnelMember, TunnelState
from app.core.errors import BadRequest, Conflict, EngineFailed, RoundhouseError, Unavailable
from app.gateway.across.lending import ENGINE, INSTALL_HINT, lender_state
from app.gateway.across.tunnel import ANSWER_S, Pipe, TunnelIdentity, TunnelRequest, call_member
from app.gateway.advising.engine_table import engine_table
from app.gateway.services import Services
from engines.llama_cpp.launch import NO_RPC

_PINGS = 8
_MEASURED_BYTES = 4 << 20


async def describe_tunnel(services: Services) -> TunnelState:
    """Return this end, and what each machine answers now, measured."""
    identity = services.spreads.identity
    members = await asyncio.to_thread(identity.list_members)
    return TunnelState(
        certificate=await asyncio.to_thread(identity.certificate),
        listens=services.settings.get_text("gateway.lend_address"),
        members=list(await asyncio.gather(*(_look_at(identity, member) for member in members))),
    )


async def plan_across(services: Services, request: AcrossRequest) -> AcrossPlan:
    """Return how a model would lie over these machines. Raises NotFound, BadRequest, Conflict or Unavailable."""
    identity = services.spreads.identity
    members = [await asyncio.to_thread(identity.find_member, name) for name in _other_names(request.across)]
    facts = await services.facts.find(request.model)
    states = await asyncio.gather(*(_look_at(identity, member) for member in members))
    for state in states:
        if state.problem:
            raise Unavailable(f"{state.name} can hold no layers: {state.problem}", code="unreachable")
    own = await lender_state(services)
    if own.problem:
        raise EngineFailed(NO_RPC, hint=INSTALL_HINT, code="not_installed")
    versions = {own.version, *(state.version for state in states)}
    if len(versions) > 1:
        raise Conflict(
            f"The machines have different versions of llama.cpp: {', '.join(sorted(versions))}.",
            hint="`roundhouse engines update llama.cpp` on each makes them alike.",
        )
    machines = [
        MachineRoom(name=HERE, free_bytes=own.free_bytes, bandwidth_gb_s=own.bandwidth_gb_s),
        *map(_room_of, states),
    ]
    context = request.context or services.settings.get_int("models.context")
    setting = RunSetting(engine=engine_table()[ENGINE], context=min(context, facts.trained_context or context))
    try:
        return plan_layers(facts, setting, machines)
    except ValueError:
        raise BadRequest(f"{facts.name} has fewer layers than there are machines.", code="invalid_value") from None


async def arrange_across(services: Services, model: str, request: AcrossRequest) -> None:
    """Have the model lie over these machines from its next load on; over none, here alone as before.

    Raises as `plan_across` does, and Conflict where it does not fit.
    """
    if services.spreads.is_over(model, _other_machines(request.across), request.context):
        return
    if model in services.spreads:
        await services.supervisor.unload_model(model)
        services.spreads.forget_model(model)
    if not request.across:
        return
    plan = await plan_across(services, request)
    if not plan.fits:
        raise Conflict(plan.sentence, hint="A smaller quantisation, less context or another machine makes room.")
    await services.spreads.connect_machines(model, plan)


async def _look_at(identity: TunnelIdentity, member: TunnelMember) -> MemberState:
    blank = MemberState(name=member.name, address=member.address)
    try:
        reply, pipe = await call_member(identity, member, TunnelRequest(ask="state"))
        try:
            latency_ms = await _measure_latency(pipe)
        finally:
            pipe[1].close()
        link_mb_s = await _measure_link(identity, member)
    except (RoundhouseError, OSError, TimeoutError, EOFError) as error:
        return msgspec.structs.replace(blank, problem=str(error))
    return msgspec.structs.replace(
        blank,
        problem=reply.problem,
        free_bytes=reply.free_bytes,
        bandwidth_gb_s=reply.bandwidth_gb_s,
        version=reply.version,
        latency_ms=latency_ms,
        link_mb_s=link_mb_s,
    )


async def _measure_link(identity: TunnelIdentity, member: TunnelMember) -> float:
    _reply, (reader, writer) = await call_member(identity, member, TunnelRequest(ask="receive", count=_MEASURED_BYTES))
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


def _room_of(state: MemberState) -> MachineRoom:
    return MachineRoom(
        name=state.name,
        free_bytes=state.free_bytes,
        bandwidth_gb_s=state.bandwidth_gb_s,
        latency_ms=state.latency_ms or 0.0,
        link_mb_s=state.link_mb_s,
    )


def _other_names(across: Sequence[str]) -> list[str]:
    """Return the other machines, each once; this one is always the first."""
    names = _other_machines(across)
    if not names:
        raise BadRequest("No other machine was named.", hint="`--across NAME,NAME` names them.", code="invalid_value")
    return names


def _other_machines(across: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for name in across if name != HERE))
