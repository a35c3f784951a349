"""Ask Windows itself: kernel32, the registry, the firmware and the list of devices. Nothing is judged here.

Every library is loaded from System32 only, so that nothing beside the program can take its place. These calls have
been checked against their documented layouts, and replayed; this project's tests do not run on Windows.
"""

import ctypes
import struct
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from app.hardware.evidence import NoAnswer
from app.hardware.windows.values import CoreKind, DeviceClass, DeviceDriver, WindowsCpu, WindowsMemory, WindowsSystem

DISPLAY_CLASS = "{4d36e968-e325-11ce-bfc1-08002be10318}"
ACCELERATOR_CLASS = "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}"
"""Device classes Display and ComputeAccelerator (NPUs), devguid.h."""

_SYSTEM32_ONLY = 0x800
_RELATION_ALL, _RELATION_CORE, _RELATION_CACHE = 0xFFFF, 0, 2
_RECORD_HEAD = 8
_ALL_GROUPS = 0xFFFF
_SMBIOS_PROVIDER = int.from_bytes(b"RSMB", "big")
_SMBIOS_HEAD = 8
"""RawSMBIOSData has eight bytes before the table."""
_LAST_FEATURE = 96
"""PF_* numbers in winnt.h end below this; unknown ones are answered with no."""
_JOB_EXTENDED_LIMITS = 9
_JOB_LIMIT_PROCESS_MEMORY, _JOB_LIMIT_JOB_MEMORY = 0x100, 0x200
_CLASS_PRESENT = 0x200 | 0x100
"""CM_GETIDLIST_FILTER_CLASS and _PRESENT."""
_KEYS_MAX = 64

_CPU_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
_BIOS_KEY = r"HARDWARE\DESCRIPTION\System\BIOS"
_VERSION_KEY = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
_WSL_KEY = r"Software\Microsoft\Windows\CurrentVersion\Lxss"
_CLASS_KEY = r"SYSTEM\CurrentControlSet\Control\Class"


def load_library(name: str) -> ctypes.CDLL:
    """Load a system library. Raises OSError. 64-bit Windows has one calling convention, so CDLL is right."""
    return ctypes.CDLL(name, winmode=_SYSTEM32_ONLY)


def read_windows_system() -> WindowsSystem:
    """Return what the system says of itself and of the computer it runs on."""
    version, bios = _registry_values(_VERSION_KEY), _registry_values(_BIOS_KEY)
    return WindowsSystem(
        product=str(version.get("ProductName", "")),
        display_version=str(version.get("DisplayVersion", "")),
        build=int(str(version.get("CurrentBuild", 0))),
        revision=int(str(version.get("UBR", 0))),
        maker=str(bios.get("SystemManufacturer", "")),
        model=str(bios.get("SystemProductName", "")),
        native_machine=_native_machine(),
        built_for=sysconfig.get_platform(),
        wsl_distributions=sum(1 for _ in _registry_subkeys(_WSL_KEY, of_user=True)),
        wsl_memory=_wsl_memory(),
    )


