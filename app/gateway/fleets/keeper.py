"""The fleets of this gateway: started, changed while they answer, watched, and stopped.

A fleet is an attached model with more than one address. The supervisor starts its router with the first request, and
each of its engines on this computer as soon as the fleet is started; a router that runs is told of other replicas, so
that it goes on with the requests that it has. What is to be is in the record of the attached model; the watch makes it
so, and again after whatever happens.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from app.config.environment import attach_key, fleet_to_start
from app.core.errors import BadRequest, Conflict, NotFound, RoundhouseError
from app.core.events import FleetsChanged, ModelsChanged, Notice
from app.core.fleets import AddReplica, Fleet, LocalReplica, RollFleet, StartFleet
from app.core.models import ModelInfo
from app.gateway.background import Background
from app.gateway.fleets.fleet_file import (
    MOST_REPLICAS,
    VERSION,
    FleetFile,
    check_addresses,
    check_router,
    read_fleet_file,
)
from app.gateway.fleets.health import HealthWatch
from app.gateway.fleets.knowledge import ask_replicas, read_weights
from app.gateway.fleets.listing import describe_fleet
from app.gateway.fleets.local_engines import LocalEngines
from app.gateway.fleets.lost_replicas import ListSilent, LostReplicas
from app.gateway.fleets.replicas import find_member, find_weights, free_names, local_url, seat_name, with_member
from app.gateway.fleets.workers import RouterAdmin, RouterWorker
from app.gateway.library.attached_endpoints import check_key
from app.gateway.services import Services
from app.hub.library.attached import Attachment, EndpointKnowledge, ReplicaRecord

log = logging.getLogger(__name__)

LOOK_S = 3.0
"""Between two looks at the fleets. A router has noticed by itself within six seconds that a replica is gone."""
_NEW_KEY_BYTES = 32
_LOOKS_AT_ROUTER = 60
"""A second apart: a router that has not taken a replica by then does not take it."""
_LEAST_TO_ROLL = 2


class FleetKeeper:
    """The one that changes fleets. Belongs to the event loop."""

    def __init__(self, services: Services, list_silent: ListSilent) -> None:
        self._services, self._list_silent = services, list_silent
        self._background = Background()
        self._engines = LocalEngines(services, self._background, self.note_change)
        self._health = HealthWatch(services.supervisor)
        self._lock = asyncio.Lock()
        self._drain_tasks: dict[str, asyncio.Task[None]] = {}
        self._resting_seats: set[str] = set()
        """Seats that a change of the engines has taken out for a while."""
        self._rolling_notes: dict[str, str] = {}
        self._rolls: dict[str, asyncio.Task[None]] = {}
        self._workers: dict[str, list[RouterWorker]] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._lost_replicas: dict[str, LostReplicas] = {}

    async def close(self) -> None:
        """Watch and change no more."""
        await self._background.join(cancel=True)

    def note_change(self) -> None:
        """Tell whoever shows fleets."""
        self._services.events.publish(FleetsChanged())

    # What a person asks for

    async def start_fleet(self, request: StartFleet) -> ModelInfo:
        """List the fleet's model here, in place of the fleet of that name. Raises BadRequest, NotFound or Unavailable.

        Answers that are being written by the one before are finished first.
        """
        file = read_fleet_file(request.text)
        check_router(file.router)
        given_key = check_key(request.key)
        async with self._lock:
            before, key_before = await self._find_before(file.model)
            is_local = any(isinstance(entry, LocalReplica) for entry in file.entries)
            key = given_key or (_key_for(before, key_before) if is_local else "")
            attachment = await self._plan_fleet(file, before, key)
            (model,) = await asyncio.to_thread(self._services.library.attach_models, [attachment], key)
            after = self._services.library.find_attachment(model)
            if key != key_before and before is not None:
                await self._engines.stop_seats(before, before.all_members)
            if before is None or key != key_before or needs_new_router(before, after):
                await self._services.supervisor.expire_model(model.name)
        self._services.events.publish(ModelsChanged())
        await self._settle(after)
        return model

    async def start_again(self, name: str) -> Fleet:
        """Start a fleet that was stopped. Raises NotFound."""
        attachment = await self._change(name, lambda fleet: msgspec.structs.replace(fleet, is_stopped=False))
        await self._settle(attachment)
        return await self.describe(name)

    async def stop_fleet(self, name: str) -> Fleet:
        """Stop a fleet's router and engines once the answers in progress are done. Raises NotFound."""
        attachment = await self._change(name, lambda fleet: msgspec.structs.replace(fleet, is_stopped=True))
        self._background.spawn(self._end_engines(attachment))
        return await self.describe(name)

    async def add_replica(self, name: str, request: AddReplica) -> Fleet:
        """Add one replica. Raises NotFound, BadRequest, or Conflict for one that is there."""
        fleet = await self._find(name)
        if len(fleet.all_members) >= MOST_REPLICAS:
            raise Conflict(f"A fleet has at most {MOST_REPLICAS} replicas.")
        member = await self._plan_addition(fleet, request)
        attachment = await self._change(name, lambda fleet: fleet.with_members([*fleet.all_members, member]))
        await self._settle(attachment)
        return await self.describe(name)

    async def drain_replica(self, name: str, replica: str) -> Fleet:
        """Give a replica no new requests; an engine of this computer ends once it has answered those that it has.

        Raises NotFound, or Conflict for the only one that gets requests.
        """
        member = find_member(await self._find(name), replica)
        await self._take_out(name, member)
        return await self.describe(name)

    async def put_back(self, name: str, replica: str) -> Fleet:
        """Give a replica that was drained requests again. Raises NotFound."""
        member = find_member(await self._find(name), replica)
        back = msgspec.structs.replace(member, is_drained=False)
        attachment = await self._change(name, lambda fleet: with_member(fleet, back))
        await self._settle(attachment)
        return await self.describe(name)

    async def remove_replica(self, name: str, replica: str) -> Fleet:
        """Take a replica out, and forget it once it has answered what it has. Raises NotFound or Conflict."""
        member = find_member(await self._find(name), replica)
        await self._take_out(name, member)
        await self._change(name, lambda fleet: _without_member(fleet, member))
        return await self.describe(name)

    async def roll_fleet(self, name: str, request: RollFleet) -> Fleet:
        """Start a fleet's engines anew, one after the other. Raises NotFound, BadRequest or Conflict."""
        fleet = await self._find(name)
        if fleet.name in self._rolls:
            raise Conflict(f"The engines of {fleet.name} are being changed already.")
        weights = (await find_weights(self._services, request.serves, fleet.name)).name if request.serves else ""
        active = [member for member in fleet.all_members if not member.is_drained]
        local = [member for member in active if member.weights]
        if fleet.is_stopped or not local or len(active) < _LEAST_TO_ROLL:
            raise Conflict(
                f"{fleet.name} cannot be changed one replica after the other.",
                hint="It takes a fleet that is started, with an engine on this computer and another replica.",
            )
        self._rolls[fleet.name] = task = self._background.spawn(self._roll(fleet.name, local, weights))
        task.add_done_callback(lambda _: self._rolls.pop(fleet.name, None))
        await asyncio.sleep(0)  # lets it begin, so that the answer says so
        return await self.describe(name)

    # How fleets stand

    async def list_fleets(self) -> list[Fleet]:
        """Return the fleets, each replica elsewhere asked now whether it lists the model."""
        return list(await asyncio.gather(*(self._describe(fleet) for fleet in await self._read_fleets())))

    async def describe(self, name: str) -> Fleet:
        """Return one fleet. Raises NotFound."""
        return await self._describe(await self._find(name))

    async def _describe(self, fleet: Attachment) -> Fleet:
        key = await asyncio.to_thread(self._services.library.attachments.read_key, fleet.name)
        description = await describe_fleet(self._services.supervisor, fleet, key, self._workers.get(fleet.name, []))
        replicas = [
            self._engines.with_news(
                msgspec.structs.replace(
                    replica, problem=replica.problem or self._health.problem_of(fleet.name, member)
                ),
                seat,
                is_draining=seat in self._drain_tasks or seat in self._resting_seats,
            )
            for replica, member in zip(description.replicas, fleet.all_members, strict=True)
            for seat in [seat_name(fleet.name, member.name)]
        ]
        return msgspec.structs.replace(description, replicas=replicas, rolling=self._rolling_notes.get(fleet.name, ""))

    # The watch

    async def run_forever(self) -> None:
        """Start the fleet that the command line names, then make everything as the records say, until cancelled."""
        if (file := fleet_to_start()) is not None:
            await self._start_named(file)
        while True:
            try:
                await self.look_once()
            except RoundhouseError as error:
                log.info("The fleets could not be looked at: %s", error)
            except Exception:  # one failure must not end the watching
                log.exception("The fleets could not be looked at")
            await asyncio.sleep(LOOK_S)

    async def _start_named(self, file: Path) -> None:
        try:
            text = await asyncio.to_thread(file.read_text, "utf-8")
            await self.start_fleet(StartFleet(text=text, key=attach_key()))
        except (OSError, UnicodeDecodeError, RoundhouseError) as error:
            sentence = f"The fleet of {file} was not started: {error}"
            log.error(sentence)  # noqa: TRY400 -- it says what is wrong; no traceback needed
            self._services.events.publish(Notice(level="error", code="fleet_not_started", sentence=sentence))

    async def look_once(self) -> None:
        """Start what should run, end what should not, look at the replicas, and tell the routers."""
        fleets = await self._read_fleets()
        for fleet in fleets:
            if not fleet.is_stopped:
                self._engines.start_missing(fleet, but=self._resting_seats)
                self._look_at(fleet)
                out = [member.url for member in fleet.all_members if self._is_lost(fleet.name, member)]
                await self._tell_router(fleet)
                self._give_back(fleet, out)
        self._engines.end_strangers(fleets)

    def _look_at(self, fleet: Attachment) -> None:
        """Look at each replica, unless the last look at it still waits for an answer."""
        for member in fleet.all_members:
            seat = seat_name(fleet.name, member.name)
            if seat not in self._looks and seat not in self._resting_seats and not member.is_drained:
                self._looks[seat] = task = self._background.spawn(self._look(fleet, member))
                task.add_done_callback(partial(self._forget_look, seat))

    def _forget_look(self, seat: str, _task: "asyncio.Task[None]") -> None:
        self._looks.pop(seat, None)

    async def _look(self, fleet: Attachment, member: ReplicaRecord) -> None:
        key = await asyncio.to_thread(self._services.library.attachments.read_key, fleet.name)
        before = self._health.problem_of(fleet.name, member)
        await self._health.look_at(fleet, member, key)
        if self._health.problem_of(fleet.name, member) != before:
            self.note_change()

    async def _tell_router(self, fleet: Attachment) -> None:
        """Have a router that runs choose among the replicas that work. One that does not is told when it starts."""
        supervisor = self._services.supervisor
        router = next((engine for engine in supervisor.list_ready() if engine.model == fleet.name), None)
        adapter = self._services.adapters.get(fleet.router)
        routes = None if adapter is None else adapter.descriptor.worker_routes
        if router is None or routes is None:
            self._workers.pop(fleet.name, None)
            return
        try:
            urls = self._list_working(fleet)
            admin = RouterAdmin(router, routes)
            self._workers[fleet.name] = await (admin.keep_workers(urls) if urls else admin.list_workers())
        except (OSError, ValueError, RoundhouseError) as error:  # TimeoutError and msgspec's errors too
            log.info("The router of %s could not be told of its replicas: %s", fleet.name, error)

    def _is_lost(self, fleet: str, member: ReplicaRecord) -> bool:
        return not member.weights and bool(self._health.problem_of(fleet, member))

    def _give_back(self, fleet: Attachment, out: Sequence[str]) -> None:
        """Have others answer what waits at replicas elsewhere that the router has been told to leave alone."""
        loads = {worker.url: worker.load for worker in self._workers.get(fleet.name, ())}
        lost_replicas = self._lost_replicas.setdefault(fleet.name, LostReplicas(fleet.name, self._list_silent))
        lost_replicas.put_lost({url: loads.get(url) for url in out})
        if count := lost_replicas.give_back(is_none_left=not self._list_working(fleet)):
            log.info("%d requests waited at replicas that answer nothing any more", count, extra={"model": fleet.name})

    def _list_working(self, fleet: Attachment) -> list[str]:
        return [member.url for member in fleet.all_members if self._works(fleet.name, member)]

    def _works(self, fleet: str, member: ReplicaRecord) -> bool:
        seat = seat_name(fleet, member.name)
        if member.is_drained or seat in self._resting_seats or self._health.problem_of(fleet, member):
            return False
        return not member.weights or self._engines.is_ready(seat)

    # Parts of a change

    async def _find_before(self, name: str) -> tuple[Attachment | None, str]:
        before = next((fleet for fleet in await self._read_fleets() if fleet.name == name), None)
        key = await asyncio.to_thread(self._services.library.attachments.read_key, name) if before is not None else ""
        return before, key

    async def _plan_fleet(self, file: FleetFile, before: Attachment | None, key: str) -> Attachment:
        addresses = check_addresses(
            [entry for entry in file.entries if isinstance(entry, str)], own=self._services.identity.url
        )
        local = [entry for entry in file.entries if isinstance(entry, LocalReplica)]
        served_as = (file.serves if addresses else "") or file.model
        weights = (await find_weights(self._services, file.serves or file.model, file.model)).name if local else ""
        knowledge = await self._find_knowledge(addresses, key, served_as, weights=weights, local=local)
        members = self._plan_members(addresses, local, weights, before)
        return Attachment(
            name=file.model,
            url=members[0].url + VERSION,
            served_as=served_as,
            known=knowledge,
            attached_at=time.time(),
            router=file.router,
            policy=file.policy,
        ).with_members(members)

    async def _find_knowledge(
        self, addresses: Sequence[str], key: str, served_as: str, *, weights: str, local: Sequence[LocalReplica]
    ) -> EndpointKnowledge:
        if addresses:
            return await ask_replicas(addresses, key, served_as)
        model = await asyncio.to_thread(self._services.library.find_model, weights)
        return read_weights(self._services, model, local[0])

    def _plan_members(
        self, addresses: Sequence[str], local: Sequence[LocalReplica], weights: str, before: Attachment | None
    ) -> list[ReplicaRecord]:
        """Return the replicas; engines that run already, and are meant to run like that, stay as they are."""
        running_members = [
            member for member in (before.all_members if before is not None else ()) if member.weights == weights != ""
        ]
        kept_members: list[ReplicaRecord] = []
        new: list[LocalReplica] = []
        for entry in local:
            same = next((member for member in running_members if member.local == entry), None)
            if same is None:
                new.append(entry)
            else:
                running_members.remove(same)
                kept_members.append(msgspec.structs.replace(same, is_drained=False))
        names = iter(free_names(kept_members, len(new) + len(addresses)))
        elsewhere = [ReplicaRecord(name=next(names), url=url) for url in addresses]
        return [*elsewhere, *kept_members, *(self._seat_entry(next(names), weights, entry) for entry in new)]

    def _seat_entry(self, name: str, weights: str, entry: LocalReplica) -> ReplicaRecord:
        url = local_url(self._services.supervisor.pick_port())
        return ReplicaRecord(name=name, url=url, weights=weights, local=entry)

    async def _plan_addition(self, fleet: Attachment, request: AddReplica) -> ReplicaRecord:
        (name,) = free_names(fleet.all_members, 1)
        if request.url:
            (url,) = check_addresses([request.url], own=self._services.identity.url)
            if any(member.url == url for member in fleet.all_members):
                raise Conflict(f"The fleet {fleet.name} has the replica {url} already.")
            key = await asyncio.to_thread(self._services.library.attachments.read_key, fleet.name)
            await ask_replicas([url], key, fleet.served_as)
            return ReplicaRecord(name=name, url=url)
        weights = next((member.weights for member in fleet.all_members if member.weights), "")
        if not weights:
            raise BadRequest(
                f"The fleet {fleet.name} has no engine on this computer whose weights another could have.",
                hint="Give an address, or start the fleet with a file that has such a replica.",
                code="invalid_value",
            )
        return self._seat_entry(name, weights, request.local)

    async def _take_out(self, name: str, member: ReplicaRecord) -> None:
        """Have no new request sent to a replica, and what follows from that happen by itself."""
        if not member.is_drained:
            out = msgspec.structs.replace(member, is_drained=True)

            def drain(fleet: Attachment) -> Attachment:
                if not with_member(fleet, out).replicas:
                    raise Conflict(
                        "It is the only replica that gets requests.",
                        hint=f"`roundhouse fleet stop {fleet.name}` stops the fleet.",
                    )
                return with_member(fleet, out)

            attachment = await self._change(name, drain)
            await self._tell_router(attachment)
            self._spawn_draining(attachment, out)

    def _spawn_draining(self, fleet: Attachment, member: ReplicaRecord) -> None:
        seat = seat_name(fleet.name, member.name)
        self._drain_tasks[seat] = task = self._background.spawn(self._finish_draining(fleet, member))
        task.add_done_callback(lambda _: self._drain_tasks.pop(seat, None))
        task.add_done_callback(lambda _: self.note_change())

    async def _finish_draining(self, fleet: Attachment, member: ReplicaRecord) -> None:
        await self._services.supervisor.wait_for_holders(fleet.name)
        now = next((other for other in await self._read_fleets() if other.name == fleet.name), None)
        is_back = now is not None and any(
            other.name == member.name and not other.is_drained for other in now.all_members
        )
        if not is_back:
            await self._engines.stop_seats(fleet, [member])

    async def _end_engines(self, fleet: Attachment) -> None:
        await self._services.supervisor.expire_model(fleet.name)
        for member in fleet.all_members:
            now = next((other for other in await self._read_fleets() if other.name == fleet.name), None)
            if now is None or now.is_stopped:  # nobody has started it again meanwhile
                await self._engines.stop_seats(fleet, [member])
        self.note_change()

    async def _roll(self, name: str, members: Sequence[ReplicaRecord], weights: str) -> None:
        for number, member in enumerate(members, start=1):
            self._rolling_notes[name] = f"Replica {member.name} is started anew ({number} of {len(members)})."
            self.note_change()
            problem = await self._roll_member(name, member, weights)
            if problem:
                self._rolling_notes[name] = f"The change ended at replica {member.name}: {problem}"
                self.note_change()
                return
        self._rolling_notes.pop(name, None)
        self.note_change()

    async def _roll_member(self, name: str, member: ReplicaRecord, weights: str) -> str:
        """Start one engine anew; with its former weights where the others fail. Return why, or nothing."""
        seat = seat_name(name, member.name)
        self._resting_seats.add(seat)
        try:
            fleet = await self._find(name)
            await self._tell_router(fleet)
            await self._services.supervisor.wait_for_holders(name)
            await self._engines.stop_seats(fleet, [member])
            self._health.forget(name, member)
            changed_member = msgspec.structs.replace(member, weights=weights or member.weights)
            problem = await self._load_changed(name, changed_member)
            if problem and changed_member != member:
                await self._load_changed(name, member)
        except RoundhouseError as error:
            problem = error.body.sentence
        finally:
            self._resting_seats.discard(seat)
        await self._settle(await self._find(name))
        await self._wait_until_listed(name, member)
        return problem

    async def _wait_until_listed(self, name: str, member: ReplicaRecord) -> None:
        """Wait until a router that runs gives a replica requests: it looks at it first, while the next one rests."""
        for _ in range(_LOOKS_AT_ROUTER):
            fleet = await self._find(name)
            await self._tell_router(fleet)
            url = find_member(fleet, member.name).url
            workers = self._workers.get(name)
            if workers is None or any(worker.url == url and worker.is_healthy is not False for worker in workers):
                return
            await asyncio.sleep(1.0)

    async def _load_changed(self, name: str, member: ReplicaRecord) -> str:
        return await self._engines.load_now(await self._change(name, lambda fleet: with_member(fleet, member)), member)

    async def _settle(self, fleet: Attachment) -> None:
        """Have the engines started and the router told, without waiting for the next look."""
        self._engines.start_missing(fleet, but=self._resting_seats)
        await self._tell_router(fleet)
        self.note_change()

    async def _change(self, name: str, change: Callable[[Attachment], Attachment]) -> Attachment:
        """Rewrite the record of a fleet, and return it. Raises NotFound, and what `change` raises."""
        fleet = await self._find(name)
        model = await asyncio.to_thread(self._services.library.correct_attachment, fleet.name, change)
        self._services.events.publish(ModelsChanged())
        self.note_change()
        return self._services.library.find_attachment(model)

    async def _find(self, name: str) -> Attachment:
        model = await asyncio.to_thread(self._services.library.find_model, name)
        if not model.router or model.preset is not None:
            raise NotFound(f"{model.name} is not a fleet.", hint="`roundhouse fleet list` lists the fleets.")
        return self._services.library.find_attachment(model)

    async def _read_fleets(self) -> list[Attachment]:
        library = self._services.library
        models = await asyncio.to_thread(library.list_models)
        return [library.find_attachment(model) for model in models if model.router and model.preset is None]


def _key_for(before: Attachment | None, key_before: str) -> str:
    """Return the key of engines on this computer: the one that they have already, else a new one."""
    has_local = before is not None and any(member.weights for member in before.all_members)
    return key_before if has_local else secrets.token_urlsafe(_NEW_KEY_BYTES)


def needs_new_router(before: Attachment, after: Attachment) -> bool:
    """Tell whether a router that runs cannot go on: it is another, or none of its replicas stays until it is told."""
    if (before.router, before.policy, before.served_as) != (after.router, after.policy, after.served_as):
        return True
    return set(before.replicas).isdisjoint(after.replicas)


def _without_member(fleet: Attachment, member: ReplicaRecord) -> Attachment:
    return fleet.with_members([other for other in fleet.all_members if other.name != member.name])


FLEETS = web.AppKey("fleets", FleetKeeper)
