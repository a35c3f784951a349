"""Take the port that was asked for, or the next free one, and say so.

Binding is the only test of whether a port is free, so the sockets bound here are the ones that are served.
"""

import errno
import ipaddress
import socket
import sys
from dataclasses import dataclass

import psutil

from app.core.errors import EnvironmentFault

TRIES = 50
"""Ports looked at before giving up."""
BACKLOG = 128
_TAKEN = frozenset({errno.EADDRINUSE, errno.EACCES})
"""EACCES: Windows answers it for ports it has reserved (Hyper-V does), Linux for ports below 1024."""
_MAX_PORT = 65535
_V6 = 6


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Bound, listening sockets and the URL they have on this computer.

    `notice` is a sentence when the port is not the one wanted.
    """

    sockets: tuple[socket.socket, ...]
    url: str
    notice: str


def bind(host: str, port: int, tries: int = TRIES) -> Endpoint:
    """Listen on `host` at `port` or up to `tries` ports on. Raises EnvironmentFault when all are taken."""
    for candidate in range(port, min(port + tries, _MAX_PORT + 1)):
        sockets = _bound(host, candidate)
        if sockets:
            return Endpoint(sockets, _url(host, candidate), _notice(port, candidate))
    raise EnvironmentFault(
        f"The ports {port} to {min(port + tries - 1, _MAX_PORT)} are all in use.",
        hint="Choose another with the setting gateway.port.",
        code="no_port",
    )


def _bound(host: str, port: int) -> tuple[socket.socket, ...]:
    """Bind every address of `host`, all or none."""
    addresses = _addresses(host)
    sockets: list[socket.socket] = []
    for address in addresses:
        try:
            sockets.append(_listening(address, port))
        except OSError as error:
            if error.errno in _TAKEN:
                for bound in sockets:
                    bound.close()
                return ()
            if not sockets:
                raise EnvironmentFault(f"Roundhouse cannot listen on {address}: {error.strerror}.") from error
    return tuple(sockets)


def _addresses(host: str) -> tuple[str, ...]:
    """Return what to bind: `localhost` is 127.0.0.1, and ::1 where there is IPv6.

    A single address of a network card comes with 127.0.0.1: the window and the command line manage the gateway there.
    """
    if host == "localhost":
        return ("127.0.0.1", "::1")
    address = ipaddress.ip_address(host)
    return (host,) if address.is_loopback or address.is_unspecified else (host, "127.0.0.1")


def _listening(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    made.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
    return made


def _url(host: str, port: int) -> str:
    """Return how programs on this computer reach it."""
    if host == "localhost":
        return f"http://localhost:{port}"
    address = ipaddress.ip_address(host)
    if not address.is_loopback:
        host = "::1" if address.is_unspecified and address.version == _V6 else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable_at(host: str, port: int) -> list[str]:
    """Return the URLs under which other computers reach it, of all networks this computer is in now; none on loopback.

    An unspecified address (0.0.0.0) stands for every card's; addresses that only count on one link are left out.
    """
    if host == "localhost" or ipaddress.ip_address(host).is_loopback:
        return []
    if not ipaddress.ip_address(host).is_unspecified:
        return [f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"]
    cards = psutil.net_if_addrs().values()
    found = [card.address for cards_own in cards for card in cards_own if card.family == socket.AF_INET]
    return [f"http://{address}:{port}" for address in found if not ipaddress.ip_address(address).is_loopback]


def own_names() -> tuple[str, ...]:
    """Return what other computers may call this one: its host name, bare, in full, and as multicast DNS has it."""
    name = socket.gethostname().lower()
    bare = name.partition(".")[0]
    return tuple({name, bare, f"{bare}.local"})


def _notice(wanted: int, got: int) -> str:
    if wanted == got:
        return ""
    return (
        f"Port {wanted} is used by another program, so Roundhouse listens on {got}. "
        "Programs set up for the other port will not find it."
    )
