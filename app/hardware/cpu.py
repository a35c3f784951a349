"""The processor: each system says it differently; and how many threads an engine should compute with here."""

import os
import subprocess
import sys
from functools import cache

import psutil

from app.core.machine import Cpu, Fact
from app.hardware.evidence import Evidence, live
from app.hardware.facts import measured, unknown
from app.hardware.linux_cpu import read_linux_cpu

_APPLE_FEATURES = {"FEAT_DotProd": "asimddp", "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16", "FEAT_SME2": "sme"}
_SYSCTL_TIMEOUT_S = 2.0


def read_cpu(evidence: Evidence) -> Cpu:
    """Return the processor's facts."""
    if evidence.system == "macos":
        return _read_macos()
    if evidence.system == "windows":
        return _read_windows()
    return read_linux_cpu(evidence)


@cache
def engine_threads() -> int | None:
    """Return how many threads an engine should compute with here: fast cores, as far as we may use them.

    Slow cores and second threads of a core make matrix products wait for the slowest; a control group's quota is
    invisible to an engine, which then starts more threads than may run.
    """
    cpu = read_cpu(live())
    cores = cpu.performance_cores.value or cpu.physical_cores.value
    usable = cpu.usable_cores.value
    if cores is None or usable is None:
        return None
    return max(1, min(cores, int(usable)))


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
