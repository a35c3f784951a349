"""Wake-on-LAN: a packet to the whole network that only the card with the address named in it acts on."""

import socket

from app.core.connections import ConnectionReason, Purpose
from app.network.egress import egress_gate

_EVERYBODY, _DISCARD_PORT = "255.255.255.255", 9
_TIMES = 3
"""Nobody answers such a packet, and any of them may be lost."""


def magic_packet(mac: str) -> bytes:
    """Return the packet that wakes the card with a hardware address, as in 02:fc:00:00:00:01."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


def wake_card(mac: str, about: str) -> None:
    """Send the packet. Raises OSError, Offline. `about` names the machine in the list of connections."""
    egress_gate.note_call(_EVERYBODY, _DISCARD_PORT, Purpose(why=ConnectionReason.MACHINES, about=about))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for _ in range(_TIMES):
            sender.sendto(magic_packet(mac), (_EVERYBODY, _DISCARD_PORT))
