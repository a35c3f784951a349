"""Start the programs a measurement compares, wait until they answer, and end them.

The proxies and the paced engine live with the tests, in `tests/bench`: without a source checkout there is nothing to
compare with.
"""

import contextlib
import http.client
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from app.config.programs import child_environment, module_command

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
_POLL_S = 0.005
_START_S = 60.0
_END_S = 15.0
_CPU_CLOCK = 2
"""CPUCLOCK_SCHED: with the process's id above it, it names that process's clock, as `clock_getcpuclockid` does."""


def start_program(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[psutil.Popen]:
    """Run `python -m module` from the checkout; ended at exit."""
    return run_program(module_command(module, *arguments), environment=environment)


@contextlib.contextmanager
def run_program(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[psutil.Popen]:
    """Run a program and end it at exit. Its last words are shown if it did not end well."""
    with tempfile.TemporaryFile() as words:
        child = psutil.Popen(
            argv,
            cwd=ROOT,
            env=child_environment(environment),
            stdin=subprocess.PIPE,  # a worker ends when this closes
            stdout=words,
            stderr=words,
        )
        try:
            yield child
        finally:
            _end_program(child)
            words.seek(0)
            if child.returncode not in (0, -signal.SIGTERM):
                sys.stderr.write(words.read().decode(errors="replace"))


def wait_for(
    port: int, child: psutil.Popen, path: str = "/health", *, key: str = "", within_s: float = _START_S
) -> float:
    """Return the seconds until `path` is answered with 200. Raises RuntimeError if the program ends before."""
    began = time.perf_counter()
    while time.perf_counter() - began < within_s:
        if child.poll() is not None:
            raise RuntimeError(f"{' '.join(child.args)} ended with {child.returncode}")
        if is_answering(port, path, key=key):
            return time.perf_counter() - began
        time.sleep(_POLL_S)
    raise RuntimeError(f"{' '.join(child.args)} did not answer within {within_s:g} s")


def cpu_s(child: psutil.Popen) -> float:
    """Return the processor time a program has used, user and system, in seconds.

    On Linux from the clock that every process has, to the nanosecond; elsewhere in the steps of the system's accounts,
    which is all that psutil has on Linux too: a hundredth of a second there.
    """
    if sys.platform == "linux":
        return time.clock_gettime((~child.pid << 3) | _CPU_CLOCK)
    times = child.cpu_times()
    return float(times.user + times.system)


def _end_program(child: psutil.Popen) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        child.terminate()
    child.stdin.close()
    try:
        child.wait(_END_S)
    except psutil.TimeoutExpired:
        child.kill()
        child.wait()


def is_answering(port: int, path: str = "/health", *, key: str = "") -> bool:
    """Tell whether `path` is answered with 200 now, to whoever has the key."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
