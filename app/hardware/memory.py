"""System memory: what is there, what is free now, what a control group leaves us of it, and how fast it could be.

Memory that processor and GPU share, as a GPU that states none of its own should see it (GB10, Thor, Jetson, Asahi).

Free memory follows NVIDIA's advice for DGX Spark, which llama.cpp follows too: with huge pages reserved only the free
ones can be had, else what the kernel calls available. Swap is not counted: a model that swaps is not one that fits.
"""

from pathlib import Path

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


_SOURCE = "/proc/meminfo"
_SMALL = 4 << 30


def pool_total(root: Path) -> Fact[int]:
    """Return all of system memory as what such a GPU can address."""
    total = meminfo_bytes(read_pairs(root / "proc/meminfo"), "MemTotal")
    if total.value is None:
        return unknown_fact(_SOURCE, "The size of the shared memory is not known.", unit="B")
    return derived_fact(total.value, _SOURCE, unit="B", note="It shares the system's memory.")


def graphics_share(root: Path) -> Fact[int]:
    """Return what Mesa's drivers let graphics in a processor have: half of 4 GiB or less, else three quarters.

    The rule of ANV and Honeykrisp for their one heap; Intel's compute driver comes to about the same.
    """
    total = meminfo_bytes(read_pairs(root / "proc/meminfo"), "MemTotal")
    if total.value is None:
        return unknown_fact(_SOURCE, "The size of the shared memory is not known.", unit="B")
    share = total.value // 2 if total.value <= _SMALL else total.value * 3 // 4
    return derived_fact(share, _SOURCE, unit="B", note="what drivers let graphics have of the system's memory")


def pool_free(root: Path) -> Fact[int]:
    """Return what such a GPU can still have now."""
    info = read_pairs(root / "proc/meminfo")
    if _read_count(info, "HugePages_Total"):
        size = meminfo_bytes(info, "Hugepagesize").value or 0
        total = meminfo_bytes(info, "MemTotal").value or 0
        free = min(total, _read_count(info, "HugePages_Free") * size)
        return derived_fact(
            free, f"{_SOURCE} HugePages_Free", unit="B", note="Huge pages are reserved: only they count."
        )
    available = meminfo_bytes(info, "MemAvailable")
    if available.value is None:
        return unknown_fact(_SOURCE, "How much of the shared memory is free is not known.", unit="B")
    return derived_fact(available.value, available.source, unit="B", note="It shares the system's memory.")


def _read_count(info: dict[str, str], key: str) -> int:
    return parse_decimal(info.get(key, "")) or 0