def read_windows_cpu() -> WindowsCpu:
    """Return the processor's name, cores, features and what of it this process may use."""
    kernel32 = load_library("kernel32.dll")
    values = _registry_values(_CPU_KEY)
    cores, cache = parse_processors(_processor_information(kernel32))
    return WindowsCpu(
        name=str(values.get("ProcessorNameString", "")).strip(),
        vendor=str(values.get("VendorIdentifier", "")),
        identifier=str(values.get("Identifier", "")),
        cores=cores,
        cache_bytes=cache,
        features=[number for number in range(_LAST_FEATURE) if kernel32.IsProcessorFeaturePresent(number)],
        logical=int(kernel32.GetActiveProcessorCount(_ALL_GROUPS)),
        affinity=_affinity_count(kernel32),
    )


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX."""

    _fields_ = (
        *(("length", ctypes.c_uint32), ("load", ctypes.c_uint32)),
        *(("total", ctypes.c_uint64), ("available", ctypes.c_uint64)),
        *(("commit_limit", ctypes.c_uint64), ("commit_available", ctypes.c_uint64)),
        *(("virtual", ctypes.c_uint64), ("virtual_available", ctypes.c_uint64), ("extended", ctypes.c_uint64)),
    )


class _JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        *(("process_time", ctypes.c_int64), ("job_time", ctypes.c_int64), ("flags", ctypes.c_uint32)),
        *(("least_set", ctypes.c_size_t), ("largest_set", ctypes.c_size_t), ("processes", ctypes.c_uint32)),
        *(("affinity", ctypes.c_size_t), ("priority", ctypes.c_uint32), ("scheduling", ctypes.c_uint32)),
        *(("io", ctypes.c_uint64 * 6), ("process_memory", ctypes.c_size_t), ("job_memory", ctypes.c_size_t)),
        *(("peak_process", ctypes.c_size_t), ("peak_job", ctypes.c_size_t)),
    )


def read_windows_memory() -> WindowsMemory:
    """Return memory as the system counts it, as the firmware counts it, and a job object's limit on us."""
    kernel32 = load_library("kernel32.dll")
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise NoAnswer("GlobalMemoryStatusEx failed.")
    installed_kib = ctypes.c_uint64()
    is_known = kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(installed_kib))
    return WindowsMemory(
        total=status.total,
        available=status.available,
        commit_limit=status.commit_limit,
        commit_available=status.commit_available,
        installed=installed_kib.value * 1024 if is_known else None,
        job_limit=_job_limit(kernel32),
    )


def firmware_table() -> bytes:
    """Return the SMBIOS table, which Windows shows to everybody. Serial numbers are in it: never record it as it is."""
    kernel32 = load_library("kernel32.dll")
    size = kernel32.GetSystemFirmwareTable(_SMBIOS_PROVIDER, 0, None, 0)
    buffer = ctypes.create_string_buffer(size)
    kernel32.GetSystemFirmwareTable(_SMBIOS_PROVIDER, 0, buffer, size)
    return buffer.raw[_SMBIOS_HEAD:]


def read_device_class(guid: str) -> DeviceClass:
    """Return a device class's drivers and which of its devices are there."""
    folder = rf"{_CLASS_KEY}\{guid}"
    keys = [name for name in _registry_subkeys(folder) if name.isdecimal()]
    return DeviceClass(
        drivers=[_parse_driver(_registry_values(rf"{folder}\{name}")) for name in keys], present=_list_present(guid)
    )


def _parse_driver(values: dict[str, object]) -> DeviceDriver:
    size = values.get("HardwareInformation.qwMemorySize")
    return DeviceDriver(
        description=str(values.get("DriverDesc", "")),
        provider=str(values.get("ProviderName", "")),
        version=str(values.get("DriverVersion", "")),
        matching_device_id=str(values.get("MatchingDeviceId", "")),
        memory_size=size.hex() if isinstance(size, bytes) else size if isinstance(size, int) else None,
    )


def _list_present(guid: str) -> list[str]:
    """Return hardware ids only: the instance part behind them can hold a serial number."""
    manager = load_library("cfgmgr32.dll")
    size = ctypes.c_uint32()
    if manager.CM_Get_Device_ID_List_SizeW(ctypes.byref(size), ctypes.c_wchar_p(guid), _CLASS_PRESENT):
        return []
    buffer = (ctypes.c_uint16 * size.value)()
    if manager.CM_Get_Device_ID_ListW(ctypes.c_wchar_p(guid), buffer, size, _CLASS_PRESENT):
        return []
    names = bytes(buffer).decode("utf-16-le", "replace").split("\0")
    return [name.rpartition("\\")[0] for name in names if name]


