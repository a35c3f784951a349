"""What is free of each graphics memory this moment, asked again and again: a child process that stays, and its asker.

A probe starts a child for every look, which takes a good part of a second; a decision about room cannot wait for that.
The child is a probe child all the same: a driver library can crash only it.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import msgspec

from app.config.programs import child_environment, module_command
from app.core.machine import Machine
from app.hardware.evidence import THIS_SYSTEM, live_evidence
from app.hardware.families import FREE, families_of, find_family

_LOG = logging.getLogger(__name__)
_OTHERS = {"linux": "sysfs", "windows": "display"}
_ANSWER_S = 3.0
_START_S = 8.0
"""For the first answer: the driver's library is loaded for it."""
_Free = dict[str, int]


def families_to_watch(machine: Machine) -> list[str]:
    """Return the probe families that tell what is free of the GPUs with memory of their own."""
    vendors = {gpu.vendor for gpu in machine.gpus if not gpu.integrated.value}
    names = {"nvidia" if vendor == "nvidia" else _OTHERS.get(THIS_SYSTEM, "") for vendor in vendors}
    return sorted(names & set(families_of(THIS_SYSTEM)))


def answer_each_line(names: Sequence[str], requests: Iterable[bytes], output: BinaryIO) -> None:
    """Write what is free, by GPU, as a line of JSON for every line that comes: the child's whole life."""
    for _ in requests:
        output.write(msgspec.json.encode(_free_by_gpu(names)) + b"\n")
        output.flush()


def _free_by_gpu(names: Sequence[str]) -> _Free:
    evidence = live_evidence()
    gpus = [gpu for name in names for gpu in find_family(evidence.system, name)(evidence).gpus]
    return {gpu.id: gpu.memory_free.value for gpu in gpus if gpu.memory_free.value is not None}


class FreeMemoryReader:
    """Asks the child, starting it when it is needed first or has ended. Belongs to one event loop."""

    def __init__(self, argv: Sequence[str] | None = None) -> None:
        self._argv = argv
        self._child: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def read_free(self, names: Sequence[str]) -> _Free:
        """Return the bytes free of each GPU's memory; what could not be read is left out."""
        if not names:
            return {}
        async with self._lock:
            try:
                return await self._ask_child(names)
            except (OSError, TimeoutError, msgspec.MsgspecError) as error:
                _LOG.warning("Free graphics memory could not be read: %s", str(error) or type(error).__name__)
                await self.close()
                return {}

    async def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _ask_child(self, names: Sequence[str]) -> _Free:
        limit_s = _ANSWER_S
        if self._child is None or self._child.returncode is not None:
            self._child, limit_s = await self._start_child(names), _START_S
        if self._child.stdin is None or self._child.stdout is None:
            return {}
        self._child.stdin.write(b"\n")
        async with asyncio.timeout(limit_s):
            await self._child.stdin.drain()
            return msgspec.json.decode(await self._child.stdout.readline(), type=_Free)

    async def _start_child(self, names: Sequence[str]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(self._argv or module_command("app.hardware", FREE, *names)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=child_environment(),
        )


def serve_child() -> int:
    """Be the child."""
    answer_each_line(sys.argv[2:], sys.stdin.buffer, sys.stdout.buffer)
    return 0
