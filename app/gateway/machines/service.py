"""`Machines` owns what this machine has to do with paired ones: its identity, the list, the listener, their models.

Nothing of it runs, and no key is made, before `machines.enabled` is on. What is paired is asked every `LOOK_S` how busy
it is and what it has; its models are attached endpoints, whose addresses name the machine and not where it is
(`core.machines.DOMAIN`), so that they stay the same in another network.
"""

import asyncio
import base64
import logging
import math
import socket
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import aiohttp
import msgspec
from msgspec.structs import replace

from app.core.connections import ConnectionReason, Purpose
from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest, Conflict, ErrorBody, NotFound, RoundhouseError, Unavailable
from app.core.events import MachinesChanged, ModelsChanged
from app.core.machines import (
    ChangeMachine,
    MachineCard,
    MachineCode,
    MachineList,
    MachineStanding,
    ModelLoad,
    NearbyMachine,
    PairedMachine,
    PairMachine,
)
from app.gateway.background import Background, SharedWork
from app.gateway.instance import bind
from app.gateway.library.attached_endpoints import find_endpoint_models, make_knowledge
from app.gateway.library.endpoint_cards import cards_of
from app.gateway.machines.discovery import Announcement, MachineDiscovery
from app.gateway.machines.listener import OPEN, PROVE, STATE, MachineListener, MachineState
from app.gateway.machines.routing import MachineModel
from app.gateway.machines.trust import host_of
from app.gateway.services import Services
from app.hub.library.attached import Attachment
from app.machines.names import mac_of, machine_name, own_addresses
from app.machines.pairing import (
    LONGEST_MESSAGE,
    PairHost,
    PairInitiator,
    PairReply,
    PairVerdict,
)
from app.machines.waking import wake_card
from app.network.connector import OutboundRequest
from app.network.machine_addresses import machine_addresses
from app.network.pinned_tls import make_stranger_context
from app.supervisor.faults import StartFailed
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import RemoteModel

if TYPE_CHECKING:
    from app.gateway.across.lending import LayerLender

T = TypeVar("T")

log = logging.getLogger(__name__)

ENABLED, WAKE = "machines.enabled", "machines.wake"
DEFAULT_PORT = 11643
LOOK_S = 5.0
_ASK_S = 5.0
_PAIR_S = 20.0
_MISSES = 2
WAKE_S = 90.0
"""A request waits so long for a machine that is woken: from hibernation that takes most of a minute."""
_WAKE_LOOK_S = 1.0
_WAKE_AGAIN_S = 300.0
"""A machine that did not come keeps no other request waiting for so long."""
_LATEST = 8
"""Answers whose speed is looked at."""