def parse_processors(buffer: bytes) -> tuple[list[CoreKind], int]:
    """Return the cores, fastest first, and the bytes of last-level cache, of GetLogicalProcessorInformationEx."""
    cores: Counter[tuple[int, int]] = Counter()
    caches: dict[int, int] = {}
    for relation, record in _iter_records(buffer):
        if relation == _RELATION_CORE:
            groups = struct.unpack_from("<H", record, 30)[0]
            masks = [struct.unpack_from("<Q", record, 32 + 16 * group)[0] for group in range(groups)]
            cores[record[9], sum(mask.bit_count() for mask in masks)] += 1
        elif relation == _RELATION_CACHE:
            caches[record[8]] = caches.get(record[8], 0) + struct.unpack_from("<I", record, 12)[0]
    kinds = sorted((CoreKind(*kind, count) for kind, count in cores.items()), reverse=True)
    return kinds, caches[max(caches)] if caches else 0


def _iter_records(buffer: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _RECORD_HEAD <= len(buffer):
        relation, size = struct.unpack_from("<II", buffer, at)
        if size < _RECORD_HEAD or at + size > len(buffer):
            raise ValueError("A processor record does not fit its buffer.")
        yield relation, buffer[at : at + size]
        at += size


def _processor_information(kernel32: ctypes.CDLL) -> bytes:
    size = ctypes.c_uint32()
    kernel32.GetLogicalProcessorInformationEx(_RELATION_ALL, None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    if not kernel32.GetLogicalProcessorInformationEx(_RELATION_ALL, buffer, ctypes.byref(size)):
        return b""
    return buffer.raw[: size.value]


def _this_process(kernel32: ctypes.CDLL) -> ctypes.c_void_p:
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    return ctypes.c_void_p(kernel32.GetCurrentProcess())


def _affinity_count(kernel32: ctypes.CDLL) -> int:
    ours, systems = ctypes.c_size_t(), ctypes.c_size_t()
    process = _this_process(kernel32)
    if not kernel32.GetProcessAffinityMask(process, ctypes.byref(ours), ctypes.byref(systems)):
        return 0
    return ours.value.bit_count()


def _native_machine() -> int:
    kernel32 = load_library("kernel32.dll")
    process, native = ctypes.c_uint16(), ctypes.c_uint16()
    kernel32.IsWow64Process2(_this_process(kernel32), ctypes.byref(process), ctypes.byref(native))
    return native.value


def _job_limit(kernel32: ctypes.CDLL) -> int | None:
    limits = _JobLimits()
    size = ctypes.sizeof(limits)
    if not kernel32.QueryInformationJobObject(None, _JOB_EXTENDED_LIMITS, ctypes.byref(limits), size, None):
        return None
    sizes = []
    if limits.flags & _JOB_LIMIT_PROCESS_MEMORY:
        sizes.append(int(limits.process_memory))
    if limits.flags & _JOB_LIMIT_JOB_MEMORY:
        sizes.append(int(limits.job_memory))
    return min(sizes, default=None)


def _wsl_memory() -> str:
    """Return the first `memory=` line of .wslconfig; nothing else of that file is kept."""
    try:
        text = (Path.home() / ".wslconfig").read_text(encoding="utf-8", errors="replace")
    except (OSError, RuntimeError):
        return ""
    pairs = (line.partition("=") for line in text.splitlines())
    return next((value.strip() for key, _, value in pairs if key.strip().lower() == "memory"), "")


def _registry_values(path: str) -> dict[str, object]:
    """Return a key's values of the machine's part of the registry; empty when it cannot be read."""
    if sys.platform != "win32":
        return {}
    import winreg  # noqa: PLC0415 -- exists on Windows only

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
            entries = [winreg.EnumValue(key, index) for index in range(winreg.QueryInfoKey(key)[1])]
    except OSError:  # some keys of a class, such as Properties, are the system's alone
        return {}
    return {name: value for name, value, _ in entries}


def _registry_subkeys(path: str, *, of_user: bool = False) -> Iterator[str]:
    if sys.platform != "win32":
        return
    import winreg  # noqa: PLC0415 -- exists on Windows only

    try:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER if of_user else winreg.HKEY_LOCAL_MACHINE, path) as key:
            for index in range(min(_KEYS_MAX, winreg.QueryInfoKey(key)[0])):
                yield winreg.EnumKey(key, index)
    except OSError:
        return
