"""The GPUs that Linux drives, from /sys: no vendor library, no root. And those it has but that no engine can use.

NVIDIA's own are left to NVML; here it is only noticed when their driver is missing.
"""

from collections.abc import Iterator
from pathlib import Path

from app.core.machine import Fact, Gpu
from app.hardware.cards import amd, intel
from app.hardware.cards.pci import pci_address
from app.hardware.cards.unified import graphics_share, pool_free
from app.hardware.cards.visible import with_hidden
from app.hardware.evidence import Evidence
from app.hardware.facts import derived_fact, measured_fact, read_int, read_pairs, unknown_fact
from app.hardware.limits import read_variables
from app.hardware.linux.cpu import read_board
from app.hardware.linux.reachable import split_reachable
from app.hardware.linux.system import is_container
from app.hardware.part import ProbePart

_NVIDIA = 0x10DE
_DISPLAY_CLASS = 0x03
_ASAHI = "asahi"


def sysfs_family(evidence: Evidence) -> ProbePart:
    """Return AMD, Intel and Apple GPUs, once each, and a sentence for each that cannot be used."""
    devices = {_device_address(device): device for device in _device_folders(evidence.root)}
    usable = [gpu for address, device in devices.items() if (gpu := _read_gpu(evidence, device, address))]
    unusable = [sentence for address, device in devices.items() for sentence in _old_graphics(device, address)]
    reachable, unreachable = split_reachable(evidence, usable, is_container=is_container(evidence.root))
    others = [gpu for gpu in reachable if gpu.vendor != "amd"]
    amds = with_hidden([gpu for gpu in reachable if gpu.vendor == "amd"], "rocm", read_variables(evidence))
    return ProbePart(gpus=[*amds, *others], limits=[*unusable, *_without_driver(evidence.root), *unreachable])


def _device_folders(root: Path) -> Iterator[Path]:
    """Yield the device folder of each card; connectors (card0-HDMI-A-1) are no cards."""
    for card in sorted((root / "sys/class/drm").glob("card[0-9]*")):
        if "-" not in card.name:
            yield card / "device"


def _device_address(device: Path) -> str:
    slot = read_pairs(device / "uevent", "=").get("PCI_SLOT_NAME") or device.resolve().name
    return pci_address(slot) or slot.lower()


def _read_gpu(evidence: Evidence, device: Path, address: str) -> Gpu | None:
    vendor = read_int(device / "vendor")
    if vendor == amd.VENDOR:
        return amd.read_amd(evidence, device, address)
    if vendor == intel.VENDOR and not intel.is_before_xe(read_int(device / "device") or 0):
        return intel.read_intel(evidence, device, address)
    if read_pairs(device / "uevent", "=").get("DRIVER") == _ASAHI:
        return _asahi_gpu(evidence.root, address)
    return None


def _asahi_gpu(root: Path, address: str) -> Gpu:
    """Return the GPU of a Mac that runs Linux; Vulkan is its only way in."""
    total = graphics_share(root)
    return Gpu(
        id=address,
        vendor="apple",
        name=derived_fact(
            read_board(root) or "Apple GPU", "/proc/device-tree/model", note="the computer it is part of"
        ),
        memory_total=total,
        memory_free=pool_free(root),
        driver=measured_fact(_ASAHI, "uevent DRIVER"),
        compute=unknown_fact("", "There is no Metal on Linux."),
        integrated=derived_fact(value=True, source="uevent DRIVER", note="Apple silicon shares one pool of memory."),
        addressable={"vulkan": total},
        nvlink=derived_fact(value=False, source="uevent DRIVER", note="NVLink is NVIDIA's."),
    )


def _old_graphics(device: Path, address: str) -> Iterator[Fact[str]]:
    number = read_int(device / "device") or 0
    if read_int(device / "vendor") == intel.VENDOR and intel.is_before_xe(number):
        sentence = f"The Intel graphics at {address} (0x{number:04x}) are older than Xe and not used for models."
        yield measured_fact(sentence, "/sys/class/drm")


def _without_driver(root: Path) -> Iterator[Fact[str]]:
    """Yield a sentence for each NVIDIA GPU that NVIDIA's driver does not drive: engines see none then."""
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        if read_int(folder / "vendor") != _NVIDIA or (read_int(folder / "class") or 0) >> 16 != _DISPLAY_CLASS:
            continue
        driver = read_pairs(folder / "uevent", "=").get("DRIVER", "")
        if driver != "nvidia":
            yield measured_fact(_driver_problem(folder.name, driver), "/sys/bus/pci/devices")


def _driver_problem(address: str, driver: str) -> str:
    if driver.startswith("vfio"):
        return f"The NVIDIA GPU at {address} is assigned to a virtual machine and cannot be used here."
    holder = f"it is bound to {driver} instead" if driver else "no driver is bound to it"
    return f"The NVIDIA GPU at {address} cannot be used with CUDA: NVIDIA's driver is not loaded, {holder}."
