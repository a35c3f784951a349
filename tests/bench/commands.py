"""Roundhouse's commands, run as people run them: each in a process of its own, with a home and a port of their own.

Measured as installed: with compiled bytecode, which a first, uncounted run writes to a folder of its own.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.config.programs import child_environment, module_command
from tests.bench.programs import is_answering
from tests.ports import free_port

_LONGEST_S = 60.0
_POLL_S = 0.004
_PIECE_BYTES = 64


class CommandRunner:
    """Runs commands against one gateway, which the first that needs it starts."""

    def __init__(self, folder: Path, more: Mapping[str, str]) -> None:
        self.folder = folder
        """Where what is measured may be put."""
        self._port = free_port()
        self._environment = child_environment(
            {
                "ROUNDHOUSE_HOME": str(folder / "home"),
                "ROUNDHOUSE_GATEWAY_PORT": str(self._port),
                "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
                "PYTHONDONTWRITEBYTECODE": "",
                **more,
            }
        )

    def run(self, *arguments: str) -> float:
        """Run a command to its end and return how many seconds that took. Raises CalledProcessError."""
        began = time.perf_counter()
        with self._start_command(*arguments) as process:
            process.communicate(timeout=_LONGEST_S)
            took = time.perf_counter() - began
        _require_success(process)
        return took

    def first_output(self, *arguments: str) -> float:
        """Return the seconds until a command has written something. Raises CalledProcessError."""
        began = time.perf_counter()
        with self._start_command(*arguments) as process:
            assert process.stdout is not None
            os.read(process.stdout.fileno(), _PIECE_BYTES)
            took = time.perf_counter() - began
            process.communicate(timeout=_LONGEST_S)
        _require_success(process)
        return took

    def start_service(self) -> float:
        """Return the seconds from `roundhouse up` to the first answer. Raises CalledProcessError."""
        began = time.perf_counter()
        with self._start_command("up") as process:
            while not is_answering(self._port) and time.perf_counter() - began < _LONGEST_S:
                time.sleep(_POLL_S)
            took = time.perf_counter() - began
            process.communicate(timeout=_LONGEST_S)
        _require_success(process)
        return took

    def _start_command(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            module_command("app.cli", *arguments),
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@contextlib.contextmanager
def lend_commands(more: Mapping[str, str] | None = None) -> Iterator[CommandRunner]:
    """Lend commands with a home of their own, and `more` in their environment; the gateway is stopped at the end."""
    with tempfile.TemporaryDirectory() as folder:
        runner = CommandRunner(Path(folder), more or {})
        try:
            yield runner
        finally:
            runner.run("down")


def _require_success(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
