"""The probe families of Linux.

Neural processors that engines can be pointed at, from /sys/class/accel.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from app.core.machine import Confidence, Fact, Npu
from app.hardware.cards.nvidia import nvidia_family
from app.hardware.cards.pci import pci_address
from app.hardware.cards.vulkan import vulkan_family
from app.hardware.evidence import Evidence
from app.hardware.facts import ProbePart, measured_fact, read_int, read_pairs
from app.hardware.limits import read_limits
from app.hardware.linux.cpu import read_linux_cpu
from app.hardware.linux.gpus import sysfs_family
from app.hardware.linux.system import read_system
from app.hardware.memory import read_linux_memory

_DRIVERS = {"intel_vpu": ("intel", "Intel NPU"), "amdxdna": ("amd", "AMD XDNA NPU"), "qaic": ("qualcomm", "Cloud AI")}
"""Kernel driver -> vendor and name. Others in that class (Habana, Rockchip) have no engine here."""
_CHIPS = {
    0x7D1D: "Intel NPU (Meteor Lake)",
    0xAD1D: "Intel NPU (Arrow Lake)",
    0x643E: "Intel NPU (Lunar Lake)",
    0xB03E: "Intel NPU (Panther Lake)",
    0x1502: "AMD XDNA NPU (Phoenix, Hawk Point)",
    0x17F0: "AMD XDNA 2 NPU (Strix, Krackan)",
}
"""PCI device ids from the kernel's drivers/accel (ivpu, amdxdna)."""


def read_npus(evidence: Evidence) -> list[Npu]:
    """Return the neural processors whose driver is loaded."""
    folders = sorted((evidence.root / "sys/class/accel").glob("accel[0-9]*"))
    return [npu for folder in folders if (npu := _read_npu(folder))]


def _read_npu(folder: Path) -> Npu | None:
    uevent = read_pairs(folder / "device/uevent", "=")
    driver = uevent.get("DRIVER") or (folder / "device/driver").resolve().name
    if driver not in _DRIVERS:
        return None
    vendor, name = _DRIVERS[driver]
    return Npu(
        id=pci_address(uevent.get("PCI_SLOT_NAME", "")) or folder.name,
        vendor=vendor,
        name=_name_fact(read_int(folder / "device/device"), name),
        driver=measured_fact(driver, "/sys/class/accel/*/device/uevent"),
    )


def _name_fact(number: int | None, family: str) -> Fact[str]:
    if number in _CHIPS:
        return Fact(value=_CHIPS[number], source="PCI device id", confidence=Confidence.TABLE)
    return Fact(value=family, source="driver", confidence=Confidence.TABLE, note="The chip is not known by its id.")


def _base_family(evidence: Evidence) -> ProbePart:
    system, cpu, memory = read_system(evidence), read_linux_cpu(evidence), read_linux_memory(evidence)
    return ProbePart(
        os=system,
        cpu=cpu,
        memory=memory,
        npus=read_npus(evidence),
        limits=read_limits(evidence, system, cpu, memory),
    )


FAMILIES: Mapping[str, Callable[[Evidence], ProbePart]] = {
    "base": _base_family,
    "nvidia": nvidia_family,
    "sysfs": sysfs_family,
    "vulkan": vulkan_family,
}
