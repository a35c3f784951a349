"""Where paired machines are now, by the host name that each has in addresses of ours, and what it is called over.

One list for each process, as it has one network. Removing a machine ends its connections at once.
"""

import asyncio
from urllib.parse import urlsplit

from app.network.pinned_tls import MachineAddress


class OpenConnections:
    """The connections that are open to or from each machine. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._transports: dict[str, set[asyncio.WriteTransport]] = {}

    def add_transport(self, name: str, transport: asyncio.WriteTransport) -> None:
        """Note one that is open; those that have ended are forgotten. uvloop's take no weak references."""
        open_transports = {
            known_transport for known_transport in self._transports.get(name, ()) if not known_transport.is_closing()
        }
        self._transports[name] = open_transports | {transport}

    def cut_all(self, name: str) -> None:
        """Break off every one of a machine."""
        for transport in self._transports.pop(name, ()):
            transport.abort()


class MachineAddresses:
    """The list. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._hosts: dict[str, MachineAddress] = {}
        self.connections = OpenConnections()

    def put_host(self, name: str, host: MachineAddress) -> None:
        """Have `name` lead to a machine from now on."""
        self._hosts[name] = host

    def find_host(self, name: str) -> MachineAddress | None:
        """Return where a name leads; None if to no machine that is paired."""
        return self._hosts.get(name)

    def find_machine(self, url: str) -> MachineAddress | None:
        """Return the machine that an address of ours leads to; None for an address anywhere else."""
        return self._hosts.get(urlsplit(url).hostname or "")

    def remove_host(self, name: str) -> None:
        """Have a name lead nowhere, and break off every connection there."""
        self._hosts.pop(name, None)
        self.connections.cut_all(name)


machine_addresses = MachineAddresses()
"""This process's own."""