class Machines:
    """The owner. Belongs to the event loop's thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._paths = services.paths
        self._background = Background()
        self._waking = SharedWork()
        self._woken_in_vain: dict[str, float] = {}
        """When a machine was woken last and did not come, by fingerprint."""
        services.machine_routes.wake = self._wake_and_wait
        self._trusted = services.trusted
        self._opening = asyncio.Lock()
        self._listener: MachineListener | None = None
        self._lender: LayerLender | None = None
        self._port = 0
        self._problem = ""
        self._host = PairHost(self._make_card)
        self._states: dict[str, MachineState | None] = {}
        """By fingerprint; None for a machine that does not answer."""
        self._problems: dict[str, str] = {}
        self._misses: dict[str, int] = {}
        """Looks in a row that a machine did not answer."""
        self._listed: dict[str, set[str]] = {}
        """The models of each that are in the list here."""
        self._local_address = ""
        self._discovery = MachineDiscovery(lambda: services.events.publish(MachinesChanged()))
        self._published: MachineList | None = None
        """What those who watch know."""

    # what people and programs of this account do

    async def describe(self) -> MachineList:
        """Return this machine and the paired ones."""
        name = self._own_name()
        if not self._is_enabled:
            return MachineList(name=name, fingerprint="", port=0, machines=[])
        await self._open()
        machines = [self._describe_machine(machine) for machine in self._trusted.list_machines()]
        return MachineList(
            name=name,
            fingerprint=self._trusted.own.fingerprint,
            port=self._port,
            problem=self._problem,
            is_pairing=self._host.is_open,
            machines=machines,
            nearby=self._list_nearby(),
        )

    async def show_code(self) -> MachineCode:
        """Let one machine be paired by a new code. Raises Conflict while other machines are not let in."""
        await self._open()
        code = self._host.show_code()
        self._services.events.publish(MachinesChanged())
        return code

    async def hide_code(self) -> None:
        """Let no machine be paired."""
        self._host.hide_code()
        self._services.events.publish(MachinesChanged())

    async def pair(self, request: PairMachine) -> MachineStanding:
        """Pair with the machine that shows a code. Raises BadRequest, PairRefusal, Unavailable, Offline."""
        await self._open()
        host, port = split_host(request.host)
        self._local_address = await asyncio.to_thread(_address_towards, host, port)
        initiator = await asyncio.to_thread(PairInitiator, request.code, self._make_card())
        base = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        reply = await self._send_message(base + OPEN, initiator.make_opening(), PairReply)
        proof = await asyncio.to_thread(initiator.answer_reply, reply)
        card = initiator.check_verdict(await self._send_message(base + PROVE, proof, PairVerdict))
        machine = await self._trust(card, host)
        await self._look_at(machine)
        await self._update_routes()
        self._services.events.publish(MachinesChanged())
        return self._describe_machine(machine)

    async def revoke(self, name: str) -> None:
        """Trust a machine no longer: its connections end now, both ways, and its models leave the list."""
        await self._open()
        machine = self._trusted.find_machine(name)
        await self._trusted.distrust_machine(machine)
        if self._listener is not None:
            self._listener.cut_machine(machine.fingerprint)
        self._states.pop(machine.fingerprint, None)
        self._problems.pop(machine.fingerprint, None)
        self._listed.pop(machine.fingerprint, None)
        self._misses.pop(machine.fingerprint, None)
        self._services.machine_routes.forget_sleeping(machine.name)
        await self._update_routes()
        for model in await self._models_of(machine):
            await self._forget_model(model)
        self._services.events.publish(ModelsChanged())
        self._services.events.publish(MachinesChanged())

    async def change(self, name: str, change: ChangeMachine) -> MachineStanding:
        """Lend a machine memory, or no longer: then what it holds here ends now. Raises NotFound, StorageFault."""
        await self._open()
        machine = await self._trusted.change_machine(
            replace(self._trusted.find_machine(name), lends_memory=change.lends_memory)
        )
        if self._lender is not None and not machine.lends_memory:
            self._lender.withdraw_memory(machine)
        self._services.events.publish(MachinesChanged())
        return self._describe_machine(machine)

    async def wake(self, name: str) -> None:
        """Send the packet that wakes a machine. Raises NotFound, Conflict where its card is not known, Offline."""
        await self._open()
        machine = self._trusted.find_machine(name)
        if not machine.mac:
            raise Conflict(
                f"The hardware address of {machine.name} is not known.", hint="Pair it again over its network cable."
            )
        try:
            await asyncio.to_thread(wake_card, machine.mac, machine.name)
        except OSError as error:
            raise Unavailable(f"The packet could not be sent: {error.strerror or error}.") from error

    async def _note_sleeping(self) -> None:
        """Tell the routes which machines a request may wake, and for what."""
        routes, may_wake = self._services.machine_routes, self._services.settings.get_flag(WAKE)
        for machine in self._trusted.list_machines():
            is_asleep = self._misses.get(machine.fingerprint, 0) > 0
            if may_wake and is_asleep and machine.mac and self._may_wake_again(machine):
                routes.put_sleeping(machine.name, await self._models_of(machine))
            else:
                routes.forget_sleeping(machine.name)

    def _may_wake_again(self, machine: PairedMachine) -> bool:
        return time.monotonic() - self._woken_in_vain.get(machine.fingerprint, -math.inf) > _WAKE_AGAIN_S

    async def _wake_and_wait(self, name: str) -> None:
        """Wake a machine for requests, once for all that wait, and return when it answers or does not come."""
        machine = next((machine for machine in self._trusted.list_machines() if machine.name == name), None)
        if machine is not None:
            await self._waking.run_once(machine.fingerprint, partial(self._wake_until_it_answers, machine))

    async def _wake_until_it_answers(self, machine: PairedMachine) -> None:
        log.info("A machine is woken for a request", extra={"machine": machine.name})
        deadline_s = time.monotonic() + WAKE_S
        while time.monotonic() < deadline_s and self._trusted.has_machine(machine) and self._is_enabled:
            try:
                await asyncio.to_thread(wake_card, machine.mac, machine.name)
            except (OSError, RoundhouseError) as error:  # the request says what comes of that
                log.info("%s could not be woken: %s", machine.name, error)
                break
            await self._look_at(machine)
            if self._states.get(machine.fingerprint) is not None:
                await self._update_routes()
                return
            await asyncio.sleep(_WAKE_LOOK_S)
        self._woken_in_vain[machine.fingerprint] = time.monotonic()
        self._services.machine_routes.forget_sleeping(machine.name)

    # life

    async def run_forever(self) -> None:
        """Look at the paired machines every now and then, as long as that is switched on."""
        while True:
            try:
                if self._is_enabled:
                    await self._open()
                    await self._announce()
                    await asyncio.gather(*(self._look_at(machine) for machine in self._trusted.list_machines()))
                    await self._find_again()
                    await self._note_sleeping()
                    await self._update_routes()
                    await self._publish_changes()
                elif self._listener is not None:
                    await self._shut()
                    self._services.events.publish(MachinesChanged())
            except RoundhouseError as error:
                if self._problem != str(error):
                    log.warning("%s", error)
                self._problem = str(error)
            except Exception:  # one failure must not end the looking
                log.exception("Paired machines could not be looked at")
            await asyncio.sleep(LOOK_S)

    async def _publish_changes(self) -> None:
        """Tell those who watch if something is not what it was at the last look."""
        listing = await self.describe()
        if listing != self._published:
            self._published = listing
            self._services.events.publish(MachinesChanged())

    async def close(self) -> None:
        """End every connection."""
        await self._background.join(cancel=True)
        await self._shut()

    async def _open(self) -> None:
        """Have identity, list and listener. Raises Conflict while it is switched off, EnvironmentFault."""
        async with self._opening:
            await self._trusted.open_list()
            if self._listener is None:
                await self._listen()
                self._problem = ""

    async def _listen(self) -> None:
        from app.gateway.across.lending import LayerLender  # noqa: PLC0415 -- it needs the listener, and nobody else

        settings = self._services.settings
        endpoint = bind(settings.get_text("machines.host"), settings.get_int("machines.port"))
        self._lender = LayerLender(self._services)
        listener = MachineListener(self._services, self._host, self._trust_guest, self.own_state, self._lender)
        await listener.start(endpoint.sockets, await self._trusted.server_context())
        self._listener = listener
        self._port = endpoint.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        await self._discovery.close()
        for machine in self._trusted.list_machines():
            self._services.machine_routes.forget_sleeping(machine.name)
        if self._listener is not None:
            await self._listener.close()
            self._listener, self._port = None, 0
        self._trusted.close_list()
        self._host.hide_code()

    async def _announce(self) -> None:
        addresses = await asyncio.to_thread(own_addresses, self._services.settings.get_text("machines.host"))
        own = Announcement(self._own_name(), self._trusted.own.fingerprint, self._port, addresses)
        await self._discovery.announce(own)

    def _list_nearby(self) -> list[NearbyMachine]:
        known = {machine.fingerprint for machine in self._trusted.list_machines()} | {self._trusted.own.fingerprint}
        return [nearby for nearby in self._discovery.nearby.list_machines() if nearby.fingerprint not in known]

    async def _find_again(self) -> None:
        """Look for machines that do not answer where others of their certificate's hash say they are.

        Anybody can say that: the new address is kept only once TLS has proved the certificate.
        """
        for machine in self._trusted.list_machines():
            if self._states.get(machine.fingerprint) is not None:
                continue
            for nearby in self._discovery.nearby.list_machines():
                if nearby.fingerprint == machine.fingerprint and (nearby.host, nearby.port) != (
                    machine.host,
                    machine.port,
                ):
                    await self._try_address(machine, replace(machine, host=nearby.host, port=nearby.port))

    async def _try_address(self, machine: PairedMachine, moved: PairedMachine) -> None:
        await self._trusted.pin_machine(moved)
        await self._look_at(moved)
        if not self._trusted.has_machine(machine):  # it was revoked meanwhile
            machine_addresses.remove_host(host_of(machine))
        elif self._states.get(machine.fingerprint) is None:
            await self._trusted.pin_machine(machine)
        else:
            known = self._trusted.find_machine(machine.fingerprint)  # what it is allowed may be other than before
            await self._trusted.change_machine(replace(known, host=moved.host, port=moved.port))
            log.info("A paired machine has another address", extra={"machine": machine.name})

    # trust

    async def _trust_guest(self, card: MachineCard, host: str) -> None:
        machine = await self._trust(card, host)
        self._services.events.publish(MachinesChanged())
        self._background.spawn(self._look_at(machine))

    async def _trust(self, card: MachineCard, host: str) -> PairedMachine:
        """Keep whom the exchange proved. Raises BadRequest for a certificate that is none, StorageFault."""
        return await self._trusted.trust_machine(
            PairedMachine(
                name=card.name,
                certificate=card.certificate,
                host=host,
                port=card.port,
                mac=card.mac,
                paired_at=time.time(),
            )
        )

    async def _send_message(self, url: str, message: msgspec.Struct, kind: type[T]) -> T:
        purpose = Purpose(why=ConnectionReason.MACHINES)
        try:
            with OutboundRequest(purpose).as_current():
                async with asyncio.timeout(_PAIR_S):
                    async with self._services.http.post(
                        url, data=msgspec.json.encode(message), ssl=make_stranger_context(), allow_redirects=False
                    ) as reply:
                        return _decode_reply(reply.status, await reply.content.read(LONGEST_MESSAGE), kind)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise Unavailable(
                "The other machine does not answer there.",
                hint="Look at its name or address, and that `machines.enabled` is on there.",
                code="machine_unreachable",
            ) from error

    # looking

    async def own_state(self, asker: PairedMachine | None = None) -> MachineState:
        """Return what this machine itself has, and how busy that is; for a paired machine what it may use of it."""
        is_for_memory = asker is not None and asker.is_memory_only
        models = [] if is_for_memory else await asyncio.to_thread(self._services.library.list_models)
        statuses = {status.model: status for status in self._services.supervisor.list_statuses()}
        loads = [
            await self._load_of(model.name, statuses.get(model.runs_as))
            for model in models
            if not (model.attached or model.problem or model.is_builtin)
        ]
        lends = asker is not None and asker.lends_memory
        return MachineState(name=self._own_name(), models=loads, lends_memory=lends)

    async def _load_of(self, name: str, status: EngineStatus | None) -> ModelLoad:
        if status is None or status.state is not EngineState.READY:
            return ModelLoad(name=name, load_s=status.load_seconds if status is not None else None)
        from statistics import median  # noqa: PLC0415 -- 10 ms that starting can do without

        generations = await self._services.measuring.generations(
            status.model, engine=status.engine, backend=status.backend
        )
        rates = [entry.completion_tokens / entry.decode_s for entry in generations[-_LATEST:] if entry.decode_s > 0]
        return ModelLoad(
            name=name,
            is_loaded=True,
            in_flight=status.in_flight + status.queued,
            slots=status.slots or 1,
            load_s=status.load_seconds,
            tokens_per_s=median(rates) if rates else None,
        )

    async def _look_at(self, machine: PairedMachine) -> None:
        """Ask a machine how busy it is; when it has other models than before, list those."""
        endpoint = EngineEndpoint(base_url=machine.url, key="", served_name="")
        try:
            reply = await endpoint.send_request("GET", STATE, timeout_s=_ASK_S)
            state = _decode_reply(reply.status, reply.body, MachineState)
        except (OSError, ValueError, RoundhouseError) as error:  # msgspec's errors are ValueErrors
            self._states[machine.fingerprint] = None
            self._misses[machine.fingerprint] = self._misses.get(machine.fingerprint, 0) + 1
            if self._misses[machine.fingerprint] >= _MISSES:  # it sleeps or hangs: nobody need wait for it any longer
                machine_addresses.connections.cut_all(host_of(machine))
            self._problems[machine.fingerprint] = str(error) or "It did not answer in time."
            return
        self._states[machine.fingerprint] = state
        self._misses.pop(machine.fingerprint, None)
        self._problems.pop(machine.fingerprint, None)
        if self._listed.get(machine.fingerprint) != _names_in(state):
            try:
                await self._list_models_of(machine)
                self._listed[machine.fingerprint] = _names_in(state)
            except (RoundhouseError, StartFailed, OSError) as error:  # it is asked again soon
                log.info("The models of %s were not listed: %s", machine.name, error)
                self._problems[machine.fingerprint] = str(error)

    async def _update_routes(self) -> None:
        own = await self.own_state() if self._trusted.list_machines() else None
        models = [(load.name, _model_of(load, "", "")) for load in own.models] if own is not None else []
        for machine in self._trusted.list_machines():
            if (state := self._states.get(machine.fingerprint)) is not None:
                self._services.machine_routes.note_return(machine.name)
                models += [(load.name, _model_of(load, machine.name, f"@{machine.name}")) for load in state.models]
        self._services.machine_routes.put_models(models)

    async def _list_models_of(self, machine: PairedMachine) -> None:
        base, models = f"{machine.url}/v1", list[RemoteModel]()
        if self._has_models(machine):
            base, models = await find_endpoint_models(base, "")
        cards = await cards_of(EngineEndpoint(base_url=base, key="", served_name=""), models)
        known = await self._models_of(machine)
        served = {model.id for model in models}
        records = [
            Attachment(
                name=model.id,
                url=base,
                served_as=model.id,
                known=make_knowledge(model, cards[model.id]),
                attached_at=time.time(),
                machine=machine.name,
            )
            for model in models
            if model.id not in known.values()
        ]
        if self._trusted.has_machine(machine):  # it may have been revoked meanwhile
            await asyncio.to_thread(self._services.library.attach_models, records, "")
            for name, served_as in known.items():
                if served_as not in served:
                    await self._forget_model(name)
            self._services.events.publish(ModelsChanged())

    def _has_models(self, machine: PairedMachine) -> bool:
        state = self._states.get(machine.fingerprint)
        return state is not None and bool(state.models)

    async def _models_of(self, machine: PairedMachine) -> dict[str, str]:
        """Return the models of a machine that are listed here: what they are called there, by their names."""
        models = await asyncio.to_thread(self._services.library.list_models)
        url = f"{machine.url}/v1"
        return {model.name: model.served_as for model in models if model.attached == url and model.preset is None}

    async def _forget_model(self, name: str) -> None:
        with suppress(NotFound):
            await asyncio.to_thread(self._services.library.forget_model, name)
        await self._services.supervisor.expire_model(name)

    # small things

    @property
    def _is_enabled(self) -> bool:
        return self._services.settings.get_flag(ENABLED)

    def _own_name(self) -> str:
        return machine_name(self._services.settings.get_text("machines.name"))

    def _make_card(self) -> MachineCard:
        address = self._local_address or _address_towards("192.0.2.1", DEFAULT_PORT)
        return MachineCard(
            name=self._own_name(),
            certificate=base64.b64encode(self._trusted.own.certificate).decode(),
            port=self._port,
            mac=mac_of(address),
        )

    def _describe_machine(self, machine: PairedMachine) -> MachineStanding:
        state = self._states.get(machine.fingerprint)
        is_known = machine.fingerprint in self._states
        return MachineStanding(
            name=machine.name,
            fingerprint=machine.fingerprint,
            host=machine.host,
            port=machine.port,
            mac=machine.mac,
            paired_at=machine.paired_at,
            is_reachable=(state is not None) if is_known else None,
            problem=self._problems.get(machine.fingerprint, ""),
            lends_memory=machine.lends_memory,
            is_lender=state is not None and state.lends_memory,
            is_memory_only=machine.is_memory_only,
            models=[replace(load, name=f"{load.name}@{machine.name}") for load in state.models] if state else [],
        )


def split_host(text: str) -> tuple[str, int]:
    """Return host and port of what a person types. Raises BadRequest."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = text.strip(), str(DEFAULT_PORT)
    host = host.strip("[]")
    is_host = host and all(character.isalnum() or character in ".-:_%" for character in host)
    if not is_host or not port.isdecimal() or not 0 < int(port) <= 65535:  # noqa: PLR2004 -- the last port there is
        raise BadRequest("Give a name or an address, as in desk.local or 192.168.1.7:11643.", code="invalid_value")
    return host, int(port)


