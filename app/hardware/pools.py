"""Which physical memory there is, who computes on it, and how much of it: one pool per memory, not per device.

A GPU that shares system memory makes that one pool with two users: keeping layers "on the CPU" frees nothing there, and
"shared GPU memory" is never added to it. An APU's carve-out is a part of the same chips that the system cannot use: it
adds to what there is, and what is free of it counts whatever the system has left.
"""

from collections.abc import Sequence

import msgspec

from app.core.machine import Fact, Gpu, Machine, Memory, Pool
from app.hardware.facts import derived_fact

SYSTEM = "system"


def with_pools(machine: Machine) -> Machine:
    """Return the machine with its pools, each GPU pointing at its own."""
    pools = pools_of(machine.memory, machine.gpus)
    home = {gpu: pool.id for pool in pools for gpu in pool.gpus}
    gpus = [msgspec.structs.replace(gpu, pool=home.get(gpu.id, "")) for gpu in machine.gpus]
    return msgspec.structs.replace(machine, gpus=gpus, pools=pools)


def pools_of(memory: Memory, gpus: Sequence[Gpu]) -> list[Pool]:
    """Return system memory first, then the memory of each GPU that has its own."""
    sharing_gpus = [gpu for gpu in gpus if gpu.integrated.value]
    own = [gpu for gpu in gpus if not gpu.integrated.value and gpu.memory_total.value]
    return [_system_pool(memory, sharing_gpus), *map(_separate_pool, own)]


def _system_pool(memory: Memory, sharing_gpus: Sequence[Gpu]) -> Pool:
    physical = _physical_fact(memory, sharing_gpus)
    return Pool(
        id=SYSTEM,
        name="Memory",
        physical=physical,
        addressable=_clamp_fact(_addressable_fact(memory, sharing_gpus), physical),
        free=_clamp_fact(_free_fact(memory, sharing_gpus), physical),
        gpus=[gpu.id for gpu in sharing_gpus],
        is_unified=bool(sharing_gpus),
    )


def _physical_fact(memory: Memory, sharing_gpus: Sequence[Gpu]) -> Fact[int]:
    carved_bytes = _carve_out_bytes(sharing_gpus)
    if not carved_bytes or memory.total.value is None:
        return memory.total
    note = "what the system sees + what is set aside for graphics"
    return derived_fact(memory.total.value + carved_bytes, memory.total.source, unit="B", note=note)


def _addressable_fact(memory: Memory, sharing_gpus: Sequence[Gpu]) -> Fact[int]:
    """Return what the GPU may have of it, else what the system or a control group lets a process have."""
    usable = memory.limit if memory.limit.value is not None else memory.total
    shares = [fact for gpu in sharing_gpus if (fact := _most_addressable(gpu)).value]
    if not shares:
        return usable
    share = max(shares, key=lambda fact: fact.value or 0)
    if memory.limit.value is None:
        return share
    return _clamp_fact(
        share, derived_fact(memory.limit.value + _carve_out_bytes(sharing_gpus), memory.limit.source, unit="B")
    )


def _most_addressable(gpu: Gpu) -> Fact[int]:
    """Return the most any backend can address, or the driver's total where backends do not differ."""
    known_facts = [fact for fact in gpu.addressable.values() if fact.value is not None]
    return max(known_facts, key=lambda fact: fact.value or 0) if known_facts else gpu.memory_total


def _free_fact(memory: Memory, sharing_gpus: Sequence[Gpu]) -> Fact[int]:
    """Return what is free now for its best user. Free graphics memory is what the driver says, within the system's."""
    candidates = [gpu for gpu in sharing_gpus if gpu.memory_free.value is not None and not _is_systems(gpu.memory_free)]
    if not candidates or memory.available.value is None:
        return memory.available
    gpu = max(candidates, key=lambda card: card.memory_free.value or 0)
    return _clamp_fact(gpu.memory_free, _with_carve_out(memory.available, gpu))


def _is_systems(free: Fact[int]) -> bool:
    """Tell whether a GPU's free memory is only the system's said again; the system's own may be younger."""
    return free.source.endswith("MemAvailable")


def _with_carve_out(available: Fact[int], gpu: Gpu) -> Fact[int]:
    carved_bytes = gpu.carve_out.value
    if not carved_bytes or available.value is None:
        return available
    return derived_fact(
        available.value + carved_bytes, available.source, unit="B", note="available + set aside for graphics"
    )


def _carve_out_bytes(sharing_gpus: Sequence[Gpu]) -> int:
    return sum(gpu.carve_out.value or 0 for gpu in sharing_gpus)


def _separate_pool(gpu: Gpu) -> Pool:
    return Pool(
        id=gpu.id,
        name=gpu.name.value or gpu.id,
        physical=gpu.memory_total,
        addressable=_clamp_fact(_most_addressable(gpu), gpu.memory_total),
        free=_clamp_fact(gpu.memory_free, gpu.memory_total),
        gpus=[gpu.id],
    )


def _clamp_fact(amount: Fact[int], most: Fact[int]) -> Fact[int]:
    """Return an amount, never more than there can be: drivers of shared memory have told so."""
    if amount.value is None or most.value is None or amount.value <= most.value:
        return amount
    return derived_fact(
        most.value, most.source or amount.source, unit="B", note=f"{amount.source} said more than there is"
    )
