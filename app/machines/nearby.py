"""Computers that announce themselves on this network: what of that is kept. It proves nothing, whoever says it.

Anybody on the network can announce anything. So little is kept, nothing of it is believed before TLS has proved it, and
no address is taken that is not one of a private network.
"""

import ipaddress
from collections.abc import Mapping

import msgspec

from app.core.machines import NearbyMachine

MOST_NEARBY = 32
"""Further ones are not kept: a household has a handful."""
_LONGEST_TEXT = 256
"""Bytes of a value that are looked at; a DNS string has no more than 255."""


class NearbyMachines:
    """What was announced, by the name of each service. Belongs to one thread."""

    def __init__(self) -> None:
        self._machines: dict[str, NearbyMachine] = {}

    def has_room(self, service: str) -> bool:
        """Tell whether anything about a service would be kept."""
        return len(service) <= _LONGEST_TEXT and (service in self._machines or len(self._machines) < MOST_NEARBY)

    def put_service(
        self, service: str, addresses: list[str], port: int | None, texts: Mapping[bytes, bytes | None]
    ) -> bool:
        """Take an announcement; return whether it is kept. One without sense ends what was said before."""
        machine = read_announcement(addresses, port, texts)
        if machine is None or not self.has_room(service):
            self.remove_service(service)
            return False
        self._machines[service] = machine
        return True

    def remove_service(self, service: str) -> None:
        """Forget what a service said."""
        self._machines.pop(service, None)

    def clear(self) -> None:
        """Forget all."""
        self._machines.clear()

    def list_machines(self) -> list[NearbyMachine]:
        """Return each once, by name."""
        return sorted(set(self._machines.values()), key=lambda machine: (machine.name.casefold(), machine.fingerprint))


def read_announcement(
    addresses: list[str], port: int | None, texts: Mapping[bytes, bytes | None]
) -> NearbyMachine | None:
    """Return what an announcement says; None where that makes no sense."""
    host = next((address for address in addresses if _is_of_private_network(address)), "")
    values = {
        "name": _text_of(texts.get(b"name")),
        "fingerprint": _text_of(texts.get(b"fingerprint")),
        "host": host,
        "port": port or 0,
    }
    try:
        return msgspec.convert(values, NearbyMachine)
    except msgspec.ValidationError:
        return None


def _text_of(value: bytes | None) -> str:
    return (value or b"")[:_LONGEST_TEXT].decode("ascii", "replace")


def _is_of_private_network(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_private and not (
        address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    )
