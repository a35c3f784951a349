"""Which account of this computer is at the other end of a connection, as Linux's table of sockets says.

Loopback is open to every account of a computer. Whoever may ask a model there may not therefore fetch, make or remove
models: that takes the account that Roundhouse runs as, root, or a key.
"""

import ipaddress
import socket
import sys
from pathlib import Path

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _UID = 1, 2, 7
"""Columns of the table; the addresses are in the byte order of the machine, the ports are not."""


def account_of(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """Return the user id of the process that connected from `peer` to `own`; None where nobody can tell.

    Reads a file of all connections: a millisecond for a thousand.
    """
    if sys.platform != "linux":
        return None
    local, remote = _table_address(*peer), _table_address(*own)
    for table in _TABLES.values():
        uid = _find_uid(table, local, remote)
        if uid is not None:
            return uid
    return None


def _find_uid(table: Path, local: str, remote: str) -> int | None:
    try:
        lines = table.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines[1:]:
        columns = line.split()
        if len(columns) > _UID and (columns[_LOCAL], columns[_REMOTE]) == (local, remote):
            return int(columns[_UID])
    return None


def _table_address(host: str, port: int) -> str:
    """Return an address as the table has it: words of four bytes in the machine's order, in capitals."""
    packed = ipaddress.ip_address(host.partition("%")[0]).packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    text = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{text}:{port:04X}"
