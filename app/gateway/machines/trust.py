"""Whom this machine trusts: its own certificate, the list of paired machines, and the contexts made of both.

One list for what paired machines ask and for the tunnel in which they hold layers of each other's models. Whoever is
taken off it loses every connection at once, both ways.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from app.config.paths import Paths
from app.core.errors import BadRequest, Conflict, StorageFault
from app.core.machines import PairedMachine
from app.machines.identity import load_identity
from app.machines.older_list import read_older_list
from app.machines.paired import PairedMachines
from app.network.machine_addresses import OpenConnections, machine_addresses
from app.network.pinned_tls import MachineAddress, TlsIdentity, make_client_context, make_server_context, trust_peer

log = logging.getLogger(__name__)

TUNNEL = "roundhouse-tunnel/1"
"""What a connection of the tunnel asks for in the handshake (ALPN); others speak HTTP."""


class TrustedMachines:
    """The owner of the list. Belongs to the event loop's thread; `is_enabled` says whether others are let in."""

    def __init__(self, paths: Paths, is_enabled: Callable[[], bool]) -> None:
        self._paths, self.is_enabled = paths, is_enabled
        self._open_lock = asyncio.Lock()
        self._identity: TlsIdentity | None = None
        self._paired_machines: PairedMachines | None = None
        self._context: ssl.SSLContext | None = None
        self.tunnels = OpenConnections()
        """The tunnel's connections, to and from each machine, by its fingerprint."""

    async def open_list(self) -> None:
        """Have identity and list. Raises Conflict while others are not let in, EnvironmentFault, StorageFault."""
        async with self._open_lock:
            if not self.is_enabled():
                raise Conflict(
                    "Other machines are not let in: `machines.enabled` is off.",
                    hint="Turn it on: `roundhouse settings machines.enabled true`.",
                    code="machines_off",
                )
            if self._paired_machines is not None:
                return
            self._identity = await asyncio.to_thread(load_identity, self._paths.machine_identity_file)
            paired_machines = await asyncio.to_thread(PairedMachines, self._paths.machines_file, self.own.fingerprint)
            await asyncio.to_thread(self._take_older_list, paired_machines)
            for machine in paired_machines.list_machines():
                await self.pin_machine(machine)
            self._paired_machines = paired_machines

    def close_list(self) -> None:
        """Let nobody in and call nobody, until the list is opened again."""
        for machine in self.list_machines():
            machine_addresses.remove_host(host_of(machine))
            self.tunnels.cut_all(machine.fingerprint)
        self._paired_machines = self._context = None

    @property
    def own(self) -> TlsIdentity:
        """This machine's certificate and key; the list was opened before."""
        assert self._identity is not None  # noqa: S101 -- for the type checker
        return self._identity

    def list_machines(self) -> list[PairedMachine]:
        """Return the paired machines by name; none before the list is opened."""
        return self._paired_machines.list_machines() if self._paired_machines is not None else []

    def find_machine(self, name: str) -> PairedMachine:
        """Return one by its name, id or fingerprint. Raises NotFound."""
        return self._list().find_machine(name)

    def fingerprints(self) -> Mapping[str, str]:
        """Return the names of the machines that are let in, by fingerprint; none while it is switched off."""
        return {machine.fingerprint: machine.name for machine in self.list_machines()} if self.is_enabled() else {}

    def has_machine(self, machine: PairedMachine) -> bool:
        """Tell whether a machine is trusted still."""
        return machine.fingerprint in self.fingerprints()

    async def server_context(self) -> ssl.SSLContext:
        """Return what this machine listens with: it lets in who is trusted, and who is to be paired."""
        certificates = self._list().certificates
        protocols = (TUNNEL, "http/1.1")
        self._context = await asyncio.to_thread(
            make_server_context, self.own, certificates, lets_pair=True, protocols=protocols
        )
        return self._context

    async def trust_machine(self, machine: PairedMachine) -> PairedMachine:
        """Keep whom a pairing proved; one that is paired again keeps what it was allowed.

        Raises BadRequest for a certificate that is none or this machine's own, StorageFault.
        """
        lenient = {each.certificate for each in self.list_machines() if each.lends_memory}
        machine = replace(machine, lends_memory=machine.certificate in lenient)
        self._accept_certificate(machine)
        kept_machine = await asyncio.to_thread(self._list().put_machine, machine)
        await self.pin_machine(kept_machine)
        log.info("A machine was paired", extra={"machine": kept_machine.name, "fingerprint": kept_machine.fingerprint})
        return kept_machine

    async def expect_machine(self, machine: PairedMachine) -> None:
        """Have one that proved the code let in by TLS, to be trusted when it comes. Raises BadRequest, StorageFault.

        Should this program end before, it is told that it is not trusted.
        """
        self._accept_certificate(machine)
        await asyncio.to_thread(self._list().note_former, machine)

    def _accept_certificate(self, machine: PairedMachine) -> None:
        """Have the listener accept a certificate. Raises BadRequest for one that is none, or this machine's."""
        assert self._context is not None  # noqa: S101 -- for the type checker: it listens
        try:
            if machine.fingerprint == self.own.fingerprint:
                raise BadRequest("This is this machine itself.", code="invalid_value")
            trust_peer(self._context, machine.certificate_der)
        except (ValueError, OSError) as error:  # ssl.SSLError is an OSError
            raise BadRequest("The other machine's certificate cannot be read.", code="invalid_value") from error

    async def change_machine(self, machine: PairedMachine) -> PairedMachine:
        """Keep another address, or what it is allowed, of a machine that is trusted. Raises StorageFault."""
        kept_machine = await asyncio.to_thread(self._list().put_machine, machine)
        await self.pin_machine(kept_machine)
        return kept_machine

    async def distrust_machine(self, machine: PairedMachine) -> None:
        """Trust a machine no longer, and end its connections, both ways. Raises StorageFault."""
        await asyncio.to_thread(self._list().remove_machine, machine)
        machine_addresses.remove_host(host_of(machine))
        self.tunnels.cut_all(machine.fingerprint)
        log.info("A machine was revoked", extra={"machine": machine.name})

    async def pin_machine(self, machine: PairedMachine) -> None:
        """Have a machine's endpoint here lead to where it is, and to nobody but it."""
        context = await asyncio.to_thread(make_client_context, self.own, machine.certificate_der)
        host = MachineAddress(machine.name, machine.host, machine.port, context, machine.fingerprint)
        machine_addresses.put_host(host_of(machine), host)

    def _list(self) -> PairedMachines:
        assert self._paired_machines is not None  # noqa: S101 -- for the type checker: `open_list` came first
        return self._paired_machines

    def _take_older_list(self, paired_machines: PairedMachines) -> None:
        """Move what `tunnel.toml` names into the list, once; the file stays beside it under another name."""
        file = self._paths.tunnel_file
        try:
            older = read_older_list(file)
            known_fingerprints = {machine.fingerprint for machine in paired_machines.list_machines()} | {
                self.own.fingerprint
            }
            for machine in older:
                if machine.fingerprint not in known_fingerprints:
                    paired_machines.put_machine(machine)
                    log.warning("%s of tunnel.toml is paired now, for memory only", machine.name)
            if file.exists():
                file.replace(file.with_suffix(".toml.moved"))
        except (ValueError, OSError, StorageFault) as error:
            log.warning("%s could not be moved to the list of paired machines: %s", file, error)


def host_of(machine: PairedMachine) -> str:
    """Return the host name that a machine has in addresses of ours."""
    return machine.url.removeprefix("https://")
