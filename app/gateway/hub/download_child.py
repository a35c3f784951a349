"""One download process as the gateway runs it: started, told its job, listened to, and ended.

It may be killed at any moment, so that is how pausing works. Its standard input is its lifeline.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import Callable

import msgspec

from app.config.programs import child_environment, module_command
from app.core.errors import EnvironmentFault
from app.hub.download.job import (
    ConnectionsMade,
    DownloadDone,
    DownloadFailed,
    DownloadJob,
    DownloadMessage,
    DownloadNote,
    DownloadProgress,
    DownloadStarted,
    SpeedLimit,
)
from app.network.egress import egress_gate

_SAID: msgspec.json.Decoder[DownloadMessage] = msgspec.json.Decoder(DownloadMessage)
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)


class DownloadDied(EnvironmentFault):
    """The process ended without saying why."""

    default_code = "download_died"

    def __init__(self) -> None:
        super().__init__("The download's process ended unexpectedly.", hint="Resume it; what was downloaded is kept.")


class DownloadChild:
    """Runs one job. Belongs to the event loop's thread."""

    def __init__(
        self, job: DownloadJob, on_report: Callable[[DownloadStarted | DownloadProgress | DownloadNote], None]
    ) -> None:
        self._job, self._on_report = job, on_report
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> DownloadDone | DownloadFailed:
        """Run it to its end and return what it said last. Raises DownloadDied. Cancelling kills it."""
        self._process = process = await asyncio.create_subprocess_exec(
            *module_command("app.hub.download.program"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=child_environment(),
            creationflags=_NO_WINDOW,
        )
        try:
            self._send_command(self._job)
            return await self._listen(process)
        finally:
            await _end_process(process)

    def limit(self, bytes_per_s: float) -> None:
        """Change how fast it may be from now on."""
        if self._process is not None and self._process.returncode is None:
            self._send_command(SpeedLimit(bytes_per_s=bytes_per_s))

    async def _listen(self, process: asyncio.subprocess.Process) -> DownloadDone | DownloadFailed:
        assert process.stdout is not None  # noqa: S101 -- for the type checker: it is a pipe
        async for line in process.stdout:
            report = _SAID.decode(line)
            if isinstance(report, (DownloadDone, DownloadFailed)):
                return report
            if isinstance(report, ConnectionsMade):
                egress_gate.note_connections(report.connections)
            else:
                self._on_report(report)
        raise DownloadDied

    def _send_command(self, message: DownloadJob | SpeedLimit) -> None:
        assert self._process is not None  # noqa: S101 -- for the type checker, here and below
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")


async def _end_process(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
    if process.stdin is not None:
        process.stdin.close()
