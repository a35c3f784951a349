"""What an engine says it can use, matched with what the probes found. The engine has the last word.

Its lines look like llama.cpp's: "CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23894 MiB free) [0000:01:00.0]". A card is
known by its address, else by a name only one card has. Of several equal cards the n-th is the n-th, unless a variable
hides some of them or changes their order: then none is.
"""

import re
from collections.abc import Sequence

import msgspec

from app.core.machine import EngineDevice, Fact, Gpu, Machine
from app.hardware.cards.pci import pci_address
from app.hardware.facts import measured_fact
from app.hardware.pools import with_pools

_MIB = 1 << 20
_LINE = re.compile(
    r"(?P<name>[^:()\[]++)(?::(?P<what>.*?))?"
    r"(?:\((?P<total>\d+) MiB(?:, (?P<free>\d+) MiB free)?\)\s*+)?(?:\[(?P<pci>[^\[\]]*+)\]\s*+)?"
)
_BACKENDS = {
    "cuda": ("cuda", "nvidia"),
    "rocm": ("rocm", "amd"),
    "hip": ("rocm", "amd"),
    "vulkan": ("vulkan", ""),
    "sycl": ("sycl", "intel"),
    "metal": ("metal", "apple"),
    "mtl": ("metal", "apple"),
    "gpuopencl": ("opencl", ""),
}
"""What a device's name begins with -> backend, and the only vendor it is for."""
_SLACK = 0.1
"""Drivers and contexts keep some memory back; what differs by more than a tenth is worth saying."""
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_ALSO_HIDING = ("ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "GGML_VK_VISIBLE_DEVICES")


class _DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line, taken apart. `backend` is "" for the processor and whatever else is no GPU."""

    name: str
    what: str
    total: int | None
    free: int | None
    pci: str
    backend: str
    vendor: str


def with_engine_devices(machine: Machine, engine: str, lines: Sequence[str]) -> Machine:
    """Return the machine with the engine's devices, and each GPU's addressable memory as the engine sees it."""
    is_narrowed = any(limit.source in {*_HIDING, *_ALSO_HIDING} for limit in machine.limits)
    engine_devices = match_devices(engine, lines, machine.gpus, is_narrowed=is_narrowed)
    gpus = [_with_engine_figures(gpu, engine, engine_devices) for gpu in machine.gpus]
    others = [device for device in machine.engine_devices if device.engine != engine]
    return with_pools(msgspec.structs.replace(machine, gpus=gpus, engine_devices=[*others, *engine_devices]))


def match_devices(
    engine: str, lines: Sequence[str], gpus: Sequence[Gpu], *, is_narrowed: bool = False
) -> list[EngineDevice]:
    """Return the engine's devices with the GPUs they are, and in words where the two disagree.

    `is_narrowed`: a variable such as CUDA_VISIBLE_DEVICES is set, so numbers mean nothing.
    """
    device_lines = [_parse_line(line) for line in lines if line.strip()]
    homes = {
        number: _find_gpu(device, device_lines[:number], gpus, is_narrowed=is_narrowed)
        for number, device in enumerate(device_lines)
    }
    has_gpu = any(device.backend for device in device_lines)
    return [
        EngineDevice(
            engine=engine,
            name=f"{device.name}: {device.what}" if device.what else device.name,
            memory_total=device.total,
            memory_free=_free_bytes(device),
            gpu=gpu.id if (gpu := homes[number]) else "",
            difference=_describe_difference(device, gpu, gpus, has_gpu=has_gpu),
        )
        for number, device in enumerate(device_lines)
    ]


def _parse_line(line: str) -> _DeviceLine:
    match = _LINE.fullmatch(line)
    parts: dict[str, str | None] = match.groupdict() if match else {}
    name = (parts.get("name") or line).strip()
    backend, vendor = _BACKENDS.get(re.sub(r"\d+$", "", name).lower(), ("", ""))
    return _DeviceLine(
        name=name,
        what=(parts.get("what") or "").strip(),
        total=_parse_mib(parts.get("total")),
        free=_parse_mib(parts.get("free")),
        pci=pci_address(parts.get("pci") or ""),
        backend=backend,
        vendor=vendor,
    )


def _parse_mib(mib: str | None) -> int | None:
    """Return bytes. Zero is what engines print when they were not told; above an exabyte a subtraction wrapped."""
    amount = int(mib) * _MIB if mib and len(mib) <= len(str(1 << 40)) else 0
    return amount if 0 < amount < 1 << 60 else None


def _free_bytes(device: _DeviceLine) -> int | None:
    if device.free is None or device.total is None:
        return device.free
    return min(device.free, device.total)


def _find_gpu(
    device: _DeviceLine, before: Sequence[_DeviceLine], gpus: Sequence[Gpu], *, is_narrowed: bool
) -> Gpu | None:
    if not device.backend:
        return None
    if device.pci:
        by_address = [gpu for gpu in gpus if device.pci in {gpu.id, gpu.partition_of}]
        return by_address[0] if len(by_address) == 1 else None
    named_gpus = [gpu for gpu in gpus if gpu.vendor == (device.vendor or gpu.vendor) and _is_named(gpu, device.what)]
    if len(named_gpus) == 1:
        return named_gpus[0]
    number = sum(other.backend == device.backend and other.what == device.what for other in before)
    return named_gpus[number] if number < len(named_gpus) and not is_narrowed else None


def _is_named(gpu: Gpu, what: str) -> bool:
    name = _plain_name(gpu.name.value or "")
    return bool(name) and name == _plain_name(what)


def _plain_name(name: str) -> str:
    """Return the name without brackets and marks: "AMD Radeon RX 7900 XTX (RADV NAVI31)" is one with or without."""
    return " ".join(re.sub(r"\([^)]*\)", " ", name).lower().split())


def _describe_difference(device: _DeviceLine, gpu: Gpu | None, gpus: Sequence[Gpu], *, has_gpu: bool) -> str:
    if not device.backend:
        missed_names = ", ".join(card.name.value or card.id for card in gpus)
        return (
            f"It lists no GPU and would compute on the processor; the probes found {missed_names}."
            if gpus and not has_gpu
            else ""
        )
    if gpu is None:
        equal = any(_is_named(card, device.what) for card in gpus)
        return _AMBIGUOUS if equal else "The probes did not find this device."
    return _memory_difference(device, gpu)


_AMBIGUOUS = "Several cards have this name, and a variable decides which are seen: it is unclear which one this is."


def _memory_difference(device: _DeviceLine, gpu: Gpu) -> str:
    if device.total is not None and device.free is not None and device.free > device.total:
        return f"It says {_format_gib(device.free)} are free of {_format_gib(device.total)}."
    expected_memory = gpu.addressable.get(device.backend, gpu.memory_total)
    if (
        device.total is None
        or not expected_memory.value
        or abs(device.total - expected_memory.value) <= _SLACK * expected_memory.value
    ):
        return ""
    source = expected_memory.source or "the probes"
    return f"It sees {_format_gib(device.total)}; {source}: {_format_gib(expected_memory.value)}."


def _format_gib(amount: int) -> str:
    return f"{amount / (1 << 30):.1f} GiB"


def _with_engine_figures(gpu: Gpu, engine: str, engine_devices: Sequence[EngineDevice]) -> Gpu:
    """Return the GPU with the engine's figures, within what there is."""
    by_backend = {_parse_line(device.name).backend: device for device in engine_devices if device.gpu == gpu.id}
    facts = {
        backend: _engine_fact(device, gpu, engine) for backend, device in by_backend.items() if device.memory_total
    }
    return msgspec.structs.replace(gpu, addressable={**gpu.addressable, **facts})


def _engine_fact(device: EngineDevice, gpu: Gpu, engine: str) -> Fact[int]:
    reported_bytes = device.memory_total or 0
    physical = gpu.memory_total.value
    return measured_fact(
        reported_bytes if physical is None or gpu.integrated.value else min(reported_bytes, physical),
        f"{engine} device list",
        unit="B",
    )
