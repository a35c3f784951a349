"""One gateway for each user, and where it is reached: the lock, the port, and the file that announces both.

A lock of the operating system, which is freed even when we are killed, decides; the port file only informs, and is
there exactly while we take requests. A lock without a port file belongs to a gateway that is just starting or just
ending, so the next one waits to see which.

The port is the one that was asked for, or the next free one, and then it is said. Binding is the only test of whether a
port is free, so the sockets bound here are the ones that are served.
"""

import errno
import ipaddress
import os
import secrets
import socket
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
import psutil

from app.config.paths import Paths
from app.config.private_files import write_private
from app.core.api import PortFile
from app.core.errors import Conflict, EnvironmentFault, is_disk_full, write_fault

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

TRIES = 50
"""Ports looked at before giving up."""
BACKLOG = 128
_TAKEN = frozenset({errno.EADDRINUSE, errno.EACCES})
"""EACCES: Windows answers it for ports it has reserved (Hyper-V does), Linux for ports below 1024."""
_MAX_PORT = 65535
_V6 = 6
PATIENCE_S = 15.0
"""How long a gateway that ends may take: answers in progress, then engines that have to be killed."""
_POLL_S = 0.02


class AlreadyRunning(Conflict):
    """Another gateway of this user is running."""

    default_code = "already_running"


class Instance:
    """The right to be the gateway, from `with Instance(paths) as instance` on.

    Raises AlreadyRunning on entry, after `patience_s` if the other one neither answers nor ends; EnvironmentFault when
    the folders cannot be written.
    """

    def __init__(self, paths: Paths, *, patience_s: float = PATIENCE_S) -> None:
        self._paths = paths
        self._patience_s = patience_s
        self._lock: IO[bytes] | None = None
        self.token = secrets.token_urlsafe(32)

    def __enter__(self) -> Self:
        with ExitStack() as unless_ours:
            lock = unless_ours.enter_context(open_lock_file(self._paths.lock_file))
            self._wait_for(lock)
            if self._paths.port_file.is_dir():
                raise _unwritable(self._paths.port_file, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
            unless_ours.pop_all()
        self._lock = lock
        self.withdraw()  # one that was killed left its port file behind
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.withdraw()
        if self._lock is not None:
            self._lock.close()

    def announce(self, *, url: str, created_at: float, version: str) -> None:
        """Tell clients where we are, once we listen. `created_at` is the creation time of this process."""
        port_file = PortFile(pid=os.getpid(), created_at=created_at, url=url, token=self.token, version=version)
        try:
            write_private(self._paths.port_file, msgspec.json.encode(port_file))
        except OSError as error:
            raise _unwritable(self._paths.port_file, error) from error

    def withdraw(self) -> None:
        """Take the port file away: from now on nobody should look for us here."""
        with suppress(OSError):  # on Windows somebody may be reading it: then it goes at the end, or at the next start
            self._paths.port_file.unlink(missing_ok=True)

    def _wait_for(self, lock: IO[bytes]) -> None:
        deadline = time.monotonic() + self._patience_s
        while not try_lock(lock):
            if self._paths.port_file.exists() or time.monotonic() > deadline:
                raise AlreadyRunning(_who_runs(self._paths.port_file), hint="Use that one, or stop it first.")
            time.sleep(_POLL_S)


_LOCK_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def open_lock_file(lock_file: Path) -> IO[bytes]:
    """Return the file that `try_lock` takes, made if it is not there. Raises StorageFault."""
    try:
        lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.fdopen(os.open(lock_file, _LOCK_FLAGS, 0o600), "ab")
    except OSError as error:
        raise _unwritable(lock_file, error) from error


def try_lock(file: IO[bytes]) -> bool:
    """Have the file for this process alone until it is closed; return False where another process has it."""
    try:
        if sys.platform == "win32":
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _who_runs(port_file: Path) -> str:
    try:
        url = msgspec.json.decode(port_file.read_bytes(), type=PortFile).url
    except (OSError, msgspec.MsgspecError):
        return "Another Roundhouse service is just starting or stopping."
    return f"Roundhouse is already running at {url}."


def _unwritable(path: Path, error: OSError) -> EnvironmentFault:
    if is_disk_full(error):
        return write_fault(f"the file {path}", error, action="written")
    return EnvironmentFault(
        f"The file {path} cannot be written: {error.strerror or error}.",
        hint="Check who owns its folder, and whether the disk is read-only.",
        code="home_unwritable",
    )


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
        sockets = _bind_addresses(host, candidate)
        if sockets:
            return Endpoint(sockets, _url(host, candidate), _notice(port, candidate))
    raise EnvironmentFault(
        f"The ports {port} to {min(port + tries - 1, _MAX_PORT)} are all in use.",
        hint="Choose another with the setting gateway.port.",
        code="no_port",
    )


def _bind_addresses(host: str, port: int) -> tuple[socket.socket, ...]:
    """Bind every address of `host`, all or none."""
    addresses = _addresses(host)
    sockets: list[socket.socket] = []
    for address in addresses:
        try:
            sockets.append(_listen_on(address, port))
        except OSError as error:
            if error.errno in _TAKEN:
                for bound_socket in sockets:
                    bound_socket.close()
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


def _listen_on(address: str, port: int) -> socket.socket:
    new_socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new_socket.bind((address, port))
        new_socket.listen(BACKLOG)
    except BaseException:
        new_socket.close()
        raise
    new_socket.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
    return new_socket


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
    addresses = [card.address for cards_own in cards for card in cards_own if card.family == socket.AF_INET]
    return [f"http://{address}:{port}" for address in addresses if not ipaddress.ip_address(address).is_loopback]


def own_names() -> tuple[str, ...]:
    """Return what other computers may call this one: its host name, bare, in full, and as multicast DNS has it."""
    name = socket.gethostname().lower()
    bare = name.partition(".")[0]
    return tuple({name, bare, f"{bare}.local"})


def _notice(requested_port: int, port: int) -> str:
    if requested_port == port:
        return ""
    return (
        f"Port {requested_port} is used by another program, so Roundhouse listens on {port}. "
        "Programs set up for the other port will not find it."
    )
