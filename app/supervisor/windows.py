"""A process and everything it starts, on Windows: a Job Object that dies, and kills, with the last handle to it.

Not run yet: written from the documentation of Job Objects and checked by the type checker only. The process is created
suspended, put into the job and resumed, so that nothing it starts can escape. There is no gentle signal for a program
without a console: an engine that cannot be asked through its lifeline or over HTTP is killed.
"""

import ctypes
import subprocess
import sys
import threading

import psutil

from app.confinement.rules import LaunchOrder
from app.supervisor.process import ChildProcess, stdin_for
from engines.api import SoftStop

if sys.platform == "win32":
    from ctypes import wintypes

    _CREATE_SUSPENDED = 0x00000004
    _EXTENDED_LIMIT_INFORMATION = 9
    _LIMIT_KILL_ON_JOB_CLOSE = 0x00002000
    _KILLED = 1
    """Exit code of what a job kills."""

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class _JobObject:
        """A Job Object with KILL_ON_JOB_CLOSE."""

        def __init__(self) -> None:
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.CreateJobObjectW.restype = wintypes.HANDLE
            handle = self._check_result(self._kernel.CreateJobObjectW(None, None))
            self._handle: wintypes.HANDLE | None = wintypes.HANDLE(handle)
            self._lock = threading.Lock()
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _LIMIT_KILL_ON_JOB_CLOSE
            size = ctypes.sizeof(limits)
            self._check_result(
                self._kernel.SetInformationJobObject(
                    self._handle, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), size
                )
            )

        def add_process(self, process: int) -> None:
            """Put a process, by its handle, into the job."""
            self._check_result(self._kernel.AssignProcessToJobObject(self._handle, wintypes.HANDLE(process)))

        def kill(self) -> None:
            """Kill every process in it."""
            with self._lock:
                if self._handle is not None:
                    self._kernel.TerminateJobObject(self._handle, _KILLED)

        def close(self) -> None:
            """Let go of it, which kills what is left."""
            with self._lock:
                handle, self._handle = self._handle, None
            if handle is not None:
                self._kernel.CloseHandle(handle)

        def _check_result(self, result: int) -> int:
            if not result:
                raise ctypes.WinError(ctypes.get_last_error())
            return result

    class Group(ChildProcess):
        """One running process with its job."""

        def __init__(self, order: LaunchOrder, *, has_lifeline: bool) -> None:
            """Start it, without limits: none was ever tried on Windows. Raises OSError when it cannot be started."""
            popen = subprocess.Popen(
                list(order.argv),
                env=dict(order.env),
                cwd=order.cwd,
                stdin=stdin_for(has_lifeline=has_lifeline),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW | _CREATE_SUSPENDED,
            )
            super().__init__(popen)
            try:
                self._job = _JobObject()
                self._job.add_process(int(popen._handle))  # type: ignore[attr-defined]  # noqa: SLF001 -- the only way to the handle
                psutil.Process(popen.pid).resume()
            except (OSError, psutil.Error) as error:
                popen.kill()
                raise OSError(f"the process could not be put into its job: {error}") from error

        def ask_to_end(self, how: SoftStop) -> None:
            """Ask it to end in its own time, where there is a way."""
            if how is SoftStop.STDIN_EOF:
                self.close_stdin()
            else:
                self.kill()

        def kill(self) -> None:
            """Kill the job."""
            self._job.kill()

        def wait(self) -> int:
            """Block until it has ended, kill what it left behind in its job, and return its exit code."""
            code = self._popen.wait()
            self._job.kill()
            self._job.close()
            return code

    def kill_leader_group(pid: int) -> None:
        """Do nothing: the job of an earlier gateway died with it."""
