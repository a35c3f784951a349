"""System memory: what is there, what is free now, and what a control group leaves us of it."""

import sys
from pathlib import Path

import psutil

from app.core.machine import Fact, Memory
from app.hardware.cgroups import MemoryLimit, memory_limit
from app.hardware.facts import derived, measured, read_pairs, unknown

_KIB = 1024


def read_memory(root: Path = Path("/"), *, unified: Fact[bool] | None = None) -> Memory:
    """Return the memory's facts; `unified` is known to whoever looked at the GPUs."""
    shared = unified or unknown("", "No GPU was looked at.")
    if sys.platform == "linux":
        return read_linux(root, unified=shared)
    found = psutil.virtual_memory()
    return Memory(
        total=measured(int(found.total), "psutil", unit="B"),
        available=measured(int(found.available), "psutil", unit="B"),
        limit=unknown("", "Control groups exist on Linux only.", unit="B"),
        swap_total=measured(int(psutil.swap_memory().total), "psutil", unit="B"),
        unified=shared,
    )


def read_linux(root: Path, *, unified: Fact[bool]) -> Memory:
    """Return what /proc/meminfo and the control groups below `root` say."""
    info = read_pairs(root / "proc/meminfo")
    total, available = _bytes(info, "MemTotal"), _bytes(info, "MemAvailable")
    limit = memory_limit(root)
    return Memory(
        total=total,
        available=_within(available, limit),
        limit=_limit(limit, total),
        swap_total=_bytes(info, "SwapTotal"),
        unified=unified,
    )


def _bytes(info: dict[str, str], key: str) -> Fact[int]:
    amount = info.get(key, "").removesuffix("kB").strip()
    if amount.isdigit():
        return measured(int(amount) * _KIB, f"/proc/meminfo {key}", unit="B")
    return unknown("/proc/meminfo", f"{key} is missing.", unit="B")


def _limit(limit: MemoryLimit | None, total: Fact[int]) -> Fact[int]:
    if limit is None or (total.value is not None and limit.limit >= total.value):
        return unknown("cgroup", "No control group limits this process.", unit="B")
    return measured(limit.limit, limit.source, unit="B")


def _within(available: Fact[int], limit: MemoryLimit | None) -> Fact[int]:
    if limit is None or available.value is None or limit.limit - limit.used >= available.value:
        return available
    room = max(0, limit.limit - limit.used)
    return derived(room, limit.source, unit="B", note="limit - use + file cache that can be dropped")
