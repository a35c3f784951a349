"""A process and everything it starts, on Linux and macOS: a session of its own, signalled and killed as a group.

No `preexec_fn`: it runs Python between fork and exec, and deadlocks in a program with threads. On Linux what has to be
done there is done by a program that then becomes the engine (`app.confinement.launcher`): it confines it, limits its
memory and, where the engine does not watch a lifeline, has the kernel kill it with its parent. The kernel takes the
parent to be the *thread* that started it, so processes are started from the event loop's own thread.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading

import msgspec

from app.confinement.command import StartCommand, launcher_command
from app.confinement.rules import LaunchOrder
from app.supervisor.process import ChildProcess, stdin_for
from engines.api import SoftStop

if sys.platform != "win32":

    class Group(ChildProcess):
        """One running process with its group."""

        def __init__(self, order: LaunchOrder, *, has_lifeline: bool) -> None:
            """Start it. Raises OSError when it cannot be started."""
            needs_launcher = order.confinement or order.network or order.memory_bytes or not has_lifeline
            if sys.platform == "linux" and needs_launcher:
                super().__init__(_start_launcher(order, has_lifeline=has_lifeline))
            else:
                command = StartCommand(argv=order.argv, env=order.env, cwd=order.cwd)
                super().__init__(_start(command, has_lifeline=has_lifeline))
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

    def _start_launcher(order: LaunchOrder, *, has_lifeline: bool) -> "subprocess.Popen[bytes]":
        """Start the program that becomes the engine."""
        if shutil.which(order.argv[0], path=order.env.get("PATH")) is None:
            raise FileNotFoundError(order.argv[0])  # from the launcher it would be an engine that ended
        bound_order = msgspec.structs.replace(order, parent=0 if has_lifeline else os.getpid())
        with launcher_command(bound_order) as command:
            return _start(command, has_lifeline=has_lifeline)

    def _start(command: StartCommand, *, has_lifeline: bool) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=stdin_for(has_lifeline=has_lifeline),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=command.descriptors,
        )

    def kill_leader_group(pid: int) -> None:
        """Kill the group that a process of an earlier gateway led."""
        _kill_group(pid, signal.SIGKILL)
