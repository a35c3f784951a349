"""Landlock: a process gives up all but the files, ports and signals that are named, for itself and all it starts.

The constants are those of `linux/landlock.h`; each version of the kernel's interface (ABI) can restrict more. Standard
library only: the launcher imports this.
"""

import contextlib
import os
import stat
import struct
import sys
from collections.abc import Iterable, Sequence

from app.confinement.kernel import call_kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_ASK_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1

_ALL_OF_FIRST = (1 << 13) - 1
_ADDED = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""Rights to files that later versions of the interface know, by version."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

LIST = _READ_DIR
WRITE_TO = _WRITE_FILE | _TRUNCATE
"""Write to files that are there."""
READ = _READ_FILE | _READ_DIR
RUN = READ | _EXECUTE
USE_DEVICE = READ | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
WRITE = READ | (_ALL_OF_FIRST & ~_EXECUTE & ~_MAKE_DEVICES) | _REFER | _TRUNCATE
TCP_ABI, SCOPE_ABI = 4, 6


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 where there is none, or it is turned off."""
    try:
        return call_kernel(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0


class Ruleset:
    """Rules that are collected, and then hold for this process. Needs `no_new_privs`."""

    def __init__(self, version: int, *, restricts_tcp: bool = True) -> None:
        """Begin with nothing allowed, but for TCP where it is not to be restricted. Raises OSError."""
        self._rights = _ALL_OF_FIRST
        for added_by, right in _ADDED.items():
            if version >= added_by:
                self._rights |= right
        self._restricts_tcp = restricts_tcp and version >= TCP_ABI
        tcp = _BIND_TCP | _CONNECT_TCP if self._restricts_tcp else 0
        scopes = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if version >= SCOPE_ABI else 0
        words = (self._rights, tcp, scopes)[: 1 + (version >= TCP_ABI) + (version >= SCOPE_ABI)]
        attributes = struct.pack(f"{len(words)}Q", *words)
        self._descriptor = call_kernel(_CREATE_RULESET, attributes, len(attributes), 0)

    def allow_paths(self, paths: Iterable[str], rights: int) -> None:
        """Allow these files, and what lies beneath these folders. What is not there is passed over."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                self._allow_path(path, rights)

    def _allow_path(self, path: str, rights: int) -> None:
        if sys.platform != "linux":  # the type checker's way of knowing that there is O_PATH
            return
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            allowed_rights = rights & self._rights & (self._rights if is_folder else _OF_FILES)
            if allowed_rights:
                rule = struct.pack("=Qi", allowed_rights, descriptor)
                call_kernel(_ADD_RULE, self._descriptor, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)

    def allow_ports(self, bind: Iterable[int], connect: Iterable[Sequence[int]]) -> None:
        """Allow TCP on these ports, of whatever address: the kernel looks at nothing else. `connect` are ranges."""
        if not self._restricts_tcp:
            return
        for port in bind:
            self._allow_port(port, _BIND_TCP)
        for first, last in connect:
            for port in range(first, last + 1):
                self._allow_port(port, _BIND_TCP | _CONNECT_TCP)

    def _allow_port(self, port: int, rights: int) -> None:
        call_kernel(_ADD_RULE, self._descriptor, _NET_PORT, struct.pack("=QQ", rights, port), 0)

    def enforce(self) -> None:
        """Hold this process to the rules from now on. Raises OSError."""
        call_kernel(_RESTRICT_SELF, self._descriptor, 0)
        os.close(self._descriptor)
