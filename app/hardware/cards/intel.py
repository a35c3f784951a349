"""Intel GPUs from the `xe` and `i915` drivers' sysfs files.

Cards (Arc, Data Center GPU) tell their memory: `xe` per tile, `i915` in one file. Graphics inside a processor share its
memory. Those older than Xe are too slow to help and no engine's kernels are made for them: they are not counted.
"""

from pathlib import Path

from app.core.machine import Confidence, Fact, Gpu
from app.hardware.cards.pci import product_name
from app.hardware.evidence import Evidence
from app.hardware.facts import derived_fact, measured_fact, read_bytes, read_int, read_pairs, unknown_fact
from app.hardware.memory import graphics_share, pool_free

VENDOR = 0x8086
_ARCHITECTURES: tuple[tuple[str, frozenset[int]], ...] = (
    ("Xe-HPC", frozenset({0x0B})),
    ("Xe-HPG", frozenset({0x4F, 0x56})),
    ("Xe2", frozenset({0x64, 0xE2})),
    ("Xe3", frozenset({0xB0, 0xFD})),
    ("Xe-LPG", frozenset({0x7D})),
    ("Xe-LP", frozenset({0x46, 0x49, 0x4C, 0x9A, 0xA7})),
)
"""By the high byte of the PCI device id: Ponte Vecchio; DG2 (Arc A); Lunar Lake, Battlemage (Arc B); Panther and
Wildcat Lake; Meteor and Arrow Lake; Alder, Tiger, Rocket and Raptor Lake, DG1 (the kernel's pciids.h for Intel)."""
_BEFORE_XE = frozenset(
    {0x00, 0x01, 0x04, 0x0A, 0x0C, 0x0D, 0x0F, 0x16, 0x19, 0x1A, 0x22, 0x25, 0x27, 0x29, 0x2A, 0x2E, 0x31, 0x3E}
    | {0x45, 0x4E, 0x59, 0x5A, 0x87, 0x8A, 0x9B, 0xA0}
)
"""All up to Ice, Comet, Jasper and Elkhart Lake (the same file). A device id that is in neither list is newer."""


def is_before_xe(device_id: int) -> bool:
    """Tell Intel HD, UHD and Iris graphics of before 2020; 0 is a device whose number is not known."""
    return device_id != 0 and device_id >> 8 in _BEFORE_XE


def read_intel(evidence: Evidence, device: Path, address: str) -> Gpu:
    """Return the GPU whose sysfs folder is `device`."""
    number = read_int(device / "device") or 0
    own = _own_memory(device)
    is_card = own.value is not None
    total = own if is_card else graphics_share(evidence.root)
    return Gpu(
        id=address,
        vendor="intel",
        name=_name_fact(evidence, device, number),
        memory_total=total,
        memory_free=_free_memory(evidence, is_card=is_card),
        driver=_driver_fact(device),
        compute=unknown_fact("", "Intel's backends ask for none."),
        integrated=derived_fact(not is_card, own.source, note="It has no memory of its own." if not is_card else ""),
        architecture=_architecture_fact(number),
        addressable={"sycl": total, "vulkan": total},
        nvlink=derived_fact(value=False, source=_driver_fact(device).value or "", note="NVLink is NVIDIA's."),
        pcie_width=_link_width(device) if is_card else Fact(),
    )


def _own_memory(device: Path) -> Fact[int]:
    tiles = [size for path in sorted(device.glob("tile*/physical_vram_size_bytes")) if (size := read_bytes(path))]
    if tiles:
        return measured_fact(sum(tiles), "xe tile*/physical_vram_size_bytes", unit="B", note=f"{len(tiles)} tiles")
    local = next((size for path in device.glob("drm/card*/lmem_total_bytes") if (size := read_bytes(path))), None)
    if local:
        return measured_fact(local, "i915 lmem_total_bytes", unit="B")
    return unknown_fact("xe physical_vram_size_bytes, i915 lmem_total_bytes", "It has no memory of its own.", unit="B")


def _free_memory(evidence: Evidence, *, is_card: bool) -> Fact[int]:
    if is_card:
        return unknown_fact("sysfs", "The kernel does not say how much is free.", unit="B")
    return pool_free(evidence.root)


def _name_fact(evidence: Evidence, device: Path, number: int) -> Fact[str]:
    product = product_name(evidence, VENDOR, number, read_int(device / "revision") or 0)
    if product:
        brand = product if product.startswith("Intel") else f"Intel {product}"
        return Fact(value=brand, source="pci.ids", confidence=Confidence.TABLE)
    return derived_fact(f"Intel GPU (0x{number:04x})", "PCI device id", note="No list gives a product name.")


def _architecture_fact(number: int) -> Fact[str]:
    name = next((name for name, bytes_ in _ARCHITECTURES if number >> 8 in bytes_), "")
    return derived_fact(name, "PCI device id") if name else unknown_fact("PCI device id", "The device is not known.")


def _driver_fact(device: Path) -> Fact[str]:
    name = read_pairs(device / "uevent", "=").get("DRIVER")
    return measured_fact(name, "uevent DRIVER") if name else unknown_fact("uevent", "No driver is bound.")


def _link_width(device: Path) -> Fact[int]:
    lanes = read_int(device / "max_link_width")
    return (
        measured_fact(lanes, "max_link_width") if lanes else unknown_fact("max_link_width", "The kernel does not say.")
    )
