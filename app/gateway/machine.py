"""The machine as last read, read again only when somebody asks for it fresh. One probe runs at a time."""

import asyncio

from app.core.machine import Machine


class MachineReader:
    """Keeps the last `Machine`; several who ask at once share one probe."""

    def __init__(self) -> None:
        self._last: Machine | None = None
        self._probing = asyncio.Lock()

    async def read(self, *, fresh: bool = False) -> Machine:
        """Return what is known about the machine. The first call, and a fresh one, wait for a probe."""
        asked_after = self._last
        async with self._probing:
            if self._last is None or (fresh and self._last is asked_after):
                self._last = await _probe()
            return self._last


async def _probe() -> Machine:
    from app.hardware.probe import read_machine  # noqa: PLC0415 -- start-up must not pay for the probes' imports

    return await read_machine()
