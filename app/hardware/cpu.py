"""The processor: model, cores that are really ours, and the vector extensions engines are built for.

Linux is read from /proc and /sys below `root` (a folder of captured files in tests), macOS through sysctl, Windows
through the registry and psutil.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import psutil

from app.core.machine import Cpu, Fact
from app.hardware.cgroups import cpu_quota
from app.hardware.facts import cpu_list, derived, measured, read_int, read_pairs, read_text, unknown

ISA = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
"""The flags that decide which kernels an engine can use; all others are noise here."""

_APPLE_FEATURES = {"FEAT_DotProd": "asimddp", "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16", "FEAT_SME2": "sme"}
_SYSCTL_TIMEOUT_S = 2.0


def read_cpu(root: Path = Path("/")) -> Cpu:
    """Return the processor's facts."""
    if sys.platform == "darwin":
        return _read_macos()
    if sys.platform == "win32":
        return _read_windows()
    return read_linux(root, affinity=len(os.sched_getaffinity(0)))


@cache
def engine_threads() -> int | None:
    """Return how many threads an engine should compute with here: fast cores, as far as we may use them.

    Slow cores and second threads of a core make matrix products wait for the slowest; a control group's quota is
    invisible to an engine, which then starts more threads than may run.
    """
    cpu = read_cpu()
    cores = cpu.performance_cores.value or cpu.physical_cores.value
    usable = cpu.usable_cores.value
    if cores is None or usable is None:
        return None
    return max(1, min(cores, int(usable)))


def read_linux(root: Path, *, affinity: int) -> Cpu:
    """Return what /proc and /sys below `root` say; `affinity` is the number of CPUs this process may run on."""
    info = read_pairs(root / "proc/cpuinfo")
    logical = _logical(root)
    return Cpu(
        model=_linux_model(root, info),
        vendor=_text(info.get("vendor_id") or info.get("CPU implementer"), "/proc/cpuinfo"),
        physical_cores=_physical(root, logical),
        performance_cores=_performance(root),
        logical_cores=_count(logical, "/proc/cpuinfo"),
        usable_cores=_usable(root, affinity),
        isa=_linux_isa(info),
    )


def _linux_model(root: Path, info: dict[str, str]) -> Fact[str]:
    if "model name" in info:
        return measured(info["model name"], "/proc/cpuinfo")
    return _text(read_text(root / "proc/device-tree/model"), "/proc/device-tree/model")


def _linux_isa(info: dict[str, str]) -> Fact[list[str]]:
    present = set((info.get("flags") or info.get("Features") or "").split())
    if not present:
        return unknown("/proc/cpuinfo", "The kernel lists no processor flags.")
    return measured([flag for flag in ISA if flag in present], "/proc/cpuinfo")


def _logical(root: Path) -> int:
    return len(re.findall(r"^processor\s*:", read_text(root / "proc/cpuinfo") or "", re.MULTILINE))


def _physical(root: Path, logical: int) -> Fact[int]:
    source = "/sys/devices/system/cpu/cpu*/topology"
    cores = {
        (read_int(topology / "physical_package_id"), read_int(topology / "core_id"))
        for topology in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology")
    }
    known = {core for core in cores if None not in core}
    if not known:
        return unknown(source, "The kernel shows no core topology.")
    if logical and len(known) > logical:
        return derived(logical, source, note="More cores than processors were listed; some are offline.")
    return measured(len(known), source)


def _performance(root: Path) -> Fact[int]:
    hybrid = read_text(root / "sys/devices/cpu_core/cpus")
    if hybrid:
        return measured(_distinct_cores(root, cpu_list(hybrid)), "/sys/devices/cpu_core/cpus")
    cpus = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpu_capacity")
    capacities = [value for value in (read_int(path) for path in cpus) if value]
    if capacities:
        top = [value for value in capacities if value == max(capacities)]
        return measured(len(top), "/sys/devices/system/cpu/cpu*/cpu_capacity")
    return unknown("/sys/devices", "All cores look alike.")


def _distinct_cores(root: Path, cpus: set[int]) -> int:
    folder = root / "sys/devices/system/cpu"
    cores = {read_int(folder / f"cpu{cpu}/topology/core_id") for cpu in cpus}
    return len(cores - {None}) or len(cpus)


def _usable(root: Path, affinity: int) -> Fact[float]:
    quota = cpu_quota(root)
    if quota is not None and quota < affinity:
        return measured(quota, "cgroup cpu.max", note=f"A cgroup allows {quota:g} of {affinity} processors.")
    return measured(float(affinity), "sched_getaffinity")


def _read_macos() -> Cpu:
    performance = _sysctl_int("hw.perflevel0.physicalcpu")
    source = "sysctl hw.optional.arm"
    isa = [flag for feature, flag in _APPLE_FEATURES.items() if _sysctl_int(f"hw.optional.arm.{feature}") == 1]
    return Cpu(
        model=_text(_sysctl("machdep.cpu.brand_string"), "sysctl machdep.cpu.brand_string"),
        vendor=measured("Apple", "sysctl") if performance else _text(_sysctl("machdep.cpu.vendor"), "sysctl"),
        physical_cores=_count(_sysctl_int("hw.physicalcpu"), "sysctl hw.physicalcpu"),
        performance_cores=_count(performance, "sysctl hw.perflevel0.physicalcpu"),
        logical_cores=_count(_sysctl_int("hw.logicalcpu"), "sysctl hw.logicalcpu"),
        usable_cores=measured(float(os.cpu_count() or 1), "os.cpu_count"),
        isa=measured(["asimd", *isa], source) if performance else unknown(source, "Not looked for on Intel Macs."),
    )


def _read_windows() -> Cpu:
    return Cpu(
        model=_text(_registry_cpu_name(), "registry ProcessorNameString"),
        vendor=unknown("registry", "Not looked for on Windows."),
        physical_cores=_count(psutil.cpu_count(logical=False), "GetLogicalProcessorInformationEx"),
        performance_cores=unknown("GetLogicalProcessorInformationEx", "Not looked for on Windows."),
        logical_cores=_count(psutil.cpu_count(), "GetLogicalProcessorInformationEx"),
        usable_cores=measured(float(os.cpu_count() or 1), "os.cpu_count"),
        isa=unknown("CPUID", "Not looked for on Windows."),
    )


def _registry_cpu_name() -> str | None:
    if sys.platform != "win32":
        return None
    import winreg  # noqa: PLC0415 -- exists on Windows only

    path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    except OSError:
        return None


def _sysctl(name: str) -> str | None:
    try:
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=_SYSCTL_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _sysctl_int(name: str) -> int | None:
    text = _sysctl(name)
    return int(text) if text and text.isdigit() else None


def _text(value: str | None, source: str) -> Fact[str]:
    return measured(value, source) if value else unknown(source, "Nothing is said there.")


def _count(value: int | None, source: str) -> Fact[int]:
    return measured(value, source) if value else unknown(source, "Nothing is said there.")
