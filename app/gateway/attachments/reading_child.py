"""The process that reads one file: started with limits, confined where the system can, and killed when it takes long.

A file comes from anywhere and parsers are large: whatever one does to them happens in a process that has no file open,
connects to nothing, and is asked one thing.
"""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from app.config.paths import PROGRAM
from app.config.programs import module_command
from app.confinement.command import launcher_command
from app.confinement.places import program_paths
from app.confinement.policy import PLAIN_DEVICES, PROGRAMS, SYSTEM_FACTS
from app.confinement.rules import ConfinementRules, LaunchOrder
from app.core.attachments import Extraction, ExtractionProblem
from app.extraction.problems import excess_problem
from engines.api import EngineInstallation
from engines.environment import engine_environment

log = logging.getLogger(__name__)

WALL_S = 60.0
"""A child that uses no processor waits for something: there is nothing to wait for. Its own limit is on that."""
_MOST_OUTPUT = 64 * 1024 * 1024
"""Bytes: the longest text has eight million, the largest picture as PNG ten, the longest sound and all pages twenty."""
_TASKS = 16
"""A child has one thread, and starts nothing."""
_AT_ONCE = 2
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
_ANSWER: msgspec.msgpack.Decoder[Extraction | ExtractionProblem] = msgspec.msgpack.Decoder(
    Extraction | ExtractionProblem
)


class FileReader:
    """Reads files, two at a time. Belongs to the event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(self, name: str, content: bytes) -> Extraction | ExtractionProblem:
        """Return what a file gives, or why it gives nothing. Cancelling kills the child."""
        async with self._turns:
            output = await _run_child(name, content)
        try:
            return _ANSWER.decode(output)
        except msgspec.MsgspecError:
            log.info("A file could not be read within the limits", extra={"size_bytes": len(content)})
            return excess_problem().problem


async def _run_child(name: str, content: bytes) -> bytes:
    """Return what the child wrote; part of it, or nothing, if it was ended."""
    with launcher_command(child_order()) as command:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(command.env),
            cwd=command.cwd,
            pass_fds=command.descriptors,
            creationflags=_NO_WINDOW,
        )
    try:
        async with asyncio.timeout(WALL_S):
            _, output = await asyncio.gather(_feed(process, name, content), _read_output(process))
            return output
    except TimeoutError:
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # reads what is left, or the pipes would stay open


async def _feed(process: asyncio.subprocess.Process, name: str, content: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 -- for the type checker: it is a pipe
    with contextlib.suppress(ConnectionError):  # it has ended before it read everything
        process.stdin.write(msgspec.json.encode(name) + b"\n")
        process.stdin.write(content)
        await process.stdin.drain()
        process.stdin.close()


async def _read_output(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 -- as above
    output = bytearray()
    while piece := await process.stdout.read(1 << 20):
        output += piece
        if len(output) > _MOST_OUTPUT:
            return b""
    return bytes(output)


def child_order() -> LaunchOrder:
    """Return how a child is started: it reads its own programs, and reaches nothing else."""
    python = Path(sys.executable)
    installation = EngineInstallation(engine="", version="", backend="cpu", python=python)
    rules = ConfinementRules(
        list=(str(PROGRAM),),
        read=SYSTEM_FACTS,
        run=(
            *PROGRAMS,
            *(str(PROGRAM / name) for name in ("app", "engines", "packaging/python") if (PROGRAM / name).is_dir()),
            *program_paths(installation, {}),
        ),
        devices=PLAIN_DEVICES,
        tasks=_TASKS,
    )
    return LaunchOrder(
        argv=tuple(module_command("app.extraction.program")),
        env={**engine_environment(), "OMP_NUM_THREADS": "1"},
        cwd=os.sep,
        parent=os.getpid(),
        confinement=rules,
    )
