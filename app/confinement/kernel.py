"""The few system calls that Python has no function for, through the C library. Linux only, standard library only."""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def call_kernel(number: int, *arguments: object) -> int:
    """Make one system call by its number. Raises OSError; on another system always."""
    if _libc is None:
        raise OSError(os.strerror(38))  # ENOSYS
    return _check_result(int(_libc.syscall(number, *arguments)))


def set_process_option(option: int, value: int, argument: object = 0) -> None:
    """Call `prctl`. Raises OSError."""
    if _libc is None:
        raise OSError(os.strerror(38))  # ENOSYS
    _check_result(int(_libc.prctl(option, value, argument, 0, 0)))


def leave_namespaces(flags: int) -> None:
    """Call `unshare`. Raises OSError."""
    if _libc is None:
        raise OSError(os.strerror(38))  # ENOSYS
    _check_result(int(_libc.unshare(flags)))


def mount_file_system(source: str, target: str, flags: int) -> None:
    """Call `mount`, without a type or options of a file system. Raises OSError."""
    if _libc is None:
        raise OSError(os.strerror(38))  # ENOSYS
    _check_result(int(_libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None)))


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
