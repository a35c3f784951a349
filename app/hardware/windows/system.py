"""Which Windows this is, whether a virtual machine, and what narrows what can be used on it."""

import re
from collections.abc import Iterator, Sequence

from app.core.machine import Cpu, Fact, Gpu, Memory, Npu, OperatingSystem
from app.hardware.facts import derived_fact, measured_fact, unknown_fact
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


def windows_system(values: WindowsSystem) -> OperatingSystem:
    """Return the operating system's facts."""
    return OperatingSystem(
        name=measured_fact("Windows", "sys.platform"),
        version=_version_fact(values),
        kernel=measured_fact(f"10.0.{values.build}.{values.revision}", "registry CurrentBuild"),
        architecture=_architecture_fact(values),
        environment=_environment_fact(values),
    )


def windows_npus(accelerators: DeviceClass) -> list[Npu]:
    """Return the neural processors that are there; drivers of hardware that has gone are still registered."""
    return [
        npu for number, device in enumerate(accelerators.present) if (npu := _read_npu(device, number, accelerators))
    ]


def windows_limits(values: WindowsSystem, cpu: Cpu, memory: Memory) -> list[Fact[str]]:
    """Return what narrows the system, the processor and the memory."""
    return [
        *_emulation_limits(values),
        *_job_limits(memory),
        *_affinity_limits(cpu),
        *_commit_limits(memory),
        *_wsl_limits(values, memory),
    ]


def windows_gpu_limits(gpus: Sequence[Gpu], memory_total: int) -> list[Fact[str]]:
    """Return what is known to go wrong with a large part of memory set aside for graphics."""
    return [limit for gpu in gpus for limit in _mapping_limits(gpu, memory_total)]


def _version_fact(values: WindowsSystem) -> Fact[str]:
    """Return e.g. "Windows 11 Pro 24H2 (26100.2314)". The registry's product name stayed at 10 for Windows 11."""
    if not values.product:
        return unknown_fact("registry ProductName", "Nothing is said there.")
    product = values.product
    if values.build >= _FIRST_BUILD_OF_11:
        product = product.replace("Windows 10", "Windows 11")
    release = f" {values.display_version}" if values.display_version else ""
    return measured_fact(f"{product}{release} ({values.build}.{values.revision})", "registry ProductName, CurrentBuild")


def _architecture_fact(values: WindowsSystem) -> Fact[str]:
    name = _MACHINES.get(values.native_machine)
    if name is None:
        return unknown_fact("IsWow64Process2", f"The machine type {values.native_machine:#x} is not known.")
    return measured_fact(name, "IsWow64Process2")


def _environment_fact(values: WindowsSystem) -> Fact[str]:
    system_name = f"{values.maker} {values.model}".lower()
    if any(name in system_name for name in _VIRTUAL):
        return measured_fact("vm", "registry SystemManufacturer, SystemProductName", note=system_name)
    return derived_fact("bare", "registry SystemProductName", note="The firmware is not that of a virtual machine.")


def _is_emulated(values: WindowsSystem) -> bool:
    """Tell an x64 program on Arm. IsWow64Process2 calls those native: only what we were built for tells."""
    return values.native_machine == _ARM64 and values.built_for != "win-arm64"


def _emulation_limits(values: WindowsSystem) -> Iterator[Fact[str]]:
    if _is_emulated(values):
        yield measured_fact(
            "Roundhouse runs as an x64 program on an Arm processor: install the Arm64 build, or engines are emulated "
            "and several times slower.",
            "IsWow64Process2",
        )


def _job_limits(memory: Memory) -> Iterator[Fact[str]]:
    if memory.limit.value is not None:
        allowed_gib = memory.limit.value / _GIB
        yield measured_fact(f"A job object allows this process {allowed_gib:.1f} GiB of memory.", memory.limit.source)


def _affinity_limits(cpu: Cpu) -> Iterator[Fact[str]]:
    if cpu.usable_cores.note:
        yield measured_fact(cpu.usable_cores.note, cpu.usable_cores.source)


def _commit_limits(memory: Memory) -> Iterator[Fact[str]]:
    if memory.available.note:
        yield measured_fact(memory.available.note, memory.available.source)


def _wsl_limits(values: WindowsSystem, memory: Memory) -> Iterator[Fact[str]]:
    """Engines that need Linux run in WSL 2, which has half of memory unless .wslconfig says otherwise."""
    if not values.wsl_distributions or memory.total.value is None:
        return
    set_by_hand = _SIZE.fullmatch(values.wsl_memory)
    share = memory.total.value // 2
    if set_by_hand:
        share = min(int(float(set_by_hand[1]) * _UNITS[set_by_hand[2].upper()]), memory.total.value)
    reason = ".wslconfig says so" if set_by_hand else "half of memory, unless .wslconfig says otherwise"
    yield derived_fact(
        f"Engines in WSL get {share / _GIB:.1f} GiB: {reason}.", ".wslconfig", note="WSL 2's default is half."
    )


def _mapping_limits(gpu: Gpu, memory_total: int) -> Iterator[Fact[str]]:
    carved_bytes = gpu.carve_out.value or 0
    if carved_bytes < _MAPPED_LIMIT_CARVE_OUT or carved_bytes <= memory_total // 2:
        return
    text = (
        f"{carved_bytes / _GIB:.0f} GiB are set aside for graphics and {memory_total / _GIB:.0f} GiB are left to "
        "Windows: turn memory mapping off for models, or large ones fail to load while graphics memory is free."
    )
    yield derived_fact(text, "DXGI DedicatedVideoMemory", note="Mapped files take system memory as well.")


def _read_npu(device: str, number: int, accelerators: DeviceClass) -> Npu | None:
    match = _HARDWARE_ID.search(device)
    vendor = _NPU_VENDORS.get(match[1].upper()) if match else None
    if match is None or vendor is None:
        return None
    drivers = [driver for driver in accelerators.drivers if match[0].lower() in driver.matching_device_id.lower()]
    source = "device class ComputeAccelerator"
    return Npu(
        id=f"{match[1]}:{match[2]}-{number}".lower(),
        vendor=vendor,
        name=measured_fact(drivers[-1].description, source)
        if drivers
        else unknown_fact(source, "No driver is registered."),
        driver=measured_fact(drivers[-1].version, source)
        if drivers
        else unknown_fact(source, "No driver is registered."),
    )
