"""System memory: what is there, what is free now, what a control group leaves us of it, and how fast it could be."""

from app.core.machine import Fact, Memory
from app.hardware.evidence import Evidence
from app.hardware.facts import derived_fact, measured_fact, parse_decimal, read_pairs, unknown_fact
from app.hardware.linux.cgroups import MemoryLimit, memory_limit
from app.hardware.macos.sysctl import ask_mac_memory
from app.hardware.smbios import ask_modules, theoretical_bandwidth
from app.hardware.windows.cpu import ask_windows_memory

_KIB = 1024
_UNIFIED: Fact[bool] = unknown_fact("", "No GPU was looked at.")


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
        available=_available_fact(info, total, limit),
        limit=_limit_fact(limit, total),
        swap_total=meminfo_bytes(info, "SwapTotal"),
        unified=_UNIFIED,
        theoretical_gb_s=theoretical_bandwidth(ask_modules(evidence)),
    )


def meminfo_bytes(info: dict[str, str], key: str) -> Fact[int]:
    """Return a row of /proc/meminfo in bytes."""
    amount = parse_decimal(info.get(key, "").removesuffix("kB").strip())
    if amount is not None:
        return measured_fact(amount * _KIB, f"/proc/meminfo {key}", unit="B")
    return unknown_fact("/proc/meminfo", f"{key} is missing.", unit="B")


def _available_fact(info: dict[str, str], total: Fact[int], limit: MemoryLimit | None) -> Fact[int]:
    available = meminfo_bytes(info, "MemAvailable")
    if available.value is None or total.value is None or available.value <= total.value:
        return _within_limit(available, limit)
    return _within_limit(
        derived_fact(total.value, available.source, unit="B", note="More was said to be free than there is."), limit
    )


def _limit_fact(limit: MemoryLimit | None, total: Fact[int]) -> Fact[int]:
    if limit is None or (total.value is not None and limit.limit >= total.value):
        return unknown_fact("cgroup", "No control group limits this process.", unit="B")
    return measured_fact(limit.limit, limit.source, unit="B")


def _within_limit(available: Fact[int], limit: MemoryLimit | None) -> Fact[int]:
    if limit is None or available.value is None or limit.limit - limit.used >= available.value:
        return available
    room = max(0, limit.limit - limit.used)
    return derived_fact(room, limit.source, unit="B", note="limit - use + file cache that can be dropped")
