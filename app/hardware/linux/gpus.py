"""The GPUs that Linux drives, from /sys: no vendor library, no root. And those it has but that no engine can use.

NVIDIA's own are left to NVML; here it is only noticed when their driver is missing.

Whether programs here can reach the GPUs: containers are often not given them, accounts not let in.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.core.machine import Fact, Gpu
from app.hardware.cards import amd, intel
from app.hardware.cards.pci import pci_address
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import ProbePart, derived_fact, is_there, measured_fact, read_int, read_pairs, unknown_fact
from app.hardware.limits import read_variables, with_hidden
from app.hardware.linux.cpu import read_board
from app.hardware.linux.system import is_container
from app.hardware.memory import graphics_share, pool_free

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


_RENDER, _KFD = "dev/dri", "dev/kfd"
_NVIDIA_NODES = ("dev/nvidiactl", "dev/nvidia0", "dev/dxg")


def split_reachable(
    evidence: Evidence, gpus: Sequence[Gpu], *, is_container: bool
) -> tuple[list[Gpu], list[Fact[str]]]:
    """Return the GPUs programs can reach, and a sentence for whatever keeps them from others."""
    root = evidence.root
    if is_container and not is_there(root / _RENDER):
        return [], [_not_given(gpu.name.value or gpu.id) for gpu in gpus] + list(_nvidia_not_given(root))
    limits = list(_nvidia_not_given(root)) if is_container else []
    if any(gpu.vendor == "amd" for gpu in gpus):
        limits += _no_rocm(evidence, is_container=is_container)
    return list(gpus), limits


def _nvidia_not_given(root: Path) -> Iterator[Fact[str]]:
    """/sys shows a container every card of the computer; /dev only what it was given."""
    if any(is_there(root / node) for node in _NVIDIA_NODES):
        return
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        is_display = (read_int(folder / "class") or 0) >> 16 == _DISPLAY_CLASS
        has_driver = read_pairs(folder / "uevent", "=").get("DRIVER") == "nvidia"
        if read_int(folder / "vendor") == _NVIDIA and is_display and has_driver:
            yield _not_given(f"The NVIDIA GPU at {folder.name}")


def _not_given(what: str) -> Fact[str]:
    return measured_fact(f"{what} was not given to this container; start it with --gpus all, or with --device.", "/dev")


def _no_rocm(evidence: Evidence, *, is_container: bool) -> list[Fact[str]]:
    if not is_there(evidence.root / _KFD):
        missing_device = "ROCm cannot be used: there is no /dev/kfd."
        return [measured_fact(missing_device, "/dev/kfd")] if is_container else []
    try:
        may_open = evidence.read_table("may_open_kfd", bool, lambda: os.access("/dev/kfd", os.R_OK | os.W_OK))
    except NoAnswer:
        return []
    sentence = "This account may not use ROCm: it has no access to /dev/kfd. Add it to the groups render and video."
    return [] if may_open else [measured_fact(sentence, "/dev/kfd")]
