"""A fleet's replicas as loads of the supervisor: engines on this computer, each with a seat, and their names."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.core.errors import BadRequest, NotFound, quote_value
from app.core.fleets import LocalReplica
from app.core.models import LoadOptions, ModelInfo, ModelSettings
from app.gateway.loading.launch import load_request_for
from app.gateway.services import Services
from app.hub.library.attached import KEY_SUFFIX, Attachment, ReplicaRecord
from app.supervisor.policy import EngineSeat, LoadRequest
from app.supervisor.pool import Supervisor
from app.supervisor.run import HOST


def seat_name(fleet: str, replica: str) -> str:
    """Return what the engine of a replica is called here: no model is, since names have no such sign."""
    return f"{fleet}#{replica}"


def fleet_of(seat: str) -> str:
    """Return whose replica has an engine of that name."""
    return seat.rpartition("#")[0]


def find_member(attachment: Attachment, name: str) -> ReplicaRecord:
    """Return a replica by its name or its address. Raises NotFound."""
    for member in attachment.all_members:
        if name in {member.name, member.url}:
            return member
    names = ", ".join(member.name for member in attachment.all_members)
    raise NotFound(f"The fleet {attachment.name} has no replica {quote_value(name)}.", hint=f"It has {names}.")


def with_member(attachment: Attachment, member: ReplicaRecord) -> Attachment:
    """Return a fleet with one replica in place of the one of its name."""
    return attachment.with_members([member if other.name == member.name else other for other in attachment.all_members])


def free_names(members: Sequence[ReplicaRecord], count: int) -> list[str]:
    """Return the lowest numbers that no replica has."""
    taken_names = {member.name for member in members}
    return [name for name in map(str, range(1, len(members) + count + 1)) if name not in taken_names][:count]


def with_free_port(member: ReplicaRecord, supervisor: Supervisor) -> ReplicaRecord:
    """Return a local replica at a port where it can listen: its own, unless another program has that by now."""
    if _is_free(member.port):
        return member
    return msgspec.structs.replace(member, url=local_url(supervisor.pick_port()))


def local_url(port: int) -> str:
    """Return the address of a replica on this computer."""
    return f"http://{HOST}:{port}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if sys.platform != "win32":  # there it would share the port with whoever listens
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


async def find_weights(services: Services, name: str, fleet: str) -> ModelInfo:
    """Return the model whose weights the engines of a fleet have. Raises NotFound or BadRequest."""
    model = await asyncio.to_thread(services.library.find_model, name)
    if model.router and model.name == fleet:
        raise BadRequest(
            "`model` is the name of the fleet, and `serves` the model that its replicas here run.",
            hint="Give the fleet a name of its own.",
            code="invalid_value",
        )
    if model.attached or model.problem or not model.chats:
        why = model.problem or ("is not on this computer" if model.attached else "answers no chats")
        raise BadRequest(f"Replicas cannot run {model.name}: it {why}.", code="model_unusable")
    return model


async def request_replica(services: Services, attachment: Attachment, member: ReplicaRecord) -> LoadRequest:
    """Return what loads a replica on this computer. Raises NotFound, BadRequest or EngineFailed."""
    from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- brings in the advisor, which starting can do without

    record = Path((await asyncio.to_thread(services.library.find_model, attachment.name)).path)
    load = await asyncio.to_thread(_request_unfitted, services, attachment, member, record.with_suffix(KEY_SUFFIX))
    return await fit_load(services, load, is_fixed=member.local.context is not None)


def _request_unfitted(services: Services, attachment: Attachment, member: ReplicaRecord, key_file: Path) -> LoadRequest:
    model, local = services.library.find_model(member.weights), member.local
    load = load_request_for(services, model, _options_of(local), own=_settings_of(services, model, local))
    seat = EngineSeat(name=seat_name(attachment.name, member.name), port=member.port, key_file=key_file)
    source = msgspec.structs.replace(load.source, name=attachment.served_as)
    return msgspec.structs.replace(load, source=source, seat=seat)


def _options_of(local: LocalReplica) -> LoadOptions:
    return LoadOptions(context=local.context, slots=local.slots, threads=local.threads)


def _settings_of(services: Services, model: ModelInfo, local: LocalReplica) -> ModelSettings:
    own = services.model_settings.settings_of(model.runs_as)
    return msgspec.structs.replace(own, engine=local.engine or own.engine, gpu=local.card or own.gpu)
