"""The filter of system calls, run step by step as the kernel would: each call gets its answer on both processors."""

import errno

import pytest

from app.confinement.socket_filter import build_program

ALLOWED = 0
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {
    "x86_64": {"read": 0, "socket": 41, "connect": 42, "sendto": 44, "sendmsg": 46, "sendmmsg": 307, "keyctl": 250},
    "aarch64": {
        "read": 63,
        "socket": 198,
        "connect": 203,
        "sendto": 206,
        "sendmsg": 211,
        "sendmmsg": 269,
        "keyctl": 219,
    },
}
CHMOD = {"x86_64": 90, "aarch64": 53}
FAST_OPEN = 0x20000000
UNIX, INET, INET6, NETLINK, VSOCK = 1, 2, 10, 16, 40
STREAM, DATAGRAM, RAW, PACKETS = 1, 2, 3, 5
CLOSE_ON_EXEC = 0o2000000


def verdict(machine: str, number: int, *arguments: int, is_alone: bool, architecture: int | None = None) -> int:
    """Return the error a call ends with, 0 for none, by running the program over what the kernel would give it."""
    values = [number, ARCHITECTURES[machine] if architecture is None else architecture, 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        values += [argument & 0xFFFFFFFF, argument >> 32]
    program, at, loaded_value = build_program(machine, is_alone=is_alone), 0, 0
    while True:
        code, if_so, if_not, value = program[at]
        at += 1
        match code:
            case 0x20:
                loaded_value = values[value // 4]
            case 0x54:
                loaded_value &= value
            case 0x15:
                at += if_so if loaded_value == value else if_not
            case 0x35:
                at += if_so if loaded_value >= value else if_not
            case 0x45:
                at += if_so if loaded_value & value else if_not
            case 0x06:
                return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
            case _:
                pytest.fail(f"There is no step {code:#x}.")


SOCKETS = [
    # domain, type, protocol, alone, with helpers
    (INET, STREAM, 0, ALLOWED, ALLOWED),
    (INET6, STREAM | CLOSE_ON_EXEC, 6, ALLOWED, ALLOWED),
    (INET, STREAM, 262, errno.EPERM, errno.EPERM),
    (INET, STREAM, 132, errno.EPERM, errno.EPERM),
    (INET, PACKETS, 132, errno.EPERM, errno.EPERM),
    (INET, DATAGRAM | CLOSE_ON_EXEC, 0, errno.EPERM, ALLOWED),
    (INET6, DATAGRAM, 17, errno.EPERM, ALLOWED),
    (INET, DATAGRAM, 1, errno.EPERM, errno.EPERM),
    (INET, RAW, 1, errno.EPERM, errno.EPERM),
    (UNIX, STREAM | CLOSE_ON_EXEC, 0, ALLOWED, ALLOWED),
    (UNIX, PACKETS, 0, ALLOWED, ALLOWED),
    (UNIX, DATAGRAM, 0, errno.EPERM, ALLOWED),
    (NETLINK, RAW | CLOSE_ON_EXEC, 0, ALLOWED, ALLOWED),
    (VSOCK, STREAM, 0, errno.EAFNOSUPPORT, errno.EAFNOSUPPORT),
    (17, RAW, 3, errno.EAFNOSUPPORT, errno.EAFNOSUPPORT),
]


@pytest.mark.parametrize("machine", sorted(CALLS))
@pytest.mark.parametrize("row", SOCKETS, ids=str)
def test_sockets(machine: str, row: tuple[int, int, int, int, int]) -> None:
    (domain, kind, protocol, alone, is_helped), number = row, CALLS[machine]["socket"]
    assert verdict(machine, number, domain, kind, protocol, is_alone=True) == alone
    assert verdict(machine, number, domain, kind, protocol, is_alone=False) == is_helped


@pytest.mark.parametrize("machine", sorted(CALLS))
def test_other_calls(machine: str) -> None:
    calls = CALLS[machine]
    for is_alone in (True, False):
        assert verdict(machine, calls["read"], is_alone=is_alone) == ALLOWED
        assert verdict(machine, calls["keyctl"], is_alone=is_alone) == errno.EPERM
        assert verdict(machine, 425, is_alone=is_alone) == errno.ENOSYS
        assert verdict(machine, calls["connect"], 3, is_alone=is_alone) == (errno.EPERM if is_alone else ALLOWED)
        assert verdict(machine, CHMOD[machine], is_alone=is_alone) == (errno.EPERM if is_alone else ALLOWED)
        for name, place in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            flags = [0] * place
            assert verdict(machine, calls[name], *flags, 0x4000, is_alone=is_alone) == ALLOWED
            assert verdict(machine, calls[name], *flags, FAST_OPEN | 0x4000, is_alone=is_alone) == errno.EPERM


def test_calls_of_other_sets_do_not_exist() -> None:
    """Those of 32-bit programs and of x32 have other numbers, which the table does not know."""
    assert verdict("x86_64", 102, is_alone=True, architecture=0x40000003) == errno.ENOSYS
    assert verdict("x86_64", 0x40000000 + 41, INET, STREAM, is_alone=True) == errno.ENOSYS
