"""Connecting to another computer, or saying soon that it cannot be reached.

Left to itself a connection waits for every address a name has, and for the name: minutes where a firewall or a cable
drops packets. Here name and addresses share a few seconds, and a computer without any network is told so at once.
"""

import errno
import ipaddress
import queue
import socket
import threading
import time

from app.network.egress import is_this_computer

CONNECT_S = 6.0
"""For a name and all its addresses together. A connection across the world takes less than one; a lost packet is sent
again after one and three seconds."""
_LEAST_S = 1.0
"""What each address gets at least."""

_Address = tuple[socket.AddressFamily, tuple[str, int]]


def has_network() -> bool:
    """Tell whether any interface is up beside the computer's own; True where that cannot be asked."""
    import psutil  # noqa: PLC0415 -- most programs that connect never ask

    try:
        states, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    except (OSError, psutil.Error):
        return True
    return any(
        state.isup and any(_leads_away(address.family, address.address) for address in addresses.get(name, ()))
        for name, state in states.items()
    )


def _leads_away(family: int, address: str) -> bool:
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return False
    try:
        return not ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def unreachable_sentence(host: str) -> str:
    """Say that a host cannot be reached, and where that is so because there is no network."""
    if not has_network():
        return f"This computer has no network connection, so {host} cannot be reached."
    return f"{host} cannot be reached."


def connect_soon(
    address: tuple[str, int], timeout: float | None = None, source_address: tuple[str, int] | None = None
) -> socket.socket:
    """Return a connected socket, with `timeout` for what is read from it. Raises OSError within `CONNECT_S`.

    The arguments are those of `socket.create_connection`.
    """
    host, port = address
    until = time.monotonic() + CONNECT_S
    resolution = _resolve_within(host, port, CONNECT_S)
    problem = OSError(errno.EHOSTUNREACH, f"no address of {host} answers")
    while resolution:
        family, target = resolution.pop(0)
        seconds_left = until - time.monotonic()
        if seconds_left <= 0:
            raise problem
        try:
            return _connect_to(
                family, target, (max(seconds_left / (len(resolution) + 1), _LEAST_S), timeout), source_address
            )
        except OSError as error:
            problem = error
    raise problem


def _connect_to(
    family: socket.AddressFamily,
    target: tuple[str, int],
    times: tuple[float, float | None],
    source_address: tuple[str, int] | None,
) -> socket.socket:
    connecting_s, reading_s = times
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(connecting_s)
        if source_address is not None:
            connection.bind(source_address)
        connection.connect(target)
        connection.settimeout(reading_s)
    except OSError:
        connection.close()
        raise
    return connection


def _resolve_within(host: str, port: int, within_s: float) -> list[_Address]:
    """Return the addresses of a name, those of both families by turns. Raises OSError: unknown, or nobody to ask."""
    if not is_this_computer(host) and not has_network():
        raise OSError(errno.ENETUNREACH, "this computer has no network connection")
    answers: queue.SimpleQueue[list[_Address] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            records = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
        except OSError as error:
            answers.put(error)
            return
        answers.put([(family, target) for family, _, _, _, target in records])  # type: ignore[misc]  # an address of its family

    threading.Thread(target=ask, daemon=True, name="resolve").start()  # a system call that nothing can end
    try:
        answer = answers.get(timeout=within_s)
    except queue.Empty:
        raise TimeoutError(errno.ETIMEDOUT, f"nobody says where {host} is") from None
    if isinstance(answer, OSError):
        raise answer
    return _by_turns(answer)


def _by_turns(addresses: list[_Address]) -> list[_Address]:
    """Return addresses of both families by turns: where only one of them leads anywhere, it is tried second."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    second = [address for address in addresses if address[0] != addresses[0][0]]
    places = {id(address): place for group in (first, second) for place, address in enumerate(group)}
    return sorted(addresses, key=lambda address: places[id(address)])
