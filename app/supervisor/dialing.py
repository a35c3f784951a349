"""Connect to where an engine or an attached endpoint is: over TLS where its address says so, verified as browsers do.

A name is looked up here and what it stands for is looked at, so that no name leads to an address that is never called.
"""

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar
from urllib.parse import SplitResult

from app.core.connections import ConnectionReason, Purpose, is_forbidden
from app.core.machines import DOMAIN
from app.network.egress import egress_gate, is_this_computer
from app.network.machine_addresses import machine_addresses
from app.network.pinned_tls import HANDSHAKE_S, MachineAddress, check_peer

P = TypeVar("P", bound=asyncio.Protocol)

_PORTS = {"http": 80, "https": 443}
SILENCE_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}
"""How a silent computer is asked whether it is there: after how many seconds (macOS has another name for that), how
many later again, and how often. Each system has some of these options of a socket."""


class ForbiddenAddress(OSError):
    """The address is one that is never called (`core.connections`)."""


class DialTarget(NamedTuple):
    """Where to connect to."""

    name: str
    port: int
    is_tls: bool

    @classmethod
    def from_url(cls, url: SplitResult) -> "DialTarget":
        """Return the host of a URL."""
        return cls(url.hostname or "", url.port or _PORTS.get(url.scheme, 80), url.scheme == "https")

    @property
    def is_here(self) -> bool:
        """Whether it is this computer."""
        return is_this_computer(self.name)


async def dial_host(host: DialTarget, protocol: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    """Open a connection. Raises OSError, ssl.SSLError and ForbiddenAddress among them, or Offline.

    The connection ends a good minute after the other computer has lost power or network, however silent it was.
    """
    dial = _dial_machine(host.name, protocol) if host.name.endswith(DOMAIN) else _dial_attached(host, protocol)
    transport, dialed_protocol = await dial
    if not host.is_here:
        _probe_when_silent(transport)
    return transport, dialed_protocol


async def _dial_attached(host: DialTarget, protocol: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    call = egress_gate.note_call(host.name, host.port, Purpose(why=ConnectionReason.ATTACHED))
    try:
        context = await asyncio.to_thread(_trust_context) if host.is_tls else None
        addresses, loop = await _resolve_allowed(host), asyncio.get_running_loop()
        server = host.name if host.is_tls else None
        for address in addresses[:-1]:
            with contextlib.suppress(OSError):  # another address of the same name may answer
                return await loop.create_connection(protocol, address, host.port, ssl=context, server_hostname=server)
        return await loop.create_connection(protocol, addresses[-1], host.port, ssl=context, server_hostname=server)
    except OSError:
        call.note_failure()
        raise


async def _dial_machine(name: str, protocol: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    """Connect to a paired machine, wherever it is now. Raises OSError, also for one that is not paired any more."""
    pinned_machine = machine_addresses.find_host(name)
    if pinned_machine is None:
        raise OSError("this machine is not paired any more")
    call = egress_gate.note_call(
        pinned_machine.address, pinned_machine.port, Purpose(why=ConnectionReason.MACHINES, about=pinned_machine.name)
    )
    try:
        return await _connect_pinned(name, pinned_machine, protocol)
    except OSError:
        call.note_failure()
        raise


async def _connect_pinned(
    name: str, pinned_machine: MachineAddress, protocol: Callable[[], P]
) -> tuple[asyncio.Transport, P]:
    address = (await _resolve_allowed(DialTarget(pinned_machine.address, pinned_machine.port, is_tls=True)))[0]
    transport, pinned_protocol = await asyncio.get_running_loop().create_connection(
        protocol,
        address,
        pinned_machine.port,
        ssl=pinned_machine.context,
        server_hostname=name,
        ssl_handshake_timeout=HANDSHAKE_S,
    )
    try:
        check_peer(transport.get_extra_info("ssl_object"), {pinned_machine.fingerprint})
    except OSError:
        transport.abort()
        raise
    machine_addresses.connections.add_transport(name, transport)
    return transport, pinned_protocol


def _probe_when_silent(transport: asyncio.Transport) -> None:
    """Have the system find out whether the other computer is there: one without power never ends a connection."""
    dialed_socket: socket.socket = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # an old Windows has none of the times: its own two hours then
        dialed_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in SILENCE_PROBES.items():
            if hasattr(socket, name):
                dialed_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def dial_loopback(host: DialTarget) -> socket.socket | None:
    """Begin to connect to a program of this computer by its address; None where no socket can be handed to the loop.

    Over loopback the system is done when this returns. Where nobody listens, this or the first `send` raises OSError.
    """
    if sys.platform == "win32":
        return None
    dialed_socket = socket.socket()
    try:
        dialed_socket.settimeout(0.0)
        with contextlib.suppress(BlockingIOError):
            dialed_socket.connect((host.name, host.port))
        dialed_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        dialed_socket.close()
        raise
    return dialed_socket


def send_at_once(dialed_socket: socket.socket, data: bytes) -> bool:
    """Send all of it now and return True, or close the socket: nobody begins with half a request. Raises OSError."""
    is_sent = False
    try:
        is_sent = dialed_socket.send(data) == len(data)
    except BlockingIOError:  # too many wait there to be let in
        pass
    finally:
        if not is_sent:
            dialed_socket.close()
    return is_sent


async def open_streams(where: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to the host of a URL, for who reads it in a task. Raises as `dial_host` does."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transport, protocol = await dial_host(
        DialTarget.from_url(where), lambda: asyncio.StreamReaderProtocol(reader, loop=loop)
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _resolve_allowed(host: DialTarget) -> list[str]:
    """Return the addresses of a host. Raises ForbiddenAddress if any of them is never called."""
    if host.name == "127.0.0.1":  # as with every engine of ours
        return [host.name]
    infos = await asyncio.get_running_loop().getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if any(map(is_forbidden, addresses)):
        raise ForbiddenAddress(f"{host.name} is an address that is never contacted")
    return addresses


@cache
def _trust_context() -> ssl.SSLContext:
    """Return the certificates this computer trusts. Reads files."""
    return ssl.create_default_context()
