"""One program at a time while a version is made: its lines as they come, its end with us, and its last words.

What it starts (compilers, downloads) dies with it when the job is called off, and what it wrote for the time being goes
with it: a compiler that is killed cleans up nothing.

Ask programs what they are, from the event loop: whoever is cancelled meanwhile leaves none of them behind.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import psutil

from app.config.programs import child_environment
from app.core.connections import ConnectionReason, Program, Purpose
from app.core.errors import EnvironmentFault, Offline
from app.engine_store.version_store import STAGE_VARIABLE
from app.network.egress import egress_gate
from app.network.reach import unreachable_sentence
from app.network.relay import relay_environment
from engines.environment import engine_environment
from engines.program_probe import open_probe_session

_TAIL = 40
_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC")
_COMPILERS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "SDKROOT", "INCLUDE", "LIB", "LIBPATH")
_FAMILIES = ("UV_", "PIP_", "SSL_CERT_", "CMAKE_", "MACOSX_", "VCTOOLS", "VSCMD_")
"""What uv, pip and compilers may need of a shell beside what engines do: a package that is built runs code of its own,
and has no business with tokens."""
_FOREIGN = ("UV_PROJECT_ENVIRONMENT", "UV_PYTHON")
"""What a shell may have set for other work and would change what is built here."""


async def run_program(
    argv: Sequence[str], *, stage: Path, hear: Callable[[str], None], env: Mapping[str, str], about: str = ""
) -> None:
    """Run a program to its end; `hear` gets each line. What it fetches is noted as being for `about`.

    Raises EnvironmentFault with its last lines if it fails, Offline if that is because nothing may go out.
    """
    output: deque[str] = deque(maxlen=_TAIL)

    def note_line(line: str) -> None:
        output.append(line)
        hear(line)

    was_closed = egress_gate.is_closed
    purpose = Purpose(why=ConnectionReason.ENGINE, about=about, by=Program.INSTALLER)
    give_up = _GiveUp()
    async with relay_environment(purpose, give_up) as way_out, _scratch_folder(stage) as temporary:
        code = await give_up.run_until(_run_to_end(argv, stage, note_line, {**env, **way_out, **temporary}))
    if code and egress_gate.is_closed and not was_closed:
        raise Offline
    if code:
        raise EnvironmentFault(_failure_sentence(argv, output), detail="\n".join(output), code="install_failed")


class _GiveUp:
    """Ends a program once a host that it needs cannot be reached."""

    def __init__(self) -> None:
        self._host = ""
        self._program_task: asyncio.Task[int] | None = None

    def __call__(self, host: str) -> None:
        """Take in that a host cannot be reached."""
        self._host = host
        if self._program_task is not None:
            self._program_task.cancel()

    async def run_until(self, program: Coroutine[None, None, int]) -> int:
        """Return with what code a program ends. Raises EnvironmentFault for a host that cannot be reached."""
        self._program_task = asyncio.create_task(program)
        try:
            return await self._program_task
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._host or (task is not None and task.cancelling()):
                raise
        raise EnvironmentFault(
            unreachable_sentence(self._host),
            hint="Check the network connection, or install from a bundle: `roundhouse engines install --from FILE`.",
            code="unreachable",
        )


@asynccontextmanager
async def _scratch_folder(stage: Path) -> AsyncIterator[Mapping[str, str]]:
    """Have a folder for files of the moment, by the names systems call it; it goes with whoever waits here."""
    folder = stage / "scratch"
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    try:
        yield dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _run_to_end(argv: Sequence[str], stage: Path, hear: Callable[[str], None], env: Mapping[str, str]) -> int:
    """Return with what code a program ends. It does not outlive whoever waits here."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=stage,
            env=_program_environment(stage, env),
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        raise EnvironmentFault(f"{argv[0]} cannot be started: {error.strerror or error}.", code="no_uv") from error
    try:
        if process.stdout is not None:
            while line := await _read_line(process.stdout):
                hear(line.decode("utf-8", "replace").rstrip())
        return await process.wait()
    finally:
        await _end_process(process)


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:  # a line longer than the buffer: a progress bar without ends
        return b" "


def _program_environment(stage: Path, env: Mapping[str, str]) -> dict[str, str]:
    needed_variables = {name: value for name, value in child_environment().items() if _is_needed(name.upper())}
    return {**_uv_environment(stage), **engine_environment(), **needed_variables, STAGE_VARIABLE: stage.name, **env}


def _uv_environment(stage: Path) -> dict[str, str]:
    """Keep what uv keeps (its cache, the Pythons it fetches) among the engines, unless a person has a place for it.

    Only where we are frozen: who installs an application wants all of it gone one day; a checkout's uv is its owner's.
    """
    if not getattr(sys, "frozen", False):
        return {}
    engines = stage.parents[1]
    return {"UV_CACHE_DIR": str(engines / ".cache"), "UV_PYTHON_INSTALL_DIR": str(engines / ".python")}


def _is_needed(name: str) -> bool:
    return name in {*_NETWORK, *_COMPILERS} or (name.startswith(_FAMILIES) and name not in _FOREIGN)


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of it, and of what it started: ninja gives every compiler a group of its own."""
    children = await asyncio.to_thread(_child_processes, process.pid) if process.returncode is None else []
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    if process.returncode is None:
        await process.wait()


def _child_processes(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


_CAUSES = (
    ("No space left", "The disk is full."),
    ("error sending request", "The package index could not be reached."),
    ("dns error", "The package index could not be reached."),
    ("Network connectivity is disabled", "A package is not in the cache, and the network was not allowed."),
    ("Hash mismatch", "A package differs from the locked one: its hash does not match. It was not installed."),
    ("no wheels with a matching", "A package was not built for this system or Python."),
    ("No interpreter found", "No installed Python suits this engine."),
    ("No virtual environment or system Python", "No installed Python suits this engine."),
    ("error: command", "A package could not be built: a compiler or its tools are missing."),
    ("_COMPILER not set", "A package could not be built: there is no C++ compiler."),
    ("Failed to build", "A package could not be built; the last lines of its output say why."),
)


def _failure_sentence(argv: Sequence[str], output: Sequence[str]) -> str:
    text = "\n".join(output)
    cause = next((sentence for words, sentence in _CAUSES if words.casefold() in text.casefold()), "")
    return cause or f"{Path(argv[0]).name} {argv[1] if len(argv) > 1 else ''} failed.".replace("  ", " ")


T = TypeVar("T")


async def run_cancellable(look: Callable[[], T]) -> T:
    """Return what `look` returns, run in a thread; when its caller is cancelled, the programs it asks are ended."""
    with open_probe_session() as going_on:
        try:
            return await asyncio.to_thread(look)
        except asyncio.CancelledError:
            going_on.call_off()
            raise
