"""Which physical memory there is, who computes on it, and how much of it: one pool per memory, not per device.

A GPU that shares system memory makes that one pool with two users; keeping layers "on the CPU" frees nothing there.
"""

from collections.abc import Sequence

import msgspec

from app.core.machine import Fact, Gpu, Machine, Memory, Pool
from app.hardware.facts import derived

SYSTEM = "system"


def with_pools(machine: Machine) -> Machine:
    """Return the machine with its pools, each GPU pointing at its own."""
    pools = pools_of(machine.memory, machine.gpus)
    home = {gpu: pool.id for pool in pools for gpu in pool.gpus}
    gpus = [msgspec.structs.replace(gpu, pool=home.get(gpu.id, "")) for gpu in machine.gpus]
    return msgspec.structs.replace(machine, gpus=gpus, pools=pools)


def pools_of(memory: Memory, gpus: Sequence[Gpu]) -> list[Pool]:
    """Return system memory first, then the memory of each GPU that has its own."""
    sharing = [gpu for gpu in gpus if gpu.integrated.value]
    own = [gpu for gpu in gpus if not gpu.integrated.value and gpu.memory_total.value]
    return [_system(memory, sharing), *map(_separate, own)]


def _system(memory: Memory, sharing: Sequence[Gpu]) -> Pool:
    shares = [gpu.memory_total for gpu in sharing if gpu.memory_total.value]
    usable = memory.limit if memory.limit.value is not None else memory.total
    return Pool(
        id=SYSTEM,
        name="Memory",
        physical=memory.total,
        addressable=max(shares, key=lambda fact: fact.value or 0) if shares else usable,
        free=_clamped(memory.available, usable),
        gpus=[gpu.id for gpu in sharing],
        is_unified=bool(sharing),
    )


def _separate(gpu: Gpu) -> Pool:
    return Pool(
        id=gpu.id,
        name=gpu.name.value or gpu.id,
        physical=gpu.memory_total,
        addressable=gpu.memory_total,
        free=_clamped(gpu.memory_free, gpu.memory_total),
        gpus=[gpu.id],
    )


def _clamped(free: Fact[int], physical: Fact[int]) -> Fact[int]:
    """Return what is free, never more than there is: drivers of shared memory have told so."""
    if free.value is None or physical.value is None or free.value <= physical.value:
        return free
    return derived(physical.value, free.source, unit="B", note="more was reported free than there is")
