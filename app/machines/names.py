"""What this machine is called by others, and the hardware address by which it is woken. Reads what the system says."""

import re
import socket

import psutil

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 63
_NO_MAC = "00:00:00:00:00:00"


def machine_name(chosen_name: str) -> str:
    """Return the name that was chosen, else the system's without its domain."""
    plain = _ODD.sub("-", chosen_name or socket.gethostname().partition(".")[0]).strip("-._")
    return plain[:_LONGEST].rstrip("-._") or "machine"


def own_addresses(listen_address: str) -> tuple[str, ...]:
    """Return the IPv4 addresses at which others reach what listens at an address; none for this computer alone."""
    wildcard = "0.0.0.0"  # noqa: S104 -- compared with
    if listen_address not in {wildcard, "::", ""}:
        return () if listen_address.startswith("127.") or ":" in listen_address else (listen_address,)
    entries = [entry for card in psutil.net_if_addrs().values() for entry in card if entry.family == socket.AF_INET]
    return tuple(sorted({entry.address for entry in entries if not entry.address.startswith("127.")}))


def mac_of(address: str) -> str:
    """Return the hardware address of the card that has an address; empty where that is not known."""
    for card in psutil.net_if_addrs().values():
        if any(entry.address == address for entry in card):
            macs = [entry.address for entry in card if entry.family == psutil.AF_LINK]
            return next((mac.lower().replace("-", ":") for mac in macs if mac != _NO_MAC), "")
    return ""
