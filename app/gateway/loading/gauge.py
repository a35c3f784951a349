"""How much memory is free for engines now: read for a decision about room, so quickly, and afresh each time.

System memory is read here; graphics memory by a child that stays. Of the machine only what the last probe found is
used: nobody waits for a probe because a model that needs no GPU is to be loaded.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import psutil

from app.core.machine import Machine
from app.gateway.advising.machine import MachineReader, with_free_memory
from app.supervisor.measured import Reading
from app.supervisor.scheduling import SYSTEM

if TYPE_CHECKING:
    from app.hardware.free import FreeMemory


class MemoryGauge:
    """`app.supervisor.measured.Gauge` for this computer. Close it in the end."""

    def __init__(self, machine: MachineReader) -> None:
        self._machine = machine
        self._graphics: FreeMemory | None = None

    async def read(self, pids: Sequence[int] = ()) -> Reading:
        """Return what is free of each pool, and what the processes named keep of system memory."""
        machine = self._machine.last
        free, private = await asyncio.to_thread(lambda: (_system(machine), {pid: _private(pid) for pid in pids}))
        known = {} if free is None else {SYSTEM: free}
        return Reading(free={**await self._own_memory(machine), **known}, private=private)

    async def close(self) -> None:
        """End the child."""
        if self._graphics is not None:
            await self._graphics.close()

    async def _own_memory(self, machine: Machine | None) -> dict[str, int]:
        if machine is None or len(machine.pools) < 2:  # noqa: PLR2004 -- the first is the system's
            return {}
        from app.hardware.free import FreeMemory, watchable  # noqa: PLC0415 -- start-up must not pay for it

        self._graphics = self._graphics or FreeMemory()
        pools = {pool.id for pool in machine.pools}
        told = await self._graphics.read(watchable(machine))
        return {gpu: free for gpu, free in told.items() if gpu in pools and gpu != SYSTEM}


def _system(machine: Machine | None) -> int | None:
    if machine is None:
        from app.hardware.evidence import live  # noqa: PLC0415 -- start-up must not pay for it
        from app.hardware.memory import read_memory  # noqa: PLC0415 -- as above

        return read_memory(live()).available.value
    pools = with_free_memory(machine).pools
    return pools[0].free.value if pools else None


def _private(pid: int) -> int:
    """Return what a process and its children keep to themselves: what is mapped from files others can have at once."""
    try:
        leader = psutil.Process(pid)
        return sum(map(_own, (leader, *leader.children(recursive=True))))
    except psutil.Error:
        return 0


def _own(process: psutil.Process) -> int:
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    shared: int = getattr(memory, "shared", 0)  # Linux only; elsewhere all that is resident counts
    return max(0, int(memory.rss) - shared)


def with_capacity(machine: Machine, capacity: dict[str, int]) -> Machine:
    """Return the machine with other figures for what is free of its pools, where there are any."""
    pools = [
        msgspec.structs.replace(pool, free=msgspec.structs.replace(pool.free, value=capacity[pool.id]))
        if pool.id in capacity
        else pool
        for pool in machine.pools
    ]
    return msgspec.structs.replace(machine, pools=pools)
