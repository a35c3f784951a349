"""Turn this process into an engine that is confined: `python -P -m app.confinement.launcher FD`.

What to become, and the rules, come as JSON (`app.confinement.rules.LaunchOrder`) through the descriptor FD. A program
of its own instead of code between fork and exec: that runs in a copy of a process with threads, and deadlocks. Each
means is used where the kernel has it (`app.confinement.support` says which those are); one that it has and that fails
ends the launch. Standard library only, and little of it: every start of an engine waits for this.
"""

import contextlib
import json
import os
import resource
import signal
import sys

from app.confinement import kernel, landlock, namespaces, socket_filter

assert sys.platform == "linux"  # noqa: S101 -- nobody starts it elsewhere; the type checker stops reading here then

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than the rest
    from typing import Any, NoReturn

REFUSED, NOT_FOUND = 126, 127
"""How a shell ends that cannot run a program, and that cannot find it."""
_SPARE_TASKS = 4096
"""Where the kernel can only count all that the user runs: what the others may start beside the engine meanwhile."""
PROBE = "--probe"


def main() -> None:
    """Read the order, give up what it says, and become the engine."""
    if sys.argv[1:] == [PROBE]:
        sys.stdout.write(json.dumps(probe_kernel()))
        return
    with os.fdopen(int(sys.argv[1]), "rb") as source:
        order = json.load(source)
    try:
        if order["network"] is not None:
            enter_network(order)
        prepare_process(order)
    except OSError as error:
        end_launch(f"The engine was not started, since it could not be confined: {error}.", REFUSED)
    become_engine(order)


def probe_kernel() -> "dict[str, Any]":
    """Return what this kernel offers to this user."""
    from app.confinement import private_network  # noqa: PLC0415 -- as in `enter_network`

    return {
        "landlock": landlock.landlock_version(),
        "has_filter": socket_filter.can_filter(),
        "has_namespaces": namespaces.can_enter_user_namespace(),
        "network_problem": private_network.find_problem(),
        "is_superuser": os.getuid() == 0,
    }


def prepare_process(order: "dict[str, Any]") -> None:
    """Set limits, die with the parent, and give up what the rules do not allow. Raises OSError."""
    confinement = order["confinement"]
    if confinement is not None:
        limit_tasks(confinement["tasks"])
    if order["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_DATA, (order["memory_bytes"], order["memory_bytes"]))
    if order["parent"]:
        die_with_parent(order["parent"])
    os.chdir(order["cwd"])
    if confinement is not None:
        confine_process(confinement)


def enter_network(order: "dict[str, Any]") -> None:
    """Enter a network of its own, with a socket to this computer's that the engine is told of."""
    from app.confinement import private_network  # noqa: PLC0415 -- few engines have one, and every start waits

    try:
        order["env"][private_network.LISTENER_VARIABLE] = str(private_network.enter_network(order["network"]))
    except OSError as error:
        end_launch(f"The engine was not started, since it could not have a network of its own: {error}.", REFUSED)


def limit_tasks(tasks: int) -> None:
    """Let the engine have so many processes and threads, in a namespace where only they are counted if possible."""
    most = tasks if namespaces.enter_user_namespace() else namespaces.count_tasks_of_user() + tasks + _SPARE_TASKS
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill the engine when the gateway's thread that starts engines ends."""
    kernel.set_process_option(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that
        os._exit(REFUSED)


def confine_process(rules: "dict[str, Any]") -> None:
    """Give up what the rules do not allow: files and ports, then system calls. Raises OSError."""
    kernel.set_process_option(kernel.PR_SET_NO_NEW_PRIVS, 1)
    drop_capabilities()
    version = landlock.landlock_version()
    if version:
        ruleset = landlock.Ruleset(version, restricts_tcp=not rules["has_own_network"])
        for name, rights in RIGHTS.items():
            ruleset.allow_paths(rules[name], rights)
        ruleset.allow_ports(rules["bind"], rules["connect"])
        if rules["names_threads"]:
            from app.confinement.thread_names import allow_thread_names  # noqa: PLC0415 -- as in `enter_network`

            allow_thread_names(ruleset, is_alone=rules["is_alone"])
        ruleset.enforce()
    if socket_filter.can_filter():
        socket_filter.install_filter(is_alone=rules["is_alone"])


def drop_capabilities() -> None:
    """Leave the superuser's engine, which would have all capabilities, those that only ease access to its own files.

    With others it could read what other programs have in memory, whatever Landlock says.
    """
    if os.geteuid() == 0:
        for number in range(_CAPABILITIES):
            if number not in _KEPT_CAPABILITIES:
                with contextlib.suppress(OSError):  # this kernel does not know it, or a container took it already
                    kernel.set_process_option(kernel.PR_CAPBSET_DROP, number)


_CAPABILITIES = 64
_KEPT_CAPABILITIES = {1, 2, 3, 14, 23}
"""DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER; IPC_LOCK for weights that stay in memory, SYS_NICE for NUMA."""

RIGHTS = {
    "list": landlock.LIST,
    "read": landlock.READ,
    "run": landlock.RUN,
    "write": landlock.WRITE,
    "devices": landlock.USE_DEVICE,
}
"""By the name of the rule."""


def become_engine(order: "dict[str, Any]") -> "NoReturn":
    """Run the engine's program in this process."""
    argv = order["argv"]
    try:
        os.execvpe(argv[0], argv, order["env"])  # noqa: S606 -- what this program is for
    except FileNotFoundError:
        end_launch(f"{argv[0]} was not found.", NOT_FOUND)
    except OSError as error:
        end_launch(f"{argv[0]} could not be run: {error}.", REFUSED)


def end_launch(sentence: str, code: int) -> "NoReturn":
    """Say why there is no engine, and end."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
