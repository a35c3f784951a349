"""The machine as it is drawn: each pool of memory with who uses it, and the devices that compute on it.

Pure: a `Machine` and the engines that run in, values to draw out.
"""

from collections.abc import Sequence

import msgspec

from app.core import words
from app.core.engines import EngineStatus
from app.core.machine import EngineDevice, Fact, Gpu, Machine, Pool
from app.gui.screens.machine.facts import AnyFact, said, source

SYSTEM = "system"


class Cell(msgspec.Struct, frozen=True):
    """One figure with what it is; `tip` is where it comes from."""

    label: str
    text: str
    tip: str = ""


class Device(msgspec.Struct, frozen=True):
    """One row below a pool. `engine_views` are sentences: how engines see it, where that differs."""

    icon: str
    name: str
    detail: str
    cells: list[Cell]
    engine_views: list[str] = []
    cores: int = 0
    usable_cores: float = 0.0


class PoolDrawing(msgspec.Struct, frozen=True):
    """One pool in bytes. `ours` is None where nobody can tell it from what other programs use."""

    id: str
    name: str
    detail: str
    total: int
    addressable: int | None
    used: int | None
    ours: int | None
    figures: list[Cell]
    devices: list[Device]

    @property
    def others(self) -> int:
        """What is used and not known to be ours."""
        return max(0, (self.used or 0) - (self.ours or 0))

    @property
    def free(self) -> int:
        """What nobody uses."""
        return max(0, self.total - self.others - (self.ours or 0))


def pool_drawings(machine: Machine, running: Sequence[EngineStatus]) -> list[PoolDrawing]:
    """Return every pool in the machine's order."""
    ours = _ours(machine, running)
    return [_drawing(machine, pool, ours[pool.id]) for pool in machine.pools]


def notes_on(machine: Machine) -> list[str]:
    """Return sentences on what narrows what can be used, and on devices that only an engine sees."""
    limits = [said(limit) for limit in machine.limits]
    lone = [device for device in machine.engine_devices if not device.gpu and device.difference]
    return [*limits, *(f"{device.engine}: {device.difference}" for device in lone)]


def _drawing(machine: Machine, pool: Pool, ours: int | None) -> PoolDrawing:
    total, free = pool.physical.value or 0, pool.free.value
    used = total - min(total, free) if free is not None else None
    reach = pool.addressable.value
    return PoolDrawing(
        id=pool.id,
        name=pool.name or pool.id,
        detail="one pool, shared by processor and graphics" if pool.is_unified else "",
        total=total,
        addressable=reach if pool.gpus and reach is not None and reach < total else None,
        used=used,
        ours=ours if ours is None or used is None else min(ours, used),
        figures=_figures(pool),
        devices=_devices(machine, pool),
    )


def _figures(pool: Pool) -> list[Cell]:
    reach = "graphics may use" if pool.gpus else "engines may use"
    facts = (("total", pool.physical), (reach, pool.addressable), ("free now", pool.free))
    return [Cell(label, _short(fact), source(fact)) for label, fact in facts]


def _ours(machine: Machine, running: Sequence[EngineStatus]) -> dict[str, int | None]:
    """Return what our engines use, by pool. An engine does not tell on which of several cards it is."""
    graphics = [pool.id for pool in machine.pools if pool.gpus]
    found: dict[str, int | None] = {pool.id: 0 for pool in machine.pools}
    for status in running:
        used = status.memory_bytes or 0
        if status.backend in {"", "cpu"}:
            found[SYSTEM] = (found.get(SYSTEM) or 0) + used
        elif len(graphics) == 1:
            found[graphics[0]] = (found[graphics[0]] or 0) + used
        else:
            found |= dict.fromkeys(graphics)
    return found


def _devices(machine: Machine, pool: Pool) -> list[Device]:
    found = [_gpu(gpu, machine.engine_devices) for gpu in machine.gpus if gpu.pool == pool.id or gpu.id in pool.gpus]
    if pool.id != SYSTEM:
        return found
    npus = [Device("microchip", said(npu.name), "neural processor", []) for npu in machine.npus]
    return [_processor(machine), *found, *npus]


def _processor(machine: Machine) -> Device:
    cpu = machine.cpu
    cores = cpu.physical_cores.value or cpu.logical_cores.value or 0
    usable = cpu.usable_cores.value
    cells = [
        _cell("memory speed", machine.memory.bandwidth_gb_s),
        Cell("cores", _cores(cores, usable), source(cpu.usable_cores)),
        Cell("instructions", _widest(cpu.isa.value or []), f"{said(cpu.isa)}. {source(cpu.isa)}"),
    ]
    return Device(
        "cpu",
        said(cpu.model),
        "processor",
        [cell for cell in cells if cell.text],
        cores=cores,
        usable_cores=min(float(cores), usable if usable is not None else float(cores)),
    )


def _gpu(gpu: Gpu, seen: Sequence[EngineDevice]) -> Device:
    cells = [
        _cell("memory speed", gpu.bandwidth_gb_s),
        _cell("16-bit", gpu.fp16_tflops),
        _cell("compute level", gpu.compute),
    ]
    details = ["graphics", str(gpu.architecture.value or ""), "drives the display" if gpu.drives_display.value else ""]
    views = [f"{view.engine}: {view.difference}" for view in seen if view.gpu == gpu.id and view.difference]
    return Device(
        "gpu",
        gpu.name.value or gpu.id,
        " · ".join(filter(None, details)),
        [cell for cell in cells if cell.text],
        views,
    )


def _cell(label: str, fact: AnyFact) -> Cell:
    return Cell(label, _rounded(fact), source(fact))


def _rounded(fact: AnyFact) -> str:
    """Return a figure as it is read in passing: three digits; nothing when it is unknown."""
    if fact.value is None or fact.value == "":
        return ""
    if isinstance(fact.value, (int, float)):
        return f"{fact.value:,.0f} {fact.unit}" if fact.value >= 10 else f"{fact.value:.1f} {fact.unit}"  # noqa: PLR2004 -- one decimal below ten
    return said(fact)


def _short(fact: Fact[int]) -> str:
    return words.size(fact.value)


def _cores(cores: int, usable: float | None) -> str:
    if not cores:
        return ""
    return f"{cores}" if usable is None or usable >= cores else f"{usable:g} of {cores}"


_LADDER = (
    ("amx_int8", "AMX"),
    ("avx512_bf16", "AVX-512 BF16"),
    ("avx512_vnni", "AVX-512 VNNI"),
    ("avx512f", "AVX-512"),
    ("avx_vnni", "AVX-VNNI"),
    ("avx2", "AVX2"),
    ("sme2", "SME2"),
    ("sme", "SME"),
    ("sve2", "SVE2"),
    ("i8mm", "i8mm"),
    ("dotprod", "dot product"),
    ("asimd", "NEON"),
)
"""Vector extensions from the one that helps most to the one that helps least, of both families."""


def _widest(isa: Sequence[str]) -> str:
    return next((name for flag, name in _LADDER if flag in isa), "")
