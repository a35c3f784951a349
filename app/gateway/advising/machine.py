"""The machine as last read, read again only when somebody asks for it fresh, and the memory of it that is free now.

One probe runs at a time. What an engine says about its devices is asked beside the probes and added: it has the last
word on what it can use. Free memory of the system is read anew for every decision that rests on it; graphics memory
when it is stale, or by a child that stays. Nobody waits for a probe because a model that needs no GPU is to be loaded.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import psutil

from app.core.machine import Machine
from app.supervisor.memory_limits import MemoryReading
from app.supervisor.scheduling import SYSTEM

if TYPE_CHECKING:
    from app.hardware.free import FreeMemoryReader

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
        self._probe_lock = asyncio.Lock()
        self._measure_lock = asyncio.Lock()

    @property
    def last(self) -> Machine | None:
        """What was read last; None before the first time."""
        return self._last

    async def read(self, *, fresh: bool = False) -> Machine:
        """Return what is known about the machine. The first call, and a fresh one, wait for a probe."""
        machine_before = self._last
        async with self._probe_lock:
            if self._last is None or (fresh and self._last is machine_before):
                self._last = await self._probe()
            return self._last

    async def read_free(self) -> Machine:
        """Return the machine with what is free now: what a decision about fitting must rest on."""
        async with self._measure_lock:  # who comes second decides on the same figures
            machine = await self.read()
            if machine.memory.bandwidth_gb_s.value is None and not self._has_tried:
                machine = await self.measure()
                self._has_tried = True
        has_own_memory = any(gpu.carve_out.value or not gpu.integrated.value for gpu in machine.gpus)
        if has_own_memory and abs(time.time() - machine.probed_at) > FREE_KEPT_S:
            return await self.read(fresh=True)
        return await asyncio.to_thread(with_free_memory, machine)

    async def measure(self) -> Machine:
        """Return the machine with the bandwidth of its memory measured now; takes a second of all its cores."""
        from app.hardware.probe import measure_bandwidth  # noqa: PLC0415 -- start-up must not pay for these imports

        machine = await self.read()
        async with self._probe_lock:
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
    from app.hardware.evidence import live_evidence  # noqa: PLC0415 -- as above
    from app.hardware.memory import read_memory  # noqa: PLC0415 -- as above
    from app.hardware.pools import with_pools  # noqa: PLC0415 -- as above

    now = read_memory(live_evidence())
    memory = msgspec.structs.replace(machine.memory, available=now.available, limit=now.limit)
    return with_pools(msgspec.structs.replace(machine, memory=memory))


class MemoryGauge:
    """`app.supervisor.memory_limits.Gauge` for this computer. Close it in the end."""

    def __init__(self, machine: MachineReader) -> None:
        self._machine = machine
        self._graphics: FreeMemoryReader | None = None

    async def read(self, pids: Sequence[int] = ()) -> MemoryReading:
        """Return what is free of each pool, and what the processes named keep of system memory."""
        machine = self._machine.last
        free, private = await asyncio.to_thread(
            lambda: (_system_free_bytes(machine), {pid: _private_bytes(pid) for pid in pids})
        )
        free_by_pool = {} if free is None else {SYSTEM: free}
        return MemoryReading(free={**await self._own_memory(machine), **free_by_pool}, private=private)

    async def close(self) -> None:
        """End the child."""
        if self._graphics is not None:
            await self._graphics.close()

    async def _own_memory(self, machine: Machine | None) -> dict[str, int]:
        if machine is None or len(machine.pools) < 2:  # noqa: PLR2004 -- the first is the system's
            return {}
        from app.hardware.free import FreeMemoryReader, families_to_watch  # noqa: PLC0415 -- start-up must not pay for it

        self._graphics = self._graphics or FreeMemoryReader()
        pools = {pool.id for pool in machine.pools}
        readings = await self._graphics.read_free(families_to_watch(machine))
        return {gpu: free for gpu, free in readings.items() if gpu in pools and gpu != SYSTEM}


def _system_free_bytes(machine: Machine | None) -> int | None:
    if machine is None:
        from app.hardware.evidence import live_evidence  # noqa: PLC0415 -- start-up must not pay for it
        from app.hardware.memory import read_memory  # noqa: PLC0415 -- as above

        return read_memory(live_evidence()).available.value
    pools = with_free_memory(machine).pools
    return pools[0].free.value if pools else None


def _private_bytes(pid: int) -> int:
    """Return what a process and its children keep to themselves: what is mapped from files others can have at once."""
    try:
        leader = psutil.Process(pid)
        return sum(map(_process_private_bytes, (leader, *leader.children(recursive=True))))
    except psutil.Error:
        return 0


def _process_private_bytes(process: psutil.Process) -> int:
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    shared_bytes: int = getattr(memory, "shared", 0)  # Linux only; elsewhere all that is resident counts
    return max(0, int(memory.rss) - shared_bytes)


def with_capacity(machine: Machine, capacity: dict[str, int]) -> Machine:
    """Return the machine with other figures for what is free of its pools, where there are any."""
    pools = [
        msgspec.structs.replace(pool, free=msgspec.structs.replace(pool.free, value=capacity[pool.id]))
        if pool.id in capacity
        else pool
        for pool in machine.pools
    ]
    return msgspec.structs.replace(machine, pools=pools)
