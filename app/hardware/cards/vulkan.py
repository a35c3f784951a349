"""GPUs as Vulkan sees them: the way in where there is no other library, and a second opinion on the rest.

The largest device-local heap counts, never their sum: with a resizable BAR drivers list the same memory twice.
Software renderers and layers that translate to another API are no devices.
"""

import re

from app.core.machine import Fact, Gpu
from app.hardware.cards import intel
from app.hardware.cards.pci import pci_address
from app.hardware.cards.vulkan_api import VulkanDevice, VulkanHeap, read_vulkan
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import derived_fact, measured_fact, unknown_fact
from app.hardware.part import ProbePart

SOURCE = "Vulkan"
_VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x106B: "apple",
    0x5143: "qualcomm",
    0x13B5: "arm",
    0x1010: "imagination",
    0x14E4: "broadcom",
}
_TOO_SMALL = {"broadcom"}
"""Raspberry Pi's graphics are slower at models than its processor."""
_NOT_REAL = re.compile(r"llvmpipe|lavapipe|swiftshader|direct3d ?12|dzn|dozen", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\s*\((?:RADV|NVK|ANV|DG\d|G\d\d|[A-Z]{3}\b)[^)]*\)")
"""Mesa adds its own name and the chip's: "AMD Radeon RX 7900 XTX (RADV NAVI31)", "Intel(R) Arc(tm) B580 (BMG G21)"."""


def vulkan_family(evidence: Evidence) -> ProbePart:
    """Return the real devices Vulkan lists."""
    try:
        devices = evidence.read_table("vulkan", list[VulkanDevice], read_vulkan)
    except NoAnswer as error:
        return ProbePart(absent=str(error).removeprefix("Unanswered: "))
    real = [device for device in devices if not _is_software(device) and not _is_old_intel(device)]
    gpus = [_build_gpu(device) for device in real if _VENDORS.get(device.vendor_id) not in _TOO_SMALL]
    small = [device for device in real if _VENDORS.get(device.vendor_id) in _TOO_SMALL]
    return ProbePart(
        gpus=gpus,
        limits=[
            measured_fact(f"{device.name} runs models more slowly than the processor and is not used.", SOURCE)
            for device in small
        ],
        absent="" if real else "Vulkan lists no GPU.",
    )


def _is_software(device: VulkanDevice) -> bool:
    return device.kind == "cpu" or any(_NOT_REAL.search(text) for text in (device.name, device.driver))


def _is_old_intel(device: VulkanDevice) -> bool:
    return device.vendor_id == intel.VENDOR and intel.is_before_xe(device.device_id)


def _build_gpu(device: VulkanDevice) -> Gpu:
    heap = _largest_heap(device)
    total = _bytes_fact(heap.size if heap else None)
    return Gpu(
        id=pci_address(device.pci) or f"vulkan-{device.uuid or device.name}",
        vendor=_VENDORS.get(device.vendor_id, "unknown"),
        name=measured_fact(_IN_BRACKETS.sub("", device.name).strip() or device.name, SOURCE),
        memory_total=total,
        memory_free=_free_memory(heap),
        driver=measured_fact(f"{device.driver} {device.driver_info}".strip(), SOURCE),
        compute=unknown_fact(SOURCE, "Vulkan does not say."),
        integrated=_integrated_fact(device),
        uuid=device.uuid,
        addressable={"vulkan": total},
    )


def _largest_heap(device: VulkanDevice) -> VulkanHeap | None:
    local = [heap for heap in device.heaps if heap.is_device_local]
    return max(local, key=lambda heap: heap.size, default=None)


def _free_memory(heap: VulkanHeap | None) -> Fact[int]:
    if heap is None or heap.budget is None:
        return unknown_fact(SOURCE, "The driver does not say how much is free.", unit="B")
    free = max(0, min(heap.budget, heap.size) - (heap.usage or 0))
    return derived_fact(free, "VK_EXT_memory_budget", unit="B", note="budget - use, of the largest device-local heap")


def _integrated_fact(device: VulkanDevice) -> Fact[bool]:
    if device.kind in {"integrated", "discrete"}:
        return measured_fact(device.kind == "integrated", SOURCE)
    return unknown_fact(SOURCE, f"The driver calls it {device.kind}.")


def _bytes_fact(amount: int | None) -> Fact[int]:
    return (
        unknown_fact(SOURCE, "No heap is device-local.", unit="B")
        if not amount
        else measured_fact(amount, SOURCE, unit="B")
    )
