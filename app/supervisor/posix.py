"""A process and everything it starts, on Linux and macOS: a session of its own, signalled and killed as a group.

No `preexec_fn`: it runs Python between fork and exec, and deadlocks in a program with threads. Where the engine does
not watch a lifeline, `setpriv` (Linux) asks the kernel to kill it with its parent. The kernel takes the parent to be
the *thread* that started it, so processes are started from the event loop's own thread.
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.supervisor.process import ChildProcess, stdin_for
from engines.api import SoftStop

if sys.platform != "win32":
    import resource

    class Group(ChildProcess):
        """One running process with its group."""

        def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, has_lifeline: bool) -> None:
            """Start it. Raises OSError when it cannot be started."""
            command = argv if has_lifeline else [*_guard_command(argv[0], env), *argv]
            popen = subprocess.Popen(
                command,
                env=dict(env),
                cwd=cwd,
                stdin=stdin_for(has_lifeline=has_lifeline),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            super().__init__(popen)
            self._lock = threading.Lock()

        def ask_to_end(self, how: SoftStop) -> None:
            """Ask it to end in its own time."""
            if how is SoftStop.STDIN_EOF:
                self.close_stdin()
            elif how is SoftStop.SIGINT:
                self._send_signal(signal.SIGINT)
            else:
                self._send_signal(signal.SIGTERM)

        def kill(self) -> None:
            """Kill the group."""
            self._send_signal(signal.SIGKILL)

        def _send_signal(self, number: signal.Signals) -> None:
            with self._lock:
                if self._popen.returncode is None:  # a reaped pid may belong to somebody else by now
                    _kill_group(self.pid, number)

        def wait(self) -> int:
            """Block until it has ended, kill what it left in its group, and return its code (negative: a signal)."""
            _wait_unreaped(self._popen)
            with self._lock:
                _kill_group(self.pid, signal.SIGKILL)
                return self._popen.wait()

    def _wait_unreaped(popen: "subprocess.Popen[bytes]") -> None:
        """Wait so that the pid stays taken: while it is, its group cannot be anybody else's."""
        if hasattr(os, "waitid"):  # macOS has it from Python 3.13
            with contextlib.suppress(ChildProcessError):  # somebody else took it: the exit code is lost, the end is not
                os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        else:
            popen.wait()

    def _kill_group(pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            os.killpg(pid, number)

    def _guard_command(program: str, env: Mapping[str, str]) -> Sequence[str]:
        if shutil.which(program, path=env.get("PATH")) is None:
            raise FileNotFoundError(program)  # through setpriv it would be an engine that ended
        return _death_signal()

    @functools.cache
    def _death_signal() -> Sequence[str]:
        """Return what to put before a command so that it dies with its parent: util-linux has it since 2.33."""
        setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
        if setpriv is None:
            return ()
        prefix = (setpriv, "--pdeathsig", "KILL", "--")
        works = subprocess.run([*prefix, "true"], capture_output=True, check=False, timeout=5).returncode == 0
        return prefix if works else ()

    def kill_leader_group(pid: int) -> None:
        """Kill the group that a process of an earlier gateway led."""
        _kill_group(pid, signal.SIGKILL)

    def limit_memory(pid: int, size_bytes: int) -> None:
        """Let a process have at most so much memory of its own. Only Linux can tell another process so.

        What is mapped from files does not count, unless it is written to: weights are mapped. Threads' stacks do.
        """
        if sys.platform == "linux":
            with contextlib.suppress(ProcessLookupError):  # it ended at once: that is told otherwise
                resource.prlimit(pid, resource.RLIMIT_DATA, (size_bytes, size_bytes))
