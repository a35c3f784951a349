"""The machine as last read, read again only when somebody asks for it fresh. One probe runs at a time.

What an engine says about its devices is asked beside the probes and added: it has the last word on what it can use.
Free memory of the system is read anew for every decision that rests on it; graphics memory when it is stale.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from app.core.machine import Machine

FREE_KEPT_S = 15.0
"""Graphics memory can only be asked for in a child process; figures as young as this are believed."""

LLAMA_CPP = "llama.cpp"
"""The engine whose list of devices is asked for."""

AskDevices = Callable[[], Sequence[str]]
"""Ask the engine for its list of devices, one line each; takes seconds, may say nothing. Called in a thread."""


class MachineReader:
    """Keeps the last `Machine`; several who ask at once share one probe."""

    def __init__(self, ask_devices: AskDevices | None = None) -> None:
        self._ask_devices = ask_devices
        self._last: Machine | None = None
        self._has_tried = False
        """To measure the bandwidth of memory: once is enough where it cannot be done."""
        self._probing = asyncio.Lock()
        self._measuring = asyncio.Lock()

    @property
    def last(self) -> Machine | None:
        """What was read last; None before the first time."""
        return self._last

    async def read(self, *, fresh: bool = False) -> Machine:
        """Return what is known about the machine. The first call, and a fresh one, wait for a probe."""
        asked_after = self._last
        async with self._probing:
            if self._last is None or (fresh and self._last is asked_after):
                self._last = await self._probe()
            return self._last

    async def read_free(self) -> Machine:
        """Return the machine with what is free now: what a decision about fitting must rest on."""
        async with self._measuring:  # who comes second decides on the same figures
            machine = await self.read()
            if machine.memory.bandwidth_gb_s.value is None and not self._has_tried:
                machine = await self.measure()
                self._has_tried = True
        has_own_memory = any(gpu.carve_out.value or not gpu.integrated.value for gpu in machine.gpus)
        if has_own_memory and time.time() - machine.probed_at > FREE_KEPT_S:
            return await self.read(fresh=True)
        return await asyncio.to_thread(with_free_memory, machine)

    async def measure(self) -> Machine:
        """Return the machine with the bandwidth of its memory measured now; takes a second of all its cores."""
        from app.hardware.probe import measure_bandwidth  # noqa: PLC0415 -- start-up must not pay for these imports

        machine = await self.read()
        async with self._probing:
            self._last = await measure_bandwidth(machine)
            return self._last

    async def _probe(self) -> Machine:
        from app.hardware.engine_devices import with_engine_devices  # noqa: PLC0415 -- as above
        from app.hardware.probe import read_machine  # noqa: PLC0415 -- as above

        if self._ask_devices is None:
            return await read_machine()
        machine, lines = await asyncio.gather(read_machine(), asyncio.to_thread(self._ask_devices))
        return with_engine_devices(machine, LLAMA_CPP, lines)


def with_free_memory(machine: Machine) -> Machine:
    """Return the machine with what is free of system memory now."""
    from app.hardware.evidence import live  # noqa: PLC0415 -- as above
    from app.hardware.memory import read_memory  # noqa: PLC0415 -- as above
    from app.hardware.pools import with_pools  # noqa: PLC0415 -- as above

    now = read_memory(live())
    memory = msgspec.structs.replace(machine.memory, available=now.available, limit=now.limit)
    return with_pools(msgspec.structs.replace(machine, memory=memory))
