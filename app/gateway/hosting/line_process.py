"""A process of ours that talks to somebody else's program for us: lines of JSON each way, its last words kept.

It is confined where the system can, and that program, as its child, with it. Ended, it takes all that it started along.
"""

import asyncio
import contextlib
import subprocess
from collections import deque
from collections.abc import AsyncIterator

import msgspec
import psutil

from app.confinement.command import launcher_command
from app.confinement.rules import LaunchOrder

LONGEST_LINE = 8 * 1024 * 1024
_LAST_LINES = 5
_LONGEST_LOG_LINE = 300
_LAST_WORDS_S = 0.5
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)


class LineProcess:
    """One such process. Belongs to the event loop."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._log_reading: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)

    @property
    def pid(self) -> int:
        """Its number; 0 while it does not run."""
        return self._process.pid if self._process is not None else 0

    @property
    def last_words(self) -> str:
        """The last lines of what it wrote beside its answers: they say why it ended."""
        return "\n".join(self._last_lines)

    async def start(self, launch: LaunchOrder) -> None:
        """Start it. Raises OSError."""
        with launcher_command(launch) as command:
            self._process = await asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(command.env),
                cwd=command.cwd,
                pass_fds=command.descriptors,
                creationflags=_NO_WINDOW,
                limit=LONGEST_LINE,
            )
        self._log_reading = asyncio.create_task(self._read_log(self._process))

    def send(self, message: msgspec.Struct) -> None:
        """Tell it something; nothing once it is over."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def read_lines(self) -> AsyncIterator[bytes]:
        """Yield what it tells, until it has ended and its last words are known. Raises ValueError for a long line."""
        process = self._process
        if process is None or process.stdout is None:
            return
        while line := await process.stdout.readline():
            yield line
        await self.wait_for_words()

    async def wait_for_words(self) -> None:
        """Wait a moment for what it writes last."""
        if self._log_reading is not None:
            await asyncio.wait({self._log_reading}, timeout=_LAST_WORDS_S)

    async def stop(self, within_s: float) -> None:
        """End it: it may finish by itself when its input closes, or is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        family = await asyncio.to_thread(_list_family, process.pid)
        try:
            async with asyncio.timeout(within_s):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.to_thread(_kill_each, family)
        await self.wait_for_words()  # the end of it closes its pipe
        if self._log_reading is not None:
            self._log_reading.cancel()
            await asyncio.gather(self._log_reading, return_exceptions=True)
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 -- nothing else closes its pipes now

    def kill(self) -> None:
        """End it now; what it started is left to end with it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process = None

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101 -- for the type checker: it was started so
        while piece := await process.stderr.read(1 << 16):
            lines = piece.decode("utf-8", "replace").splitlines()
            self._last_lines.extend(line[:_LONGEST_LOG_LINE] for line in lines if line.strip())


def _list_family(pid: int) -> list[psutil.Process]:
    """Return what a process has started, also in other sessions."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def _kill_each(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()  # by its time of start too: another one that has its number now is left alone
