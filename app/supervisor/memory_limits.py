"""What memory there is for engines, from what is free now and what those that run take: readings in, limits out. Pure.

An engine's estimate counts until it says what it allocated; the difference then goes to the pools by their share.
Weights of a mapped file are charged to their engine although the system calls their pages available: an engine whose
pages are dropped reads its weights from the disk for every token.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from app.supervisor.policy import MemoryNeeds
from app.supervisor.scheduling import SYSTEM, MemoryLimits, Resident

_SLACK = 256 * 1024 * 1024
"""What other programs take or leave within two seconds without anybody calling it missing."""


class MemoryReading(msgspec.Struct, frozen=True, kw_only=True):
    """What was free a moment ago, in bytes by pool, and what each engine process (and its children) keeps from it."""

    free: Mapping[str, int] = {}
    private: Mapping[int, int] = {}
    """Of system memory, by process: what the system would call available again if the process ended."""


Gauge = Callable[[Sequence[int]], Awaitable[MemoryReading]]
"""Reads memory, with the processes named. What cannot be read is left out; it raises nothing."""


def correct_holdings(needs: MemoryNeeds | None, reported_bytes: int) -> Mapping[str, int] | None:
    """Return the bytes by pool once an engine said that it allocated `reported_bytes` bytes of buffers."""
    if needs is None:
        return {SYSTEM: reported_bytes}
    total = sum(needs.pools.values())
    more = reported_bytes - needs.buffers
    if not (needs.buffers and total):
        return needs.pools
    return {pool: max(0, taken_bytes + round(more * taken_bytes / total)) for pool, taken_bytes in needs.pools.items()}


def limits_of(memory_reading: MemoryReading, seats: Sequence[Resident], head_room: int) -> MemoryLimits:
    """Return how much all engines may take: what is free, and what those here give back when they go."""
    pools = {
        pool: free + _engine_holdings(pool, memory_reading, seats) - head_room
        for pool, free in memory_reading.free.items()
    }
    return MemoryLimits(pools=pools, head_room=head_room)


def is_memory_back(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Tell whether memory that an ended engine held can be used again: the limits are what they were."""
    return all(now.get(pool, limit) >= limit - _SLACK for pool, limit in before.items())


def _engine_holdings(pool: str, memory_reading: MemoryReading, seats: Sequence[Resident]) -> int:
    if pool == SYSTEM:
        return sum(memory_reading.private.get(seat.pid, 0) for seat in seats if seat.pid is not None)
    # What a load has taken so far of a GPU nobody tells: until it is ready, nothing is assumed to be its own.
    residents = (seat for seat in seats if seat.is_idle or seat.is_busy or seat.is_leaving)
    return sum((seat.holds or {}).get(pool, 0) for seat in residents)
