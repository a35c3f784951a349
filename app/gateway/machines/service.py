"""`Machines` owns what this machine has to do with paired ones: its identity, the list, the listener, their models.

Nothing of it runs, and no key is made, before `machines.enabled` is on. What is paired is asked every `LOOK_S` how busy
it is and what it has; its models are attached endpoints, whose addresses name the machine and not where it is
(`core.machines.DOMAIN`), so that they stay the same in another network.
"""

import asyncio
import base64
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from app.core.errors import Conflict, NotFound, RoundhouseError, Unavailable
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
from app.gateway.machines.file_giving import SHARES
from app.gateway.machines.listener import MOST_MODELS, STATE, MachineListener, MachineOwner, MachineState
from app.gateway.machines.own_models import list_own_models
from app.gateway.machines.pairing_calls import (
    DEFAULT_PORT,
    address_towards,
    decode_reply,
    describe_miss,
    exchange_code,
    is_refusal,
    split_host,
)
from app.gateway.machines.routing import MachineModel
from app.gateway.machines.trust import host_of
from app.gateway.services import Services
from app.hub.download.job import MachineSource, MachineSources
from app.hub.library.attached import Attachment
from app.machines.names import mac_of, machine_name, own_addresses
from app.machines.pairing import PairGuest, PairHost, PairInitiator
from app.machines.waking import wake_card
from app.network.machine_addresses import machine_addresses
from app.supervisor.faults import StartFailed
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import RemoteModel

if TYPE_CHECKING:
    from app.gateway.across.lending import LayerLender

T = TypeVar("T")

log = logging.getLogger(__name__)

ENABLED, WAKE, FETCHES = "machines.enabled", "machines.wake", "downloads.from_machines"
LOOK_S = 5.0
_ASK_S = 5.0
_MISSES = 2
WAKE_S = 90.0
"""A request waits so long for a machine that is woken: from hibernation that takes most of a minute."""
_WAKE_LOOK_S = 1.0
_WAKE_AGAIN_S = 300.0
"""A machine that did not come keeps no other request waiting for so long."""


