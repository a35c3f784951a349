"""System memory: what is there, what is free now, what a control group leaves us of it, and how fast it could be."""

from app.core.machine import Fact, Memory
from app.hardware.evidence import Evidence
from app.hardware.facts import decimal, derived, measured, read_pairs, unknown
from app.hardware.linux.cgroups import MemoryLimit, memory_limit
from app.hardware.macos.sysctl import ask_mac_memory
from app.hardware.smbios import ask_modules, theoretical_bandwidth
from app.hardware.windows.cpu import ask_windows_memory

_KIB = 1024
_UNIFIED: Fact[bool] = unknown("", "No GPU was looked at.")


def read_memory(evidence: Evidence) -> Memory:
    """Return the memory's facts; whether a GPU shares it is known only to whoever looked at the GPUs."""
    if evidence.system == "macos":
        return ask_mac_memory(evidence)
    if evidence.system == "windows":
        return ask_windows_memory(evidence)
    return read_linux_memory(evidence)


def read_linux_memory(evidence: Evidence) -> Memory:
    """Return what /proc/meminfo, the control groups and the firmware say."""
    info = read_pairs(evidence.root / "proc/meminfo")
    total = meminfo_bytes(info, "MemTotal")
    limit = memory_limit(evidence.root)
    return Memory(
        total=total,
        available=_available(info, total, limit),
        limit=_limit(limit, total),
        swap_total=meminfo_bytes(info, "SwapTotal"),
        unified=_UNIFIED,
        theoretical_gb_s=theoretical_bandwidth(ask_modules(evidence)),
    )


def meminfo_bytes(info: dict[str, str], key: str) -> Fact[int]:
    """Return a row of /proc/meminfo in bytes."""
    amount = decimal(info.get(key, "").removesuffix("kB").strip())
    if amount is not None:
        return measured(amount * _KIB, f"/proc/meminfo {key}", unit="B")
    return unknown("/proc/meminfo", f"{key} is missing.", unit="B")


def _available(info: dict[str, str], total: Fact[int], limit: MemoryLimit | None) -> Fact[int]:
    available = meminfo_bytes(info, "MemAvailable")
    if available.value is None or total.value is None or available.value <= total.value:
        return _within(available, limit)
    return _within(
        derived(total.value, available.source, unit="B", note="More was said to be free than there is."), limit
    )


def _limit(limit: MemoryLimit | None, total: Fact[int]) -> Fact[int]:
    if limit is None or (total.value is not None and limit.limit >= total.value):
        return unknown("cgroup", "No control group limits this process.", unit="B")
    return measured(limit.limit, limit.source, unit="B")


def _within(available: Fact[int], limit: MemoryLimit | None) -> Fact[int]:
    if limit is None or available.value is None or limit.limit - limit.used >= available.value:
        return available
    room = max(0, limit.limit - limit.used)
    return derived(room, limit.source, unit="B", note="limit - use + file cache that can be dropped")
