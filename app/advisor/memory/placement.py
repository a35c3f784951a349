"""Which pool of memory each place is on a machine, and how much of it an engine may use there now.

On a machine with unified memory the GPU and the processor draw on one pool: what is kept "on the host" counts there
too, and only the GPU's part is bound by what it may address.
"""

from collections.abc import Iterable, Sequence

import msgspec

from app.advisor.memory.setting import HOST, MemoryComponents, MemoryPart, RunSetting, by_component
from app.core.advice import PoolUse
from app.core.machine import Fact, Gpu, Machine, Pool
from engines.api.traits import ReservedMemory

MARGIN = 1024 * 1024 * 1024
"""Kept free in each pool: llama.cpp's own default (`--fit-target`, 1024 MiB per device)."""

SYSTEM = "system"

_VENDORS: dict[str, tuple[str, ...]] = {
    "cuda": ("nvidia",),
    "rocm": ("amd",),
    "metal": ("apple",),
    "sycl": ("intel",),
}
"""Whose GPUs a backend drives; the others take any."""


class PoolRoom(msgspec.Struct, frozen=True, kw_only=True):
    """One pool with the places that lie in it. `free` and `addressable` in bytes, None when unknown."""

    pool: Pool
    places: tuple[int, ...]
    free: int | None
    addressable: int | None
    """The most the GPU may hold of it with this backend."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.pool.name or self.pool.id


def gpus_for(machine: Machine, backend: str) -> list[Gpu]:
    """Return the GPUs a backend can use: those with memory of their own first, the largest first."""
    if backend in {"cpu", "npu"}:
        return []
    vendors = _VENDORS.get(backend)
    fitting_gpus = [gpu for gpu in machine.gpus if vendors is None or gpu.vendor in vendors]
    return sorted(fitting_gpus, key=lambda gpu: (gpu.integrated.value is True, -(gpu.memory_total.value or 0)))


def adapt_setting(setting: RunSetting, machine: Machine) -> RunSetting:
    """Return the setting with what the machine adds: its GPUs, their sizes, its vector extensions."""
    gpus = gpus_for(machine, setting.backend)[: max(1, setting.gpus)]
    sizes = tuple(_reservable_bytes(machine, gpu) for gpu in gpus)
    if isinstance(setting.engine.memory, ReservedMemory) and setting.backend == "cpu":
        sizes = tuple(pool.physical.value for pool in machine.pools[:1] if pool.physical.value)
    return msgspec.structs.replace(
        setting,
        gpus=len(gpus),
        gpu_memory=setting.gpu_memory or sizes,
        isa=setting.isa or tuple(machine.cpu.isa.value or ()),
    )


def pool_rooms(machine: Machine, setting: RunSetting) -> list[PoolRoom]:
    """Return the pools in use, each with its places: system memory first."""
    gpus = gpus_for(machine, setting.backend)[: setting.gpus] if setting.uses_gpu else []
    homes: dict[str, list[int]] = {}
    for place, gpu in enumerate(gpus):
        homes.setdefault(gpu.pool, []).append(place)
    system, *others = machine.pools or [_system_pool(machine)]
    in_use = [_build_room(system, (HOST, *homes.get(system.id, [])), gpus, setting)]
    return in_use + [_build_room(pool, tuple(homes[pool.id]), gpus, setting) for pool in others if pool.id in homes]


def pool_uses(components: MemoryComponents, in_use: Sequence[PoolRoom]) -> list[PoolUse]:
    """Return what each pool would hold."""
    room_parts = [(room, [part for part in components.parts if part.place in room.places]) for room in in_use]
    return [
        PoolUse(
            id=room.pool.id,
            name=room.name,
            bytes=sum(part.bytes for part in parts),
            reclaimable=sum(part.reclaimable for part in parts),
            free=room.free,
            margin=MARGIN,
            parts=by_component(parts, is_needed=True),
        )
        for room, parts in room_parts
        if parts
    ]


def parts_fit(parts: Iterable[MemoryPart], in_use: Sequence[PoolRoom], *, margin: int = MARGIN) -> bool:
    """Whether every pool holds its parts and stays a margin from full. A pool of unknown size holds nothing.

    Weights that lie in a copy besides the mapped file are not counted twice here: the system drops the mapped pages.
    """
    remaining_parts = list(parts)
    return all(_room_holds(room, remaining_parts, margin) for room in in_use)


def _room_holds(room: PoolRoom, parts: Sequence[MemoryPart], margin: int) -> bool:
    mine = [part for part in parts if part.place in room.places]
    if not mine:
        return True
    needed_bytes = sum(part.bytes - part.reclaimable for part in mine)
    on_gpu = sum(part.bytes for part in mine if part.place != HOST)
    is_within = room.free is not None and needed_bytes + margin <= room.free
    return is_within and (room.addressable is None or on_gpu <= room.addressable)


def _system_pool(machine: Machine) -> Pool:
    """Return system memory as a pool, for a machine whose pools nobody has made out."""
    memory = machine.memory
    usable = memory.total if memory.limit.value is None else memory.limit
    return Pool(id=SYSTEM, name="Memory", physical=memory.total, addressable=usable, free=memory.available)


def _build_room(pool: Pool, places: tuple[int, ...], gpus: Sequence[Gpu], setting: RunSetting) -> PoolRoom:
    computing_gpus = [gpus[place] for place in places if place != HOST]
    limits = [_addressable_bytes(gpu, setting.backend, pool) for gpu in computing_gpus]
    known_limits = [limit for limit in limits if limit is not None]
    return PoolRoom(pool=pool, places=places, free=_free_bytes(pool), addressable=min(known_limits, default=None))


def free_on(machine: Machine, gpu: Gpu) -> int | None:
    """Return what is free on a card with memory of its own; None where that is unknown, or shared."""
    sharers = [other for other in machine.gpus if other.pool == gpu.pool]
    pool = next((pool for pool in machine.pools[1:] if pool.id == gpu.pool), None)
    return _free_bytes(pool) if pool is not None and len(sharers) == 1 else None


def _free_bytes(pool: Pool) -> int | None:
    """Return what is free now; where that is unknown, what there is."""
    return next((fact.value for fact in (pool.free, pool.addressable, pool.physical) if fact.value is not None), None)


def _addressable_bytes(gpu: Gpu, backend: str, pool: Pool) -> int | None:
    reported_bytes: Fact[int] | None = gpu.addressable.get(backend)
    if reported_bytes is not None and reported_bytes.value is not None:
        return reported_bytes.value
    return pool.addressable.value


def _reservable_bytes(machine: Machine, gpu: Gpu) -> int:
    """Return the bytes a share is taken of: the GPU's memory, or the pool it draws on."""
    if gpu.memory_total.value:
        return gpu.memory_total.value
    pool = next((pool for pool in machine.pools if pool.id == gpu.pool), None)
    return (pool.physical.value or 0) if pool else 0
