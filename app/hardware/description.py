"""A machine from a few lines of JSON, so that any computer can be planned for, not only this one.

    {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64,
     "gpus": [{"name": "RTX 3090", "vram_gb": 24, "count": 2, "compute_capability": "8.6", "nvlink": true}]}

Everything may be missing: what a name tells (memory, bandwidth, compute capability, sharing of memory) comes from the
device table, the rest stays unknown or is assumed, and each fact says which. A saved machine (`roundhouse machine
--json`) and a doctor report are read as they are.
"""

import re
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.core.machine import Confidence, Cpu, Fact, Gpu, Machine, Memory, Npu, OperatingSystem
from app.hardware import devices
from app.hardware.facts import derived, unknown
from app.hardware.macos.gpus import metal_share
from app.hardware.pools import with_pools
from app.hardware.told_values import tidied

GIB = 1 << 30
_SOURCE = "description"
_LIMIT_BYTES = 4 << 20
_MAX_GPUS = 4096
_MAX_FIGURE = 1e7  # ten petabytes: more than any machine, less than what overflows
_OS_NAMES = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}
_OS_WORDS = (
    (r"wsl|subsystem", "linux"),
    (r"mac|darwin|os ?x\b|sonoma|sequoia|tahoe", "macos"),
    (r"win|^nt$", "windows"),
    (r"linux|gnu|posix|ubuntu|debian|mint|pop!?_?os|fedora|red ?hat|rhel|centos|rocky|alma|suse|arch|manjaro", "linux"),
    (r"nix|gentoo|alpine|kali|steamos|l4t|jetpack|dgx ?os|raspbian|raspberry|proxmox|unraid|amazon", "linux"),
)
_TEGRA = r"\bjetson\b|\borin\b|\bxavier\b|\bthor\b|\btegra\b|nvgpu|\bdgx spark\b"
"""NVIDIA's chips with GPU and processor in one; `(nvgpu)` ends the names their driver gives."""
_VENDORS = (
    (r"nvidia|geforce|\brtx\b|\bgtx\b|quadro|tesla|\b[abhl]\d{2,3}s?\b|\bgb?\d{2,3}\b", "nvidia"),
    (_TEGRA, "nvidia"),
    (r"amd|radeon|instinct|\bmi\d{2,3}|\brx ?\d", "amd"),
    (r"intel|\barc\b|iris", "intel"),
    (r"apple|\bm\d\b", "apple"),
    (r"qualcomm|adreno|snapdragon", "qualcomm"),
)
_TEGRA_COMPUTE = {"xavier": "7.2", "orin": "8.7", "thor": "11.0"}
"""Compute capability by chip (NVIDIA's table of CUDA GPUs), for names that leave open which board it is."""
_OS_RESERVE = {"linux": 2 * GIB, "windows": 4 * GIB, "macos": 4 * GIB}
"""Memory a system with its usual programs holds; assumed, since nobody can be asked."""
_SERVER_GPU_RESERVE = GIB // 2
_DESKTOP_GPU_RESERVE = GIB
"""What driver and display hold of a card: 300 to 1500 MiB on those that drive a monitor."""


class GpuDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal cards. Memory in GiB as sold, bandwidth in GB/s, rate in dense FP16 TFLOPS."""

    name: str = ""
    vendor: str = ""
    vram_gb: float | None = None
    free_vram_gb: float | None = None
    count: int = 1
    compute_capability: str | float | None = None
    nvlink: bool | None = None
    integrated: bool | None = None
    bandwidth_gb_s: float | None = None
    fp16_tflops: float | None = None
    cores: int | None = None


class CpuDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The processor. `isa` lists vector extensions as Linux names them ("avx2", "avx512f", "amx_int8")."""

    model: str = ""
    cores: int | None = None
    isa: list[str] | None = None


class MachineDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The whole computer; the module docstring has an example. Unknown names are let pass: they may be notes."""

    os: str = ""
    architecture: str = ""
    cpu: str | CpuDescription = ""
    cores: int | None = None
    isa: list[str] | None = None
    ram_gb: float | None = None
    free_ram_gb: float | None = None
    ram_bandwidth_gb_s: float | None = None
    gpus: list[GpuDescription] = []
    unified: bool | None = None
    npu: bool | str = False


class _Saved(msgspec.Struct):
    """What `roundhouse machine --json` and a doctor report have in common: the machine below a name."""

    machine: Machine


def machine_from(raw: bytes) -> Machine:
    """Return the machine that JSON describes. Raises BadRequest (code machine_invalid) with what is wrong in it."""
    if len(raw) > _LIMIT_BYTES:
        raise _invalid("it is larger than any description of a computer")
    try:
        shape = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(f"it is not JSON ({error})") from error
    if not isinstance(shape, dict):
        raise _invalid("it is not a JSON object")
    try:
        saved = _saved(shape)
        return saved or _described(msgspec.convert(tidied(shape), MachineDescription))
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error


def _saved(shape: dict[str, Any]) -> Machine | None:
    """Return the machine of a saved one or of a report; None when this is a description."""
    if isinstance(shape.get("machine"), dict):
        return msgspec.convert(shape, _Saved).machine
    inside = shape.get("machine") or shape.get("data") or shape
    if isinstance(inside, dict) and {"cpu", "memory", "probes"} <= set(inside):
        return msgspec.convert(inside, Machine)
    return None


def _invalid(what: str) -> BadRequest:
    return BadRequest(
        f"The machine description cannot be used: {what}.",
        hint='The minimum is {"os": "linux", "ram_gb": 32, "gpus": [{"name": "RTX 3090", "count": 1}]}.',
        code="machine_invalid",
    )


def _described(told: MachineDescription) -> Machine:
    _check(told)
    system, cpu = _system(told), _cpu(told)
    gpus = [gpu for number, card in enumerate(_cards(told)) for gpu in _gpus(card, number, told, system)]
    memory = _memory(told, system, gpus, cpu)
    gpus = [_sharing(gpu, memory, system) for gpu in gpus]
    return with_pools(
        Machine(
            os=_operating_system(told, system),
            cpu=cpu,
            memory=memory,
            gpus=gpus,
            probes=[],
            probed_at=0.0,
            npus=_npus(told),
        )
    )


def _check(told: MachineDescription) -> None:
    figures = [told.ram_gb, told.free_ram_gb, told.ram_bandwidth_gb_s, told.cores]
    for card in told.gpus:
        figures += [card.vram_gb, card.free_vram_gb, card.bandwidth_gb_s, card.fp16_tflops, card.cores]
    if any(figure is not None and not 0 < figure < _MAX_FIGURE for figure in figures):
        raise _invalid("a figure in it is zero, negative or impossible")
    if not all(card.count > 0 for card in told.gpus) or sum(card.count for card in told.gpus) > _MAX_GPUS:
        raise _invalid(f"its number of GPUs is not plausible; 1 to {_MAX_GPUS} can be planned for")


def _system(told: MachineDescription) -> str:
    """Return "linux", "windows" or "macos"; what is not said follows from the chips, else it is Linux."""
    lowered = told.os.lower()
    found = next((name for pattern, name in _OS_WORDS if re.search(pattern, lowered)), "")
    if lowered and not found:
        raise _invalid(f"there is no operating system called {told.os!r}; there are linux, windows and macos")
    named = " ".join([_cpu_name(told), *(card.name for card in told.gpus)])
    return found or ("macos" if _vendor(named) == "apple" else "linux")


def _operating_system(told: MachineDescription, system: str) -> OperatingSystem:
    apple = system == "macos" and not re.search(r"intel|xeon", _cpu_name(told), re.IGNORECASE)
    arm = apple or re.search(
        r"snapdragon|ampere altra|graviton|grace|cortex|raspberry|gb10|spark|jetson|orin|xavier|thor", _all(told)
    )
    architecture = told.architecture or ("arm64" if arm else "x86_64")
    return OperatingSystem(
        name=_told(_OS_NAMES[system]),
        version=_told(told.os or _OS_NAMES[system]),
        kernel=_untold(),
        architecture=_told(architecture),
        environment=_told("wsl" if "wsl" in told.os.lower() else "bare"),
    )


def _all(told: MachineDescription) -> str:
    return " ".join([_cpu_name(told), *(card.name for card in told.gpus)]).lower()


def _cpu_name(told: MachineDescription) -> str:
    return told.cpu if isinstance(told.cpu, str) else told.cpu.model


def _cpu(told: MachineDescription) -> Cpu:
    detail = told.cpu if isinstance(told.cpu, CpuDescription) else CpuDescription()
    cores, isa = detail.cores or told.cores, detail.isa or told.isa
    counted: Fact[int] = _told(cores) if cores else _untold()
    return Cpu(
        model=_told(_cpu_name(told)) if _cpu_name(told) else _untold(),
        vendor=_untold(),
        physical_cores=counted,
        performance_cores=counted,
        logical_cores=_untold(),
        usable_cores=_told(float(cores)) if cores else _untold(),
        isa=_told([flag.lower() for flag in isa]) if isa else _untold(),
    )


def _cards(told: MachineDescription) -> list[GpuDescription]:
    """Return the GPUs told, or the one that comes with the processor (Apple, Strix Halo, Snapdragon)."""
    if told.gpus:
        return told.gpus
    chip = devices.find(_cpu_name(told))
    if chip is None or not chip.is_unified or chip.kind == "sbc":
        return []
    return [GpuDescription(name=_cpu_name(told), integrated=True)]


def _gpus(card: GpuDescription, number: int, told: MachineDescription, system: str) -> list[Gpu]:
    device = _device(card)
    shared = _is_shared(card, device, told)
    vram = None if shared and not card.vram_gb else card.vram_gb or (device.memory_gb if device else None)
    template = Gpu(
        id="",
        vendor=card.vendor.lower() or (device.vendor if device else "") or _vendor(card.name) or "unknown",
        name=_told(card.name) if card.name else _untold(),
        memory_total=_bytes(vram, table=card.vram_gb is None),
        memory_free=_free_vram(card, vram, system, told),
        driver=_untold(),
        compute=_compute(card, device),
        integrated=_told(shared),
        bandwidth_gb_s=_rate(card.bandwidth_gb_s, "GB/s"),
        fp16_tflops=_rate(card.fp16_tflops, "TFLOPS"),
        cores=_told(card.cores) if card.cores else _untold(),
        nvlink=_told(card.nvlink) if card.nvlink is not None else _untold(),
    )
    filled = devices.described(template, device=device)
    return [msgspec.structs.replace(filled, id=f"gpu{number}.{index}") for index in range(card.count)]


def _device(card: GpuDescription) -> devices.Device | None:
    wanted = card.name
    if card.nvlink:  # the module with NVLink, where a card of the same name has none
        module = devices.find(f"{wanted} SXM", memory_gb=card.vram_gb, cores=card.cores)
        if module and "SXM" in module.name:
            return module
    return devices.find(wanted, memory_gb=card.vram_gb, cores=card.cores)


def _compute(card: GpuDescription, device: devices.Device | None) -> Fact[str]:
    if card.compute_capability is not None:
        return _told(str(card.compute_capability))
    chip = re.search("|".join(_TEGRA_COMPUTE), card.name.lower()) if device is None else None
    if chip is None:
        return _untold()
    return Fact(value=_TEGRA_COMPUTE[chip[0]], source="NVIDIA's table of CUDA GPUs", confidence=Confidence.TABLE)


def _is_shared(card: GpuDescription, device: devices.Device | None, told: MachineDescription) -> bool:
    if card.integrated is not None:
        return card.integrated
    if device is not None:
        return device.is_unified
    return told.unified is True or re.search(_TEGRA, card.name.lower()) is not None


def _free_vram(card: GpuDescription, vram: float | None, system: str, told: MachineDescription) -> Fact[int]:
    if card.free_vram_gb is not None:
        return _bytes(card.free_vram_gb, table=False)
    if vram is None:
        return _untold()
    is_server = system == "linux" and sum(other.count for other in told.gpus) > 1
    reserve = _SERVER_GPU_RESERVE if is_server else _DESKTOP_GPU_RESERVE
    free = max(int(vram * GIB) - reserve, int(vram * GIB) // 2)
    return derived(free, _SOURCE, unit="B", note="assumed: all but what driver and display hold")


def _memory(told: MachineDescription, system: str, gpus: list[Gpu], cpu: Cpu) -> Memory:
    shared = [gpu for gpu in gpus if gpu.integrated.value]
    unified = told.unified if told.unified is not None else bool(shared)
    ram = told.ram_gb or max((gpu.memory_total.value / GIB for gpu in shared if gpu.memory_total.value), default=None)
    bandwidth = [gpu.bandwidth_gb_s for gpu in shared if gpu.bandwidth_gb_s.value]
    name = cpu.model.value or ""
    chip = devices.find(name) or devices.memory_of(name)
    if not bandwidth and chip and chip.kind in {"unified-soc", "igpu", "sbc", "cpu-memory"}:
        bandwidth = [devices.bandwidth(chip)]
    return Memory(
        total=_bytes(ram, table=told.ram_gb is None),
        available=_free_ram(told, ram, system),
        limit=_untold(),
        swap_total=_untold(),
        unified=_told(unified),
        bandwidth_gb_s=_rate(told.ram_bandwidth_gb_s, "GB/s"),
        theoretical_gb_s=bandwidth[0] if bandwidth else _rate(None, "GB/s"),
    )


def _free_ram(told: MachineDescription, ram: float | None, system: str) -> Fact[int]:
    if told.free_ram_gb is not None:
        return _bytes(told.free_ram_gb, table=False)
    if ram is None:
        return _untold()
    total = int(ram * GIB)
    free = max(total - _OS_RESERVE[system], total // 2)
    return derived(free, _SOURCE, unit="B", note="assumed: all but what the system itself usually holds")


def _sharing(gpu: Gpu, memory: Memory, system: str) -> Gpu:
    """Return a GPU without memory of its own with the share of system memory it may use."""
    total = memory.total.value
    if not gpu.integrated.value or not total:
        return gpu
    share = metal_share(total) if system == "macos" else total
    note = "Metal's default: 2/3 of memory, 3/4 above 36 GiB" if system == "macos" else "shares system memory"
    free = min(share, memory.available.value or share)
    return msgspec.structs.replace(
        gpu,
        memory_total=derived(share, _SOURCE, unit="B", note=note),
        memory_free=derived(free, _SOURCE, unit="B", note="of system memory"),
    )


def _npus(told: MachineDescription) -> list[Npu]:
    if not told.npu:
        return []
    name = told.npu if isinstance(told.npu, str) else "NPU"
    return [
        Npu(id="npu0", vendor=_vendor(f"{name} {_cpu_name(told)}") or "unknown", name=_told(name), driver=_untold())
    ]


def _vendor(name: str) -> str:
    lowered = name.lower()
    return next((vendor for pattern, vendor in _VENDORS if re.search(pattern, lowered)), "")


def _bytes(gib: float | None, *, table: bool) -> Fact[int]:
    if gib is None:
        return unknown(_SOURCE, "It was not told.", unit="B")
    confidence = Confidence.TABLE if table else Confidence.MEASURED
    return Fact(value=int(gib * GIB), unit="B", source="device table" if table else _SOURCE, confidence=confidence)


def _rate(value: float | None, unit: str) -> Fact[float]:
    if value is None:
        return unknown(_SOURCE, "It was not told.", unit=unit)
    return Fact(value=value, unit=unit, source=_SOURCE, confidence=Confidence.MEASURED)


def _told(value: Any) -> Fact[Any]:  # noqa: ANN401 -- a fact of any type
    return Fact(value=value, source=_SOURCE, confidence=Confidence.MEASURED)


def _untold() -> Fact[Any]:
    return unknown(_SOURCE, "It was not told.")