class Machines:
    """The owner. Belongs to the event loop's thread."""

    def __init__(self, services: Services, note_revoked: Callable[[str], object] = lambda _name: None) -> None:
        """Take what is told the name of a machine that is trusted no longer."""
        self._services, self._note_revoked = services, note_revoked
        self._paths = services.paths
        self._background = Background()
        self._wake_calls = SharedWork()
        self._woken_in_vain: dict[str, float] = {}
        """When a machine was woken last and did not come, by fingerprint."""
        services.machine_routes.wake = self._wake_and_wait
        self._trusted_machines = services.trusted_machines
        self._open_lock = asyncio.Lock()
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
        self._listed_names: dict[str, set[str]] = {}
        """The models of each that are in the list here."""
        self._local_address = ""
        self._discovery = MachineDiscovery(lambda: services.events.publish(MachinesChanged()))
        self._published_list: MachineList | None = None
        """What those who watch know."""

    # what people and programs of this account do

    async def describe(self) -> MachineList:
        """Return this machine and the paired ones."""
        name = self._own_name()
        if not self._is_enabled:
            return MachineList(name=name, fingerprint="", port=0, machines=[])
        await self._open()
        machines = [self._describe_machine(machine) for machine in self._trusted_machines.list_machines()]
        return MachineList(
            name=name,
            fingerprint=self._trusted_machines.own.fingerprint,
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
        self._local_address = await asyncio.to_thread(address_towards, host, port)
        initiator = await asyncio.to_thread(PairInitiator, request.code, self._make_card())
        card = await exchange_code(self._services.http, (host, port), initiator)
        machine = await self._trust(card, host, is_confirmed=False)
        await self._look_at(machine)  # what it is asked with our certificate has the other machine trust this one
        if not self._trusted_machines.has_machine(machine):
            raise Conflict(self._problem, code="pairing_unfinished")
        await self._update_routes()
        self._services.events.publish(MachinesChanged())
        return self._describe_machine(machine)

    async def revoke(self, name: str) -> None:
        """Trust a machine no longer: its connections end now, both ways, and its models leave the list."""
        await self._open()
        await self._forget_machine(self._trusted_machines.find_machine(name))

    async def _forget_machine(self, machine: PairedMachine) -> None:
        await self._trusted_machines.distrust_machine(machine)
        self._note_revoked(machine.name)
        if self._listener is not None:
            self._listener.cut_machine(machine.fingerprint)
        self._states.pop(machine.fingerprint, None)
        self._problems.pop(machine.fingerprint, None)
        self._listed_names.pop(machine.fingerprint, None)
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
        machine = await self._trusted_machines.change_machine(
            replace(self._trusted_machines.find_machine(name), lends_memory=change.lends_memory)
        )
        if self._lender is not None and not machine.lends_memory:
            self._lender.withdraw_memory(machine)
        self._services.events.publish(MachinesChanged())
        return self._describe_machine(machine)

    async def wake(self, name: str) -> None:
        """Send the packet that wakes a machine. Raises NotFound, Conflict where its card is not known, Offline."""
        await self._open()
        machine = self._trusted_machines.find_machine(name)
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
        for machine in self._trusted_machines.list_machines():
            is_asleep = self._misses.get(machine.fingerprint, 0) > 0
            if may_wake and is_asleep and machine.mac and self._may_wake_again(machine):
                routes.put_sleeping(machine.name, await self._models_of(machine))
            else:
                routes.forget_sleeping(machine.name)

    def _may_wake_again(self, machine: PairedMachine) -> bool:
        return time.monotonic() - self._woken_in_vain.get(machine.fingerprint, -math.inf) > _WAKE_AGAIN_S

    async def _wake_and_wait(self, name: str) -> None:
        """Wake a machine for requests, once for all that wait, and return when it answers or does not come."""
        machine = next((machine for machine in self._trusted_machines.list_machines() if machine.name == name), None)
        if machine is not None:
            await self._wake_calls.run_once(machine.fingerprint, partial(self._wake_until_it_answers, machine))

    async def _wake_until_it_answers(self, machine: PairedMachine) -> None:
        log.info("A machine is woken for a request", extra={"machine": machine.name})
        deadline_s = time.monotonic() + WAKE_S
        while time.monotonic() < deadline_s and self._trusted_machines.has_machine(machine) and self._is_enabled:
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
                    await asyncio.gather(
                        *(self._look_at(machine) for machine in self._trusted_machines.list_machines())
                    )
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
        if listing != self._published_list:
            self._published_list = listing
            self._services.events.publish(MachinesChanged())

    async def close(self) -> None:
        """End every connection."""
        await self._background.join(cancel=True)
        await self._shut()

    async def _open(self) -> None:
        """Have identity, list and listener. Raises Conflict while it is switched off, EnvironmentFault."""
        async with self._open_lock:
            await self._trusted_machines.open_list()
            if self._listener is None:
                await self._listen()
                self._problem = ""

    async def _listen(self) -> None:
        from app.gateway.across.lending import LayerLender  # noqa: PLC0415 -- it needs the listener, and nobody else

        settings = self._services.settings
        endpoint = bind(settings.get_text("machines.host"), settings.get_int("machines.port"))
        self._lender = LayerLender(self._services)
        owner = MachineOwner(self._expect_guest, self._trust_guest, self.own_state)
        listener = MachineListener(self._services, self._host, owner, self._lender)
        await listener.start(endpoint.sockets, await self._trusted_machines.server_context())
        self._listener = listener
        self._port = endpoint.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        await self._discovery.close()
        for machine in self._trusted_machines.list_machines():
            self._services.machine_routes.forget_sleeping(machine.name)
            self._note_revoked(machine.name)
        if self._listener is not None:
            await self._listener.close()
            self._listener, self._port = None, 0
        self._trusted_machines.close_list()
        self._host.hide_code()

    async def _announce(self) -> None:
        addresses = await asyncio.to_thread(own_addresses, self._services.settings.get_text("machines.host"))
        own = Announcement(self._own_name(), self._trusted_machines.own.fingerprint, self._port, addresses)
        await self._discovery.announce(own)

    def _list_nearby(self) -> list[NearbyMachine]:
        known_fingerprints = {machine.fingerprint for machine in self._trusted_machines.list_machines()} | {
            self._trusted_machines.own.fingerprint
        }
        return [
            nearby for nearby in self._discovery.nearby.list_machines() if nearby.fingerprint not in known_fingerprints
        ]

    async def _find_again(self) -> None:
        """Look for machines that do not answer where others of their certificate's hash say they are.

        Anybody can say that: the new address is kept only once TLS has proved the certificate.
        """
        for machine in self._trusted_machines.list_machines():
            if self._states.get(machine.fingerprint) is not None:
                continue
            for nearby in self._discovery.nearby.list_machines():
                if nearby.fingerprint == machine.fingerprint and (nearby.host, nearby.port) != (
                    machine.host,
                    machine.port,
                ):
                    await self._try_address(machine, replace(machine, host=nearby.host, port=nearby.port))

    async def _try_address(self, machine: PairedMachine, moved_machine: PairedMachine) -> None:
        await self._trusted_machines.pin_machine(moved_machine)
        await self._look_at(moved_machine)
        if not self._trusted_machines.has_machine(machine):  # it was revoked meanwhile
            machine_addresses.remove_host(host_of(machine))
        elif self._states.get(machine.fingerprint) is None:
            await self._trusted_machines.pin_machine(machine)
        else:
            known_machine = self._trusted_machines.find_machine(
                machine.fingerprint
            )  # what it is allowed may be other than before
            await self._trusted_machines.change_machine(
                replace(known_machine, host=moved_machine.host, port=moved_machine.port, is_confirmed=True)
            )
            log.info("A paired machine has another address", extra={"machine": machine.name})

    # trust

    async def _expect_guest(self, card: MachineCard, host: str) -> None:
        """Let in whom the exchange proved, to be trusted with its first request. Raises BadRequest, StorageFault."""
        guest = PairedMachine(name=card.name, certificate=card.certificate, host=host, port=card.port)
        await self._trusted_machines.expect_machine(guest)
        self._host.put_guest(guest.fingerprint, card, host)

    async def _trust_guest(self, guest: PairGuest) -> None:
        machine = await self._trust(guest.card, guest.host, is_confirmed=True)
        self._host.remove_guest(machine.fingerprint)
        self._services.events.publish(MachinesChanged())
        self._background.spawn(self._look_at(machine))

    async def _trust(self, card: MachineCard, host: str, *, is_confirmed: bool) -> PairedMachine:
        """Keep whom the exchange proved. Raises BadRequest for a certificate that is none, StorageFault."""
        machine = PairedMachine(
            name=card.name,
            certificate=card.certificate,
            host=host,
            port=card.port,
            mac=card.mac,
            paired_at=time.time(),
            is_confirmed=is_confirmed,
        )
        kept_machine = await self._trusted_machines.trust_machine(machine)
        self._problem = ""
        return kept_machine

    async def _confirm(self, machine: PairedMachine) -> None:
        """Note that a machine knows that it is paired, unless it was revoked meanwhile."""
        if self._trusted_machines.has_machine(machine):
            known_machine = self._trusted_machines.find_machine(machine.fingerprint)
            await self._trusted_machines.change_machine(replace(known_machine, is_confirmed=True))

    async def _undo_pairing(self, machine: PairedMachine) -> None:
        """Forget a machine that has never answered and does not know this one: it lost the other half."""
        await self._forget_machine(machine)
        self._problem = (
            f"{machine.name} did not finish the pairing, so neither trusts the other. "
            "Have it show a new code, and pair again."
        )
        log.warning("%s", self._problem)

    # files

    async def find_sources(self) -> MachineSources | None:
        """Return the machines that give files out and answer now, to fetch from before the hub; None without any."""
        if not self._is_enabled or not self._services.settings.get_flag(FETCHES):
            return None
        try:
            await self._open()
        except RoundhouseError:  # the downloads do without
            return None
        machines = self._trusted_machines.list_machines()
        await asyncio.gather(*(self._look_at(each) for each in machines if each.fingerprint not in self._states))
        sources = [
            MachineSource(name=machine.name, address=machine.host, port=machine.port, certificate=machine.certificate)
            for machine in self._trusted_machines.list_machines()
            if (state := self._states.get(machine.fingerprint)) is not None and state.shares_files
        ]
        own = self._trusted_machines.own
        return MachineSources(identity_file=str(own.file), passphrase=own.passphrase, machines=sources)

    # looking

    async def own_state(self, asker: PairedMachine | None = None) -> MachineState:
        """Return what this machine itself has, and how busy that is; for a paired machine what it may use of it."""
        is_for_memory = asker is not None and asker.is_memory_only
        loads = [] if is_for_memory else await list_own_models(self._services)
        return MachineState(
            name=self._own_name(),
            models=loads[:MOST_MODELS],
            shares_files=self._services.settings.get_flag(SHARES) and not is_for_memory,
            lends_memory=asker is not None and asker.lends_memory,
        )

    async def _look_at(self, machine: PairedMachine) -> None:
        """Ask a machine how busy it is; when it has other models than before, list those."""
        endpoint = EngineEndpoint(base_url=machine.url, key="", served_name="")
        try:
            reply = await endpoint.send_request("GET", STATE, timeout_s=_ASK_S)
            state = decode_reply(reply.status, reply.body, MachineState)
        except (OSError, ValueError, RoundhouseError) as error:  # msgspec's errors are ValueErrors
            await self._note_miss(machine, error)
            return
        if not machine.is_confirmed:
            await self._confirm(machine)
        self._states[machine.fingerprint] = state
        self._misses.pop(machine.fingerprint, None)
        self._problems.pop(machine.fingerprint, None)
        if self._listed_names.get(machine.fingerprint) != _names_in(state):
            try:
                await self._list_models_of(machine)
                self._listed_names[machine.fingerprint] = _names_in(state)
            except (RoundhouseError, StartFailed, OSError) as error:  # it is asked again soon
                log.info("The models of %s were not listed: %s", machine.name, error)
                self._problems[machine.fingerprint] = str(error)

    async def _note_miss(self, machine: PairedMachine, error: Exception) -> None:
        if is_refusal(error) and not machine.is_confirmed and self._trusted_machines.has_machine(machine):
            await self._undo_pairing(machine)
            return
        self._states[machine.fingerprint] = None
        self._misses[machine.fingerprint] = self._misses.get(machine.fingerprint, 0) + 1
        if self._misses[machine.fingerprint] >= _MISSES:  # it sleeps or hangs: nobody need wait for it any longer
            machine_addresses.connections.cut_all(host_of(machine))
        self._problems[machine.fingerprint] = describe_miss(machine, error)

    async def _update_routes(self) -> None:
        own = await self.own_state() if self._trusted_machines.list_machines() else None
        models = [(load.name, _model_of(load, "", "")) for load in own.models] if own is not None else []
        for machine in self._trusted_machines.list_machines():
            if (state := self._states.get(machine.fingerprint)) is not None:
                self._services.machine_routes.note_return(machine.name)
                models += [(load.name, _model_of(load, machine.name, f"@{machine.name}")) for load in state.models]
        self._services.machine_routes.put_models(models)

    async def _list_models_of(self, machine: PairedMachine) -> None:
        base, models = f"{machine.url}/v1", list[RemoteModel]()
        if self._has_models(machine):
            base, models = await find_endpoint_models(base, "")
            models = models[:MOST_MODELS]
        cards = await cards_of(EngineEndpoint(base_url=base, key="", served_name=""), models)
        models_there = await self._models_of(machine)
        served_ids = {model.id for model in models}
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
            if model.id not in models_there.values()
        ]
        if self._trusted_machines.has_machine(machine):  # it may have been revoked meanwhile
            await asyncio.to_thread(self._services.library.attach_models, records, "")
            for name, served_as in models_there.items():
                if served_as not in served_ids:
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
        address = self._local_address or address_towards("192.0.2.1", DEFAULT_PORT)
        return MachineCard(
            name=self._own_name(),
            certificate=base64.b64encode(self._trusted_machines.own.certificate).decode(),
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
            shares_files=state is not None and state.shares_files,
            lends_memory=machine.lends_memory,
            is_lender=state is not None and state.lends_memory,
            is_memory_only=machine.is_memory_only,
            models=[replace(load, name=f"{load.name}@{machine.name}") for load in state.models] if state else [],
        )


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
