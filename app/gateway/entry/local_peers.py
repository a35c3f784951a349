"""Which account of this computer is at the other end of a connection, as Linux says.

Loopback is open to every account of a computer. Whoever may ask a model there may not therefore fetch, make or remove
models: that takes the account that Roundhouse runs as, root, or a key.

The kernel is asked for the one socket (sock_diag(7)). Where it does not answer that, its table of sockets is read,
which takes longer the more connections there are: 35 ms for ten thousand, during which nobody is served.
"""

import errno
import ipaddress
import os
import socket
import struct
import sys
from pathlib import Path

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _UID = 1, 2, 7
"""Columns of the table; the addresses are in the byte order of the machine, the ports are not."""

_NETLINK_SOCK_DIAG, _BY_FAMILY, _IS_REQUEST = 4, 20, 1  # names of linux/netlink.h and linux/sock_diag.h
_ALL_STATES, _ANY_COOKIE = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
_IPV4 = 4
_REQUEST = struct.Struct("=IHHIIBBHIHH16s16sIQ")
"""`nlmsghdr`, then `inet_diag_req_v2` with its `inet_diag_sockid`."""
_HEADER_BYTES, _UID_AT, _LONGEST_ANSWER = 16, 80, 4096
"""Of an answer: `nlmsghdr`, and where `idiag_uid` stands behind it."""


def account_of(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """Return the user id of the process that connected from `peer` to `own`; None where nobody can tell."""
    if sys.platform != "linux":
        return None
    try:
        return _ask_kernel(peer, own)
    except OSError as error:
        return None if error.errno == errno.ENOENT else _look_up(peer, own)


def _ask_kernel(peer: tuple[str, int], own: tuple[str, int]) -> int:
    """Return the user id of one socket. Raises OSError: ENOENT where there is none, others where it cannot be asked."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    addresses = [ipaddress.ip_address(host.partition("%")[0]) for host, _ in (peer, own)]
    family = socket.AF_INET if addresses[0].version == _IPV4 else socket.AF_INET6
    request = _REQUEST.pack(
        *(_REQUEST.size, _BY_FAMILY, _IS_REQUEST, 0, 0),
        *(family, socket.IPPROTO_TCP, 0, _ALL_STATES),
        *(socket.htons(peer[1]), socket.htons(own[1]), addresses[0].packed, addresses[1].packed),
        *(0, _ANY_COOKIE),
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(0)  # the answer is there when the request has been sent
        kernel.sendto(request, (0, 0))
        answer = kernel.recv(_LONGEST_ANSWER)
    (kind,) = struct.unpack_from("=H", answer, 4)
    if kind != _BY_FAMILY:
        number = -struct.unpack_from("=i", answer, _HEADER_BYTES)[0]
        raise OSError(number, os.strerror(number))
    uid: int = struct.unpack_from("=I", answer, _UID_AT)[0]
    return uid


def _look_up(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
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
    packed_address = ipaddress.ip_address(host.partition("%")[0]).packed
    words = (packed_address[at : at + 4] for at in range(0, len(packed_address), 4))
    text = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{text}:{port:04X}"
