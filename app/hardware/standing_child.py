"""Who asks a probe child that stays (`app.hardware.child_answers`), a line at a time.

A probe starts a child for every look, which takes a good part of a second; what is asked again and again cannot wait
for that. The child is a probe child all the same: a driver library can crash only it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from app.config.programs import child_environment, module_command

_LOG = logging.getLogger(__name__)
_ANSWER_S = 3.0
_START_S = 8.0
"""For the first answer: the driver's library is loaded for it."""
_END_S = 1.0
Answer = TypeVar("Answer")


class StandingChild(Generic[Answer]):
    """Asks a child, starting it when it is needed first or has ended. Belongs to one event loop.

    `subject` is what its answers are, for the log.
    """

    def __init__(self, answer: type[Answer], *, subject: str) -> None:
        self._answer = answer
        self._subject = subject
        self._child: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def ask(self, argv: Sequence[str]) -> Answer | None:
        """Return the child's next answer; `argv` is what starts it. None, and a line in the log, where none comes."""
        async with self._lock:
            try:
                return await self._read_answer(argv)
            except (OSError, TimeoutError, msgspec.MsgspecError) as error:
                _LOG.warning("%s could not be read: %s", self._subject, str(error) or type(error).__name__)
                await self.close()
                return None

    async def close(self) -> None:
        """End the child by ending its input, so that it can end what it started; one that hangs is killed."""
        child, self._child = self._child, None
        if child is None or child.returncode is not None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await child.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _read_answer(self, argv: Sequence[str]) -> Answer | None:
        limit_s = _ANSWER_S
        if self._child is None or self._child.returncode is not None:
            self._child, limit_s = await _start_child(argv), _START_S
        if self._child.stdin is None or self._child.stdout is None:
            return None
        self._child.stdin.write(b"\n")
        async with asyncio.timeout(limit_s):
            await self._child.stdin.drain()
            return msgspec.json.decode(await self._child.stdout.readline(), type=self._answer)


def probe_command(*arguments: str) -> list[str]:
    """Return the argv of a probe child of ours."""
    return module_command("app.hardware", *arguments)


async def _start_child(argv: Sequence[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
    )