def _model_of(load: ModelLoad, machine: str, suffix: str) -> MachineModel:
    return MachineModel(
        name=load.name + suffix,
        machine=machine,
        is_loaded=load.is_loaded,
        in_flight=load.in_flight,
        slots=load.slots,
        load_s=load.load_s,
        tokens_per_s=load.tokens_per_s,
    )


def _names_in(state: MachineState) -> set[str]:
    return {model.name for model in state.models}


def _address_towards(host: str, port: int) -> str:
    """Return the address of ours that packets to a host would leave from; empty where none would. Sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _decode_reply(status: int, body: bytes, kind: type[T]) -> T:
    if status == 200:  # noqa: PLR2004 -- HTTP's OK
        try:
            return msgspec.json.decode(body, type=kind)
        except (ValueError, RecursionError):
            raise Unavailable("What answers there is no Roundhouse.", code="machine_unreachable") from None
    raise _refusal_of(body)


class _RefusalReply(msgspec.Struct, frozen=True):
    error: ErrorBody


def _refusal_of(body: bytes) -> RoundhouseError:
    try:
        error = msgspec.json.decode(body, type=_RefusalReply).error
    except (ValueError, RecursionError):
        return Unavailable("What answers there is no Roundhouse.", code="machine_unreachable")
    return BadRequest(error.sentence, hint=error.hint, code=error.code)
