"""A user namespace of its own for an engine, so that the kernel counts its processes and threads and no others.

`RLIMIT_NPROC` counts all that a user runs, but within a user namespace only what runs in it (Linux 5.14 and later).
The user stays who they are there, loses every capability with the next program, and can make no further namespaces.
Standard library only: the launcher imports this.
"""

import os
import sys

from app.confinement.kernel import leave_namespaces

_NEW_IPC, _NEW_USER = 0x08000000, 0x10000000


def enter_user_namespace() -> bool:
    """Enter one, with its own System V and POSIX queues; False where that is not possible, and nothing has changed.

    The superuser keeps to the system's: the kernel counts nothing of theirs, and their capabilities would stay.
    """
    if not can_enter_user_namespace():
        return False
    _enter()
    return True


def can_enter_user_namespace() -> bool:
    """Tell by trying in a child: distributions forbid it in many ways, and half a try would leave us as nobody."""
    if sys.platform != "linux" or os.getuid() == 0:
        return False
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    code = 1
    try:
        _enter()
        code = 0
    finally:
        os._exit(code)


def _enter() -> None:
    if sys.platform != "linux":
        return
    user, group = os.geteuid(), os.getegid()
    leave_namespaces(_NEW_USER | _NEW_IPC)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _write("/proc/sys/user/max_user_namespaces", "0")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def count_tasks_of_user() -> int:
    """Return how many processes and threads this user runs now, as the kernel counts them."""
    if sys.platform != "linux":
        return 0
    user, total = os.getuid(), 0
    for name in os.listdir("/proc"):  # noqa: PTH208 -- importing pathlib takes longer than the rest
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116 -- as above
                    total += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208 -- as above
            except OSError:  # it has ended
                continue
    return total
