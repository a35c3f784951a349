"""What computes: the figures of the GPUs or the processor that a setting uses, as far as they are known."""

import msgspec

from app.advisor.memory_setting import Setting
from app.advisor.speed_families import device_class
from app.core.machine import Confidence, Gpu, Machine

VENDORS = {"cuda": "nvidia", "metal": "apple", "rocm": "amd", "sycl": "intel"}
"""Whose GPUs a backend runs on; Vulkan and the others run on any."""
ASSUMED_RAM_GB_S = 51.2
"""Two channels of DDR4-3200, where nothing is known: what most desktops of the last years have at least."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device. Bandwidth in bytes per second, rate in floating-point operations per second, zero where unknown."""

    name: str
    vendor: str
    kind: str
    """A name in `speed_families.DEVICES`."""
    bandwidth: float
    flops: float = 0.0
    is_assumed: bool = False
    has_nvlink: bool = False
    is_integrated: bool = False
    id: str = ""


def used_devices(machine: Machine, setting: Setting) -> list[Device]:
    """Return the devices that decode, fastest memory first; empty when nothing is known of them."""
    if not setting.uses_gpu:
        return [processor(machine)]
    vendor = VENDORS.get(setting.backend)
    gpus = [gpu for gpu in machine.gpus if vendor in (None, gpu.vendor) and gpu.bandwidth_gb_s.value]
    gpus.sort(key=lambda gpu: (gpu.memory_total.value or 0, gpu.bandwidth_gb_s.value or 0.0), reverse=True)
    return [_device(gpu) for gpu in gpus[: setting.gpus]]


def processor(machine: Machine) -> Device:
    """Return the processor with the bandwidth of its memory: measured, by its parts, or assumed."""
    name = machine.cpu.model.value or "processor"
    probed, theoretical = machine.memory.bandwidth_gb_s, machine.memory.theoretical_gb_s.value
    if probed.value and probed.confidence is Confidence.MEASURED:
        return Device(id="cpu", name=name, vendor="cpu", kind="cpu measured", bandwidth=probed.value * 1e9)
    shared = max((gpu.bandwidth_gb_s.value or 0.0 for gpu in machine.gpus if gpu.integrated.value), default=0.0)
    known = probed.value or theoretical or shared
    return Device(
        id="cpu",
        name=name,
        vendor="cpu",
        kind="cpu",
        bandwidth=(known or ASSUMED_RAM_GB_S) * 1e9,
        is_assumed=not known,
    )


def _device(gpu: Gpu) -> Device:
    return Device(
        id=gpu.id,
        name=gpu.name.value or gpu.id,
        vendor=gpu.vendor,
        kind=device_class(gpu),
        bandwidth=(gpu.bandwidth_gb_s.value or 0.0) * 1e9,
        flops=(gpu.fp16_tflops.value or 0.0) * 1e12,
        has_nvlink=bool(gpu.nvlink.value),
        is_integrated=bool(gpu.integrated.value),
    )
