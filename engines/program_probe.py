"""Ask an installed engine what it is: which flags its help names, which version it has. Asked once, then remembered.

A help text takes a Python engine ten seconds, so the answer is kept beside the installation. What is asked may be any
program, so it is given little time, and ends with all it started: when the time is up, when whoever asks calls it off,
and when we die, for a process of its group waits for the end of a pipe that only we hold.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from engines.environment import engine_environment
from engines.flags import flags_in

HELP_TIMEOUT_S = 120.0
"""PyTorch alone takes ten seconds to import from a cold disk."""
QUICK_S = 10.0
"""What a native program may take to say what it is: drivers are loaded first, from a cold disk."""
_FILE = "flags.json"
_LIFELINE = 'exec 3<&0; { cat <&3; kill -KILL 0; } >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'
"""A shell turns into the program; beside it, in its group, a process waits until the pipe ends, and kills the group."""
_flags_by_command: dict[tuple[object, ...], frozenset[str]] = {}


class ProbeCancelled(Exception):
    """Whoever asked no longer wants to know."""


class ProgramOutput(NamedTuple):
    """What a program wrote, both streams, and its exit code; None where it was not started or did not end in time."""

    text: str = ""
    code: int | None = None
    is_late: bool = False


class ProbeSession:
    """The programs that are asked on somebody's behalf, in whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_over = False

    def call_off(self) -> None:
        """End what is being asked, and let nothing more be asked."""
        with self._lock:
            self._is_over = True
            for process in self._processes:
                _end(process)

    @contextlib.contextmanager
    def run_program(self, command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
        """Have a program run; it and all it started are gone afterwards. Raises OSError or ProbeCancelled."""
        with _start_program(command) as process:
            with self._lock:
                self._processes.add(process)
                if self._is_over:
                    _end(process)
            try:
                yield process
            finally:
                with self._lock:
                    self._processes.discard(process)
        if self._is_over:
            raise ProbeCancelled


_current_session: ContextVar[ProbeSession | None] = ContextVar("questions", default=None)


@contextlib.contextmanager
def open_probe_session() -> Iterator[ProbeSession]:
    """Have everything that is asked in here, and in threads that inherit this context, together."""
    session = ProbeSession()
    token = _current_session.set(session)
    try:
        yield session
    finally:
        _current_session.reset(token)


def flags_of(command: Sequence[str], keep_in: Path | None = None, timeout_s: float = HELP_TIMEOUT_S) -> frozenset[str]:
    """Return the flags a command's help names; empty when it gives none. Kept in `keep_in`, where there is one.

    Remembered for as long as the program is the same file. Raises ProbeCancelled.
    """
    key = (*command, *file_identity(Path(command[0])))
    if key not in _flags_by_command:
        flags = _read_cached_flags(keep_in, command) or _ask_flags(keep_in, command, timeout_s)
        if flags is None:
            return frozenset()
        _flags_by_command[key] = flags
    return _flags_by_command[key]


def output_of(command: Sequence[str], timeout_s: float = QUICK_S) -> str:
    """Return what a command writes, both streams; empty if it does not run or takes too long. Raises ProbeCancelled."""
    answer = answer_of(command, timeout_s)
    return "" if answer.is_late else answer.text


def answer_of(command: Sequence[str], timeout_s: float = QUICK_S) -> ProgramOutput:
    """Run a command to its end, or for so long. Raises ProbeCancelled."""
    if shutil.which(command[0]) is None:
        return ProgramOutput()
    try:
        with (_current_session.get() or ProbeSession()).run_program(command) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                code = process.poll()  # ended, though something it left holds its output
                _end(process)
                out, err = process.communicate()
                return ProgramOutput(out + err, code, is_late=code is None)
    except OSError:
        return ProgramOutput()
    return ProgramOutput(out + err, process.returncode)


def file_identity(program: Path) -> tuple[int, ...]:
    """Return what changes when a program is replaced, links followed; empty where there is none."""
    try:
        status = program.stat()
    except OSError:
        return ()
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def on_path(program: str) -> Path | None:
    """Return a program on PATH, links followed: environments are found by where their programs really lie."""
    path = shutil.which(program)
    return Path(path) if path else None


def _probe_environment() -> dict[str, str]:
    return {**engine_environment(), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}


@contextlib.contextmanager
def _start_program(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a program with its lifeline; end it, and its group, at the end."""
    read_end, write_end = os.pipe()
    try:
        process = _popen(command, read_end)
        try:
            yield process
        finally:
            _end(process)
            process.communicate()
    finally:
        os.close(read_end)
        os.close(write_end)


def _ask_flags(keep_in: Path | None, command: Sequence[str], timeout_s: float) -> frozenset[str] | None:
    """Return what its help names, None where it did not get to the end of it."""
    answer = answer_of(command, timeout_s)
    if answer.is_late:
        return None
    flags = flags_in(answer.text)
    if keep_in is not None and flags:
        try:
            (keep_in / _FILE).write_text(json.dumps({"command": list(command), "flags": sorted(flags)}), "utf-8")
        except OSError:
            return flags  # a folder that cannot be written costs another ten seconds next time, no more
    return flags


def _read_cached_flags(keep_in: Path | None, command: Sequence[str]) -> frozenset[str]:
    if keep_in is None:
        return frozenset()
    try:
        cached_flags = json.loads((keep_in / _FILE).read_text("utf-8"))
        return frozenset(cached_flags["flags"]) if cached_flags["command"] == list(command) else frozenset()
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


if sys.platform == "win32":  # not run yet

    def _popen(command: Sequence[str], lifeline: int) -> "subprocess.Popen[str]":
        del lifeline  # there is no shell to watch it
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=_probe_environment(),
            creationflags=subprocess.CREATE_NO_WINDOW,
        )

    def _end(process: "subprocess.Popen[str]") -> None:
        if process.poll() is None:
            taskkill = shutil.which("taskkill") or "taskkill"
            subprocess.run([taskkill, "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)

else:

    def _popen(command: Sequence[str], lifeline: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["/bin/sh", "-c", _LIFELINE, "sh", *command],
            stdin=lifeline,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=_probe_environment(),
            start_new_session=True,
        )

    def _end(process: "subprocess.Popen[str]") -> None:
        """Kill the group. It is there, and nobody else's, until the process that waits in it has ended too."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            os.killpg(process.pid, signal.SIGKILL)
