"""What computes: the figures of the GPUs or the processor that a setting uses, as far as they are known."""

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.families import device_class
from app.core.machine import Confidence, Gpu, Machine

VENDORS = {"cuda": "nvidia", "metal": "apple", "rocm": "amd", "sycl": "intel"}
"""Whose GPUs a backend runs on; Vulkan and the others run on any."""
ASSUMED_RAM_GB_S = 51.2
"""Two channels of DDR4-3200, where nothing is known: what most desktops of the last years have at least."""

CORE_GB_S = 11.0
"""What one core reads at most of a data sheet's bandwidth: an 8-core Ryzen 5700G needs six to reach 7 GB/s each of
weights, at the share of `DEVICES["cpu"]`. Chips with many channels and few cores are bound by this."""
NARROW_FLOPS = 1.6e9
"""A core with 128-bit vectors and no dot product, on quantised weights: a Raspberry Pi 4. Without vectors, a fourth."""
_WIDE = ("avx", "avx2", "avx512f", "asimddp", "i8mm", "sve")
_NARROW = ("asimd", "neon", "sse2", "ssse3", "sse3")


class SpeedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device. Bandwidth in bytes per second, rate in floating-point operations per second, zero where unknown."""

    name: str
    vendor: str
    kind: str
    """A name in `families.DEVICES`."""
    bandwidth: float
    flops: float = 0.0
    is_assumed: bool = False
    has_nvlink: bool = False
    id: str = ""


def devices_in_use(machine: Machine, setting: RunSetting) -> list[SpeedDevice]:
    """Return the devices that decode, fastest memory first; empty when nothing is known of them."""
    if not setting.uses_gpu:
        return [processor_device(machine)]
    vendor = VENDORS.get(setting.backend)
    gpus = [gpu for gpu in machine.gpus if vendor in (None, gpu.vendor) and gpu.bandwidth_gb_s.value]
    gpus.sort(key=lambda gpu: (gpu.memory_total.value or 0, gpu.bandwidth_gb_s.value or 0.0), reverse=True)
    return [_gpu_device(gpu) for gpu in gpus[: setting.gpus]]


def processor_device(machine: Machine) -> SpeedDevice:
    """Return the processor with the bandwidth of its memory: measured, by its parts, or assumed."""
    name = machine.cpu.model.value or "processor"
    cores = machine.cpu.usable_cores.value or machine.cpu.physical_cores.value or 0.0
    probed, theoretical = machine.memory.bandwidth_gb_s, machine.memory.theoretical_gb_s.value
    shared = max((gpu.bandwidth_gb_s.value or 0.0 for gpu in machine.gpus if gpu.integrated.value), default=0.0)
    is_measured = probed.value is not None and probed.confidence is Confidence.MEASURED
    known = probed.value or theoretical or shared
    most = cores * CORE_GB_S if cores and not is_measured else float("inf")
    return SpeedDevice(
        id="cpu",
        name=name,
        vendor="cpu",
        kind="cpu measured" if is_measured else "cpu",
        bandwidth=min(known or ASSUMED_RAM_GB_S, most) * 1e9,
        flops=cores * _core_flops(machine.cpu.isa.value),
        is_assumed=not known,
    )


def _core_flops(flags: list[str] | None) -> float:
    """Return what unpacking and multiplying may cost so much of that it sets the pace; zero where it does not."""
    if flags is None or any(flag in flags for flag in _WIDE):
        return 0.0
    return NARROW_FLOPS if any(flag in flags for flag in _NARROW) else NARROW_FLOPS / 4


def _is_linked(gpu: Gpu) -> bool:
    """Whether NVLink joins the cards: the table knows only that there is a connector; modules are always joined."""
    return gpu.nvlink.confidence is not Confidence.TABLE or device_class(gpu) == "hbm"


def _gpu_device(gpu: Gpu) -> SpeedDevice:
    return SpeedDevice(
        id=gpu.id,
        name=gpu.name.value or gpu.id,
        vendor=gpu.vendor,
        kind=device_class(gpu),
        bandwidth=(gpu.bandwidth_gb_s.value or 0.0) * 1e9,
        flops=(gpu.fp16_tflops.value or 0.0) * 1e12,
        has_nvlink=bool(gpu.nvlink.value) and _is_linked(gpu),
    )
