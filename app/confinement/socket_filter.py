"""A filter of system calls (seccomp) for what Landlock does not restrict.

That is, sockets other than TCP (UDP, and MPTCP and the like, which reach TCP servers past Landlock), a connection that
is opened by sending (TCP fast open), io_uring, which makes both without a system call of its own, and the keys of the
session. With `is_alone` also every `connect`, and changes of files' modes, owners and attributes by name. Constants are
those of `linux/seccomp.h`, `linux/audit.h` and `asm/unistd.h`. Standard library only: the launcher imports this.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence

from app.confinement.kernel import call_kernel

_SET_FILTER, _ALLOW_SPECULATION = 1, 1 << 2
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in `struct seccomp_data`. Of each argument the lower half is looked at: both machines are little-endian."""
_FAST_OPEN = 0x20000000  # MSG_FASTOPEN
_X32 = 0x40000000  # numbers of another set of system calls on x86-64
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _PACKETS = 1, 2, 5
_TYPE_BITS = 0xF
_TCP, _UDP = 6, 17


class Machine:
    """The numbers of system calls of one kind of processor."""

    def __init__(  # noqa: PLR0913 -- a row of a table
        self,
        *,
        architecture: int,
        seccomp: int,
        socket: int,
        connect: int,
        sendto: int,
        sendmsg: int,
        sendmmsg: int,
        keys: tuple[int, ...],
        attributes: tuple[int, ...],
    ) -> None:
        self.architecture = architecture
        self.seccomp = seccomp
        self.socket = socket
        self.connect = connect
        self.sends = ((sendto, 3), (sendmsg, 2), (sendmmsg, 3))
        """With the place of the flags among their arguments."""
        self.keys = keys
        self.attributes = attributes
        """chmod, fchmodat, chown, lchown, fchownat, setxattr, lsetxattr, removexattr, lremovexattr."""


_MACHINES = {
    "x86_64": Machine(
        architecture=0xC000003E,
        seccomp=317,
        socket=41,
        connect=42,
        sendto=44,
        sendmsg=46,
        sendmmsg=307,
        keys=(248, 249, 250),
        attributes=(90, 268, 92, 94, 260, 188, 189, 197, 198),
    ),
    "aarch64": Machine(
        architecture=0xC00000B7,
        seccomp=277,
        socket=198,
        connect=203,
        sendto=206,
        sendmsg=211,
        sendmmsg=269,
        keys=(217, 218, 219),
        attributes=(53, 54, 5, 6, 14, 15),
    ),
}
_IO_URING = (425, 426, 427)
_NEWER_ATTRIBUTES = (452, 463, 466)
"""fchmodat2, setxattrat, removexattrat: the same on every architecture."""


def _machine() -> str:
    if sys.platform == "win32":
        return ""
    return os.uname().machine


Instruction = tuple[int, int, int, int]
"""Code, what to jump over if it holds and if not, and the value."""


def can_filter() -> bool:
    """Tell whether there is a filter for this machine's processor."""
    return _machine() in _MACHINES and os.access("/proc/sys/kernel/seccomp", os.F_OK)


def install_filter(*, is_alone: bool) -> None:
    """Filter this process's system calls and those of all it starts. Needs `no_new_privs`. Raises OSError.

    Speculation stays as it is: before Linux 5.16 a filter would otherwise turn some of it off, which costs speed.
    """
    program = b"".join(struct.pack("=HBBI", *step) for step in build_program(_machine(), is_alone=is_alone))
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    number = _MACHINES[_machine()].seccomp
    call_kernel(number, _SET_FILTER, _ALLOW_SPECULATION, ctypes.c_char_p(header))


def build_program(machine: str, *, is_alone: bool) -> list[Instruction]:
    """Return the filter for a kind of processor: looks at the call's number, then at its arguments."""
    calls = _MACHINES[machine]
    alone = (calls.connect, *calls.attributes, *_NEWER_ATTRIBUTES) if is_alone else ()
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, calls.architecture),
        _fail(errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        _fail(errno.ENOSYS),
        *(step for number in _IO_URING for step in _on_value(number, [_fail(errno.ENOSYS)])),
        *(step for number in (*calls.keys, *alone) for step in _on_value(number, [_fail(errno.EPERM)])),
        *(step for number, flags in calls.sends for step in _on_value(number, _fails_with_bit(flags, _FAST_OPEN))),
        *_on_value(calls.socket, _socket_steps(is_alone=is_alone)),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _socket_steps(*, is_alone: bool) -> list[Instruction]:
    kinds = (_STREAM, _PACKETS) if is_alone else (_STREAM, _PACKETS, _DATAGRAM)
    return [
        _load_argument(0),
        *_on_value(_NETLINK, [(_RETURN, 0, 0, _ALLOW)]),
        *_on_value(_UNIX, _one_of(1, kinds)),
        *_on_value(_INET, _internet_steps(is_alone=is_alone)),
        *_on_value(_INET6, _internet_steps(is_alone=is_alone)),
        _fail(errno.EAFNOSUPPORT),
    ]


def _internet_steps(*, is_alone: bool) -> list[Instruction]:
    datagrams = [_fail(errno.EPERM)] if is_alone else _one_of(2, (0, _UDP))
    return [
        _load_argument(1),
        (_AND, 0, 0, _TYPE_BITS),
        *_on_value(_STREAM, _one_of(2, (0, _TCP))),
        *_on_value(_DATAGRAM, datagrams),
        _fail(errno.EPERM),
    ]


def _one_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    """Return steps that allow the call if an argument (a socket's type without its flags) is one of these."""
    return [
        _load_argument(argument),
        (_AND, 0, 0, _TYPE_BITS if argument == 1 else 0xFFFFFFFF),
        *(step for value in values for step in _on_value(value, [(_RETURN, 0, 0, _ALLOW)])),
        _fail(errno.EPERM),
    ]


def _fails_with_bit(argument: int, bit: int) -> list[Instruction]:
    return [
        _load_argument(argument),
        (_JUMP_ANY_BIT, 0, 1, bit),
        _fail(errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _on_value(value: int, steps: list[Instruction]) -> list[Instruction]:
    """Return steps that are done if what was loaded has this value. They must end by returning."""
    return [(_JUMP_EQUAL, 0, len(steps), value), *steps]


def _load_argument(number: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * number)  # after the number, the architecture and the instruction pointer


def _fail(number: int) -> Instruction:
    return (_RETURN, 0, 0, _FAIL | number)
