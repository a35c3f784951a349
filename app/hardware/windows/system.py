"""Which Windows this is, whether a virtual machine, and what narrows what can be used on it."""

import re
from collections.abc import Iterator, Sequence

from app.core.machine import Cpu, Fact, Gpu, Memory, Npu, OperatingSystem
from app.hardware.facts import derived, measured, unknown
from app.hardware.windows.values import DeviceClass, WindowsSystem

_FIRST_BUILD_OF_11 = 22000
_ARM64 = 0xAA64
_MACHINES = {0x8664: "x86_64", _ARM64: "arm64", 0x14C: "x86"}
"""IMAGE_FILE_MACHINE_*."""
_VIRTUAL = (
    *("virtual machine", "vmware", "virtualbox", "kvm", "qemu", "hvm domu", "parallels", "google compute engine"),
    *("amazon ec2", "bochs", "bhyve", "openstack"),
)
"""How virtual machines call themselves in their firmware. The processor's hypervisor flag does not tell: with core
isolation or WSL 2 on, Windows on the bare machine runs above Hyper-V too."""
_NPU_VENDORS = {"8086": "intel", "1022": "amd", "1002": "amd", "QCOM": "qualcomm"}
_HARDWARE_ID = re.compile(r"VEN_([0-9A-Z]{4})&DEV_([0-9A-Z]{4})", re.IGNORECASE)
_GIB = 1 << 30
_MAPPED_LIMIT_CARVE_OUT = 8 * _GIB
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])B?", re.IGNORECASE)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def windows_system(found: WindowsSystem) -> OperatingSystem:
    """Return the operating system's facts."""
    return OperatingSystem(
        name=measured("Windows", "sys.platform"),
        version=_version(found),
        kernel=measured(f"10.0.{found.build}.{found.revision}", "registry CurrentBuild"),
        architecture=_architecture(found),
        environment=_environment(found),
    )


def windows_npus(accelerators: DeviceClass) -> list[Npu]:
    """Return the neural processors that are there; drivers of hardware that has gone are still registered."""
    return [npu for number, device in enumerate(accelerators.present) if (npu := _npu(device, number, accelerators))]


def windows_limits(found: WindowsSystem, cpu: Cpu, memory: Memory) -> list[Fact[str]]:
    """Return what narrows the system, the processor and the memory."""
    return [*_emulation(found), *_job(memory), *_affinity(cpu), *_commit(memory), *_wsl(found, memory)]


def windows_gpu_limits(gpus: Sequence[Gpu], memory_total: int) -> list[Fact[str]]:
    """Return what is known to go wrong with a large part of memory set aside for graphics."""
    return [limit for gpu in gpus for limit in _mapping(gpu, memory_total)]


def _version(found: WindowsSystem) -> Fact[str]:
    """Return e.g. "Windows 11 Pro 24H2 (26100.2314)". The registry's product name stayed at 10 for Windows 11."""
    if not found.product:
        return unknown("registry ProductName", "Nothing is said there.")
    product = found.product
    if found.build >= _FIRST_BUILD_OF_11:
        product = product.replace("Windows 10", "Windows 11")
    release = f" {found.display_version}" if found.display_version else ""
    return measured(f"{product}{release} ({found.build}.{found.revision})", "registry ProductName, CurrentBuild")


def _architecture(found: WindowsSystem) -> Fact[str]:
    name = _MACHINES.get(found.native_machine)
    if name is None:
        return unknown("IsWow64Process2", f"The machine type {found.native_machine:#x} is not known.")
    return measured(name, "IsWow64Process2")


def _environment(found: WindowsSystem) -> Fact[str]:
    called = f"{found.maker} {found.model}".lower()
    if any(name in called for name in _VIRTUAL):
        return measured("vm", "registry SystemManufacturer, SystemProductName", note=called)
    return derived("bare", "registry SystemProductName", note="The firmware is not that of a virtual machine.")


def _is_emulated(found: WindowsSystem) -> bool:
    """Tell an x64 program on Arm. IsWow64Process2 calls those native: only what we were built for tells."""
    return found.native_machine == _ARM64 and found.built_for != "win-arm64"


def _emulation(found: WindowsSystem) -> Iterator[Fact[str]]:
    if _is_emulated(found):
        yield measured(
            "Roundhouse runs as an x64 program on an Arm processor: install the Arm64 build, or engines are emulated "
            "and several times slower.",
            "IsWow64Process2",
        )


def _job(memory: Memory) -> Iterator[Fact[str]]:
    if memory.limit.value is not None:
        allowed = memory.limit.value / _GIB
        yield measured(f"A job object allows this process {allowed:.1f} GiB of memory.", memory.limit.source)


def _affinity(cpu: Cpu) -> Iterator[Fact[str]]:
    if cpu.usable_cores.note:
        yield measured(cpu.usable_cores.note, cpu.usable_cores.source)


def _commit(memory: Memory) -> Iterator[Fact[str]]:
    if memory.available.note:
        yield measured(memory.available.note, memory.available.source)


def _wsl(found: WindowsSystem, memory: Memory) -> Iterator[Fact[str]]:
    """Engines that need Linux run in WSL 2, which has half of memory unless .wslconfig says otherwise."""
    if not found.wsl_distributions or memory.total.value is None:
        return
    set_by_hand = _SIZE.fullmatch(found.wsl_memory)
    share = memory.total.value // 2
    if set_by_hand:
        share = min(int(float(set_by_hand[1]) * _UNITS[set_by_hand[2].upper()]), memory.total.value)
    reason = ".wslconfig says so" if set_by_hand else "half of memory, unless .wslconfig says otherwise"
    yield derived(
        f"Engines in WSL get {share / _GIB:.1f} GiB: {reason}.", ".wslconfig", note="WSL 2's default is half."
    )


def _mapping(gpu: Gpu, memory_total: int) -> Iterator[Fact[str]]:
    carved = gpu.carve_out.value or 0
    if carved < _MAPPED_LIMIT_CARVE_OUT or carved <= memory_total // 2:
        return
    text = (
        f"{carved / _GIB:.0f} GiB are set aside for graphics and {memory_total / _GIB:.0f} GiB are left to Windows: "
        "turn memory mapping off for models, or large ones fail to load while graphics memory is free."
    )
    yield derived(text, "DXGI DedicatedVideoMemory", note="Mapped files take system memory as well.")


def _npu(device: str, number: int, accelerators: DeviceClass) -> Npu | None:
    found = _HARDWARE_ID.search(device)
    vendor = _NPU_VENDORS.get(found[1].upper()) if found else None
    if found is None or vendor is None:
        return None
    drivers = [driver for driver in accelerators.drivers if found[0].lower() in driver.matching_device_id.lower()]
    source = "device class ComputeAccelerator"
    return Npu(
        id=f"{found[1]}:{found[2]}-{number}".lower(),
        vendor=vendor,
        name=measured(drivers[-1].description, source) if drivers else unknown(source, "No driver is registered."),
        driver=measured(drivers[-1].version, source) if drivers else unknown(source, "No driver is registered."),
    )
