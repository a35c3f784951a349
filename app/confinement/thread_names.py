"""What lets an engine name its threads, as NVIDIA's driver does when CUDA starts (570 and later).

The driver writes `/proc/<process>/task/<thread>/comm` itself; refused, it ends with error 304, and the engine finds no
GPU. Landlock's rules name folders that are there already, so a process gets its own folder, and one with helpers, whose
numbers nobody knows yet, all of `/proc`. There the kernel itself refuses other programs' names and memory; of the
superuser, whose it does not, everything that belongs to no process is made read-only. Standard library only: the
launcher imports this.
"""

import os
import sys

from app.confinement.kernel import leave_namespaces, mount_file_system
from app.confinement.landlock import WRITE_TO, Ruleset

_OWN_THREADS, _ALL_PROCESSES = "/proc/self/task", "/proc"
_NEW_MOUNTS = 0x00020000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 18


def allow_thread_names(ruleset: Ruleset, *, is_alone: bool) -> None:
    """Allow it for this process, which becomes the engine, or for all that it will start. Raises OSError.

    A superuser's engine with helpers goes without where `/proc` cannot be protected.
    """
    if sys.platform != "linux":
        return
    if is_alone:
        # The engine inherits it: the kernel forgets such a folder, and the rule with it, while nobody holds it.
        os.set_inheritable(os.open(_OWN_THREADS, os.O_PATH), True)  # noqa: FBT003 -- it takes no keyword
        ruleset.allow_paths([_OWN_THREADS], WRITE_TO)
    elif os.geteuid() != 0 or protect_kernel_settings():
        ruleset.allow_paths([_ALL_PROCESSES], WRITE_TO)


def protect_kernel_settings() -> bool:
    """Make `/proc` read-only for this process and what it starts, but for processes; False where that is impossible.

    In a container without the right to mount, its runtime has done so if nothing can be written already.
    """
    try:
        leave_namespaces(_NEW_MOUNTS)
        mount_file_system("none", "/", _RECURSIVE | _PRIVATE)
        for path in _list_kernel_settings():
            mount_file_system(path, path, _BIND)
            mount_file_system("none", path, _REMOUNT | _BIND | _READ_ONLY)
    except OSError:
        return not any(os.access(path, os.W_OK) for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"))
    return True


def _list_kernel_settings() -> "list[str]":
    paths = [f"/proc/{name}" for name in os.listdir("/proc") if not name.isdigit()]  # noqa: PTH208 -- as in `namespaces`
    return [path for path in paths if not os.path.islink(path)]  # noqa: PTH114 -- as above
