"""A fleet's engines on this computer: each a load of the supervisor with a seat, started again whenever it ended."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from app.core.engines import EngineState, EngineStatus
from app.core.errors import RoundhouseError
from app.core.fleets import FleetReplica, ReplicaState
from app.gateway.background import Background
from app.gateway.fleets.replicas import fleet_of, request_replica, seat_name, with_free_port, with_member
from app.gateway.services import Services
from app.hub.library.attached import Attachment, ReplicaRecord

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 2.0
_LONGEST_WAIT_S = 120.0
"""Between two attempts at an engine that fails: a person may have mended what was wrong by then."""
_ENDED = frozenset({EngineState.STOPPED, EngineState.FAILED})


class _Attempts(msgspec.Struct, kw_only=True):
    """What came of starting one engine."""

    count: int = 0
    next_at: float = 0.0
    problem: str = ""


class LocalEngines:
    """The engines. Belongs to the event loop; `changed` is called when one stands otherwise."""

    def __init__(self, services: Services, background: Background, on_change: Callable[[], None]) -> None:
        self._services, self._background, self._on_change = services, background, on_change
        self._loads: dict[str, asyncio.Task[str]] = {}
        self._attempts: dict[str, _Attempts] = {}
        self._strangers: set[str] = set()

    def is_ready(self, seat: str) -> bool:
        """Tell whether the engine of a seat answers."""
        status = self._status_of(seat)
        return status is not None and status.state is EngineState.READY

    def start_missing(self, fleet: Attachment, *, but: Collection[str] = ()) -> None:
        """Begin to start every engine that should run and does not."""
        if self._services.supervisor.is_paused or fleet.is_stopped:
            return
        for member in fleet.all_members:
            seat = seat_name(fleet.name, member.name)
            if not member.weights or member.is_drained or seat in but or seat in self._loads:
                continue
            status = self._status_of(seat)
            has_ended = status is None or status.state in _ENDED
            if has_ended and time.monotonic() >= self._attempts.get(seat, _Attempts()).next_at:
                self._loads[seat] = task = self._background.spawn(self.load_now(fleet, member))
                task.add_done_callback(partial(self._forget_load, seat))

    def _forget_load(self, seat: str, _task: "asyncio.Task[str]") -> None:
        self._loads.pop(seat, None)

    async def load_now(self, fleet: Attachment, member: ReplicaRecord) -> str:
        """Start one engine, and return why it cannot be started, in a sentence; nothing for one that answers."""
        seat = seat_name(fleet.name, member.name)
        attempts = self._attempts.setdefault(seat, _Attempts())
        try:
            member = await self._at_free_port(fleet, member)
            request = await request_replica(self._services, fleet, member)
            await self._services.supervisor.ensure_ready(request, any_options=True)
        except RoundhouseError as error:
            attempts.count += 1
            wait_s = min(_FIRST_WAIT_S * 2**attempts.count, _LONGEST_WAIT_S)
            attempts.next_at, attempts.problem = time.monotonic() + wait_s, error.body.sentence
            log.info("A replica could not be started: %s", error, extra={"model": seat})
        else:
            self._attempts.pop(seat, None)
            attempts.problem = ""
        self._on_change()
        return attempts.problem

    async def _at_free_port(self, fleet: Attachment, member: ReplicaRecord) -> ReplicaRecord:
        if (status := self._status_of(seat_name(fleet.name, member.name))) is not None and status.state not in _ENDED:
            return member
        moved_member = with_free_port(member, self._services.supervisor)
        if moved_member != member:
            await asyncio.to_thread(
                self._services.library.correct_attachment, fleet.name, lambda record: with_member(record, moved_member)
            )
        return moved_member

    async def stop_seats(self, fleet: Attachment, members: Sequence[ReplicaRecord]) -> None:
        """End engines, and forget what failed about them."""
        for member in members:
            if member.weights:
                await self._stop_seat(seat_name(fleet.name, member.name))

    async def _stop_seat(self, seat: str) -> None:
        if (load := self._loads.get(seat)) is not None:
            load.cancel()
        self._attempts.pop(seat, None)
        await self._services.supervisor.unload_model(seat)
        self._on_change()

    def end_strangers(self, fleets: Sequence[Attachment]) -> None:
        """End the engines of replicas and fleets that are there no more."""
        running_seats = {
            seat_name(fleet.name, member.name)
            for fleet in fleets
            for member in fleet.all_members
            if not fleet.is_stopped
        }
        supervisor = self._services.supervisor
        for status in supervisor.list_statuses():
            request = supervisor.request_of(status.model)
            has_seat = request is not None and request.seat is not None
            is_stranger = has_seat and status.model not in running_seats and status.model not in self._strangers
            if is_stranger and status.state is EngineState.READY:
                self._strangers.add(status.model)
                self._background.spawn(self._end_stranger(status.model))

    async def _end_stranger(self, seat: str) -> None:
        """End an engine once it has answered what its router gave it."""
        try:
            await self._services.supervisor.wait_for_holders(fleet_of(seat))
            await self._stop_seat(seat)
        finally:
            self._strangers.discard(seat)

    def with_news(self, replica: FleetReplica, seat: str, *, is_draining: bool) -> FleetReplica:
        """Return how a replica stands, with what is known of starting its engine."""
        if replica.state is ReplicaState.STOPPED:
            return replica
        if is_draining and replica.state is not ReplicaState.STARTING:
            return msgspec.structs.replace(replica, state=ReplicaState.DRAINING)
        attempts = self._attempts.get(seat)
        if replica.is_local and attempts is not None and attempts.problem and seat not in self._loads:
            return msgspec.structs.replace(replica, state=ReplicaState.FAILED, problem=attempts.problem)
        is_bad = replica.problem and replica.state is ReplicaState.READY
        return msgspec.structs.replace(replica, state=ReplicaState.FAILED) if is_bad else replica

    def _status_of(self, seat: str) -> EngineStatus | None:
        return next((status for status in self._services.supervisor.list_statuses() if status.model == seat), None)
