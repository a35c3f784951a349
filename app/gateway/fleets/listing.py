"""How a fleet stands: its replicas as they answer now, and what its router counts with each."""

import asyncio
from collections.abc import Mapping, Sequence

from app.core.engines import EngineState, EngineStatus
from app.core.fleets import Fleet, FleetReplica, ReplicaState
from app.gateway.fleets.fleet_file import VERSION
from app.gateway.fleets.replicas import seat_name
from app.gateway.fleets.workers import RouterWorker
from app.hub.library.attached import Attachment, ReplicaRecord
from app.supervisor.pool import Supervisor
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import MODELS, check_endpoint


async def describe_fleet(supervisor: Supervisor, fleet: Attachment, key: str, workers: Sequence[RouterWorker]) -> Fleet:
    """Return a fleet as it stands; replicas elsewhere are asked now."""
    statuses = {status.model: status for status in supervisor.list_statuses()}
    loads = {worker.url: worker.load for worker in workers}
    router = statuses.get(fleet.name)
    return Fleet(
        model=fleet.name,
        router=fleet.router,
        policy=fleet.policy,
        is_stopped=fleet.is_stopped,
        requests=0 if router is None else router.in_flight + router.queued,
        replicas=list(
            await asyncio.gather(
                *(_describe_replica(fleet, member, key, statuses, loads) for member in fleet.all_members)
            )
        ),
    )


async def _describe_replica(
    fleet: Attachment,
    member: ReplicaRecord,
    key: str,
    statuses: Mapping[str, EngineStatus],
    loads: Mapping[str, int | None],
) -> FleetReplica:
    if member.weights:
        return _describe_engine(fleet, member, statuses.get(seat_name(fleet.name, member.name)), loads)
    endpoint = EngineEndpoint(base_url=member.url + VERSION, key=key, served_name=fleet.served_as)
    failure = await check_endpoint(endpoint, MODELS)
    is_well = failure is None
    return FleetReplica(
        url=member.url,
        name=member.name,
        problem="" if failure is None else failure.sentence,
        state=_rest_state(fleet, member) or (ReplicaState.READY if is_well else ReplicaState.FAILED),
        load=loads.get(member.url),
    )


def _describe_engine(
    fleet: Attachment, member: ReplicaRecord, status: EngineStatus | None, loads: Mapping[str, int | None]
) -> FleetReplica:
    failure = None if status is None else status.failure
    return FleetReplica(
        url=member.url,
        name=member.name,
        is_local=True,
        weights=member.weights,
        engine="" if status is None else status.engine,
        slots=None if status is None else status.slots,
        problem="" if failure is None else failure.sentence,
        state=_rest_state(fleet, member) or _state_of(status),
        load=loads.get(member.url),
    )


def _rest_state(fleet: Attachment, member: ReplicaRecord) -> ReplicaState | None:
    if fleet.is_stopped:
        return ReplicaState.STOPPED
    return ReplicaState.DRAINED if member.is_drained else None


def _state_of(status: EngineStatus | None) -> ReplicaState:
    if status is not None and status.state in {EngineState.READY, EngineState.FAILED}:
        return ReplicaState.READY if status.state is EngineState.READY else ReplicaState.FAILED
    return ReplicaState.STARTING
