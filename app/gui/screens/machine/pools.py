"""The machine as it is drawn: each pool of memory with who uses it, and the devices that compute on it.

Pure: a `Machine` and the engines that run in, values to draw out.
"""

from collections.abc import Sequence

import msgspec

from app.core import words
from app.core.engines import EngineStatus
from app.core.machine import EngineDevice, Fact, Gpu, Machine, Pool
from app.core.translation import tr
from app.gui.screens.machine.facts import AnyFact, fact_source, fact_text

SYSTEM = "system"


class FigureCell(msgspec.Struct, frozen=True):
    """One figure with what it is; `tip` is where it comes from."""

    label: str
    text: str
    tip: str = ""


class DeviceDrawing(msgspec.Struct, frozen=True):
    """One row below a pool. `engine_views` are sentences: how engines see it, where that differs."""

    icon: str
    name: str
    detail: str
    cells: list[FigureCell]
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
    figures: list[FigureCell]
    devices: list[DeviceDrawing]

    @property
    def others(self) -> int:
        """What is used and not known to be ours."""
        return max(0, (self.used or 0) - (self.ours or 0))

    @property
    def free(self) -> int:
        """What nobody uses."""
        return max(0, self.total - self.others - (self.ours or 0))


def pool_drawings(machine: Machine, statuses: Sequence[EngineStatus]) -> list[PoolDrawing]:
    """Return every pool in the machine's order."""
    ours = _own_use(machine, statuses)
    return [_make_drawing(machine, pool, ours[pool.id]) for pool in machine.pools]


def notes_on(machine: Machine) -> list[str]:
    """Return sentences on what narrows what can be used, and on devices that only an engine sees."""
    limits = [fact_text(limit) for limit in machine.limits]
    lone = [device for device in machine.engine_devices if not device.gpu and device.difference]
    return [*limits, *(f"{device.engine}: {device.difference}" for device in lone)]


def _make_drawing(machine: Machine, pool: Pool, ours: int | None) -> PoolDrawing:
    total, free = pool.physical.value or 0, pool.free.value
    used_bytes = total - min(total, free) if free is not None else None
    reach = pool.addressable.value
    return PoolDrawing(
        id=pool.id,
        name=pool.name or pool.id,
        detail=tr("one pool, shared by processor and graphics") if pool.is_unified else "",
        total=total,
        addressable=reach if pool.gpus and reach is not None and reach < total else None,
        used=used_bytes,
        ours=ours if ours is None or used_bytes is None else min(ours, used_bytes),
        figures=_pool_figures(pool),
        devices=_pool_devices(machine, pool),
    )


def _pool_figures(pool: Pool) -> list[FigureCell]:
    reach = tr("graphics may use") if pool.gpus else tr("engines may use")
    facts = ((tr("total"), pool.physical), (reach, pool.addressable), (tr("free now"), pool.free))
    return [FigureCell(label, _short_size(fact), fact_source(fact)) for label, fact in facts]


def _own_use(machine: Machine, statuses: Sequence[EngineStatus]) -> dict[str, int | None]:
    """Return what our engines use, by pool. An engine does not tell on which of several cards it is."""
    graphics = [pool.id for pool in machine.pools if pool.gpus]
    use_by_pool: dict[str, int | None] = {pool.id: 0 for pool in machine.pools}
    for status in statuses:
        used_bytes = status.memory_bytes or 0
        if status.backend in {"", "cpu"}:
            use_by_pool[SYSTEM] = (use_by_pool.get(SYSTEM) or 0) + used_bytes
        elif len(graphics) == 1:
            use_by_pool[graphics[0]] = (use_by_pool[graphics[0]] or 0) + used_bytes
        else:
            use_by_pool |= dict.fromkeys(graphics)
    return use_by_pool


def _pool_devices(machine: Machine, pool: Pool) -> list[DeviceDrawing]:
    gpus = [
        _gpu_device(gpu, machine.engine_devices) for gpu in machine.gpus if gpu.pool == pool.id or gpu.id in pool.gpus
    ]
    if pool.id != SYSTEM:
        return gpus
    npus = [DeviceDrawing("microchip", fact_text(npu.name), tr("neural processor"), []) for npu in machine.npus]
    return [_processor_device(machine), *gpus, *npus]


def _processor_device(machine: Machine) -> DeviceDrawing:
    cpu = machine.cpu
    cores = cpu.physical_cores.value or cpu.logical_cores.value or 0
    usable = cpu.usable_cores.value
    cells = [
        _make_cell(tr("memory speed"), machine.memory.bandwidth_gb_s),
        FigureCell(tr("cores"), _core_words(cores, usable), fact_source(cpu.usable_cores)),
        FigureCell(
            tr("instructions"), _widest_isa(cpu.isa.value or []), f"{fact_text(cpu.isa)}. {fact_source(cpu.isa)}"
        ),
    ]
    return DeviceDrawing(
        "cpu",
        fact_text(cpu.model),
        tr("processor"),
        [cell for cell in cells if cell.text],
        cores=cores,
        usable_cores=min(float(cores), usable if usable is not None else float(cores)),
    )


def _gpu_device(gpu: Gpu, engine_devices: Sequence[EngineDevice]) -> DeviceDrawing:
    cells = [
        _make_cell(tr("memory speed"), gpu.bandwidth_gb_s),
        _make_cell(tr("16-bit"), gpu.fp16_tflops),
        _make_cell(tr("compute level"), gpu.compute),
    ]
    details = [
        tr("graphics"),
        str(gpu.architecture.value or ""),
        tr("drives the display") if gpu.drives_display.value else "",
    ]
    views = [f"{view.engine}: {view.difference}" for view in engine_devices if view.gpu == gpu.id and view.difference]
    return DeviceDrawing(
        "gpu",
        gpu.name.value or gpu.id,
        " · ".join(filter(None, details)),
        [cell for cell in cells if cell.text],
        views,
    )


def _make_cell(label: str, fact: AnyFact) -> FigureCell:
    return FigureCell(label, _round_fact(fact), fact_source(fact))


def _round_fact(fact: AnyFact) -> str:
    """Return a figure as it is read in passing: three digits; nothing when it is unknown."""
    if fact.value is None or fact.value == "":
        return ""
    if isinstance(fact.value, (int, float)):
        return f"{fact.value:,.0f} {fact.unit}" if fact.value >= 10 else f"{fact.value:.1f} {fact.unit}"  # noqa: PLR2004 -- one decimal below ten
    return fact_text(fact)


def _short_size(fact: Fact[int]) -> str:
    return words.format_bytes(fact.value)


def _core_words(cores: int, usable: float | None) -> str:
    if not cores:
        return ""
    return f"{cores}" if usable is None or usable >= cores else tr("{usable:g} of {cores}", usable=usable, cores=cores)


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


def _widest_isa(isa: Sequence[str]) -> str:
    return next((name for flag, name in _LADDER if flag in isa), "")
