"""Memory that processor and GPU share, as a GPU that states none of its own should see it (GB10, Thor, Jetson, Asahi).

Free memory follows NVIDIA's advice for DGX Spark, which llama.cpp follows too: with huge pages reserved only the free
ones can be had, else what the kernel calls available. Swap is not counted: a model that swaps is not one that fits.
"""

from pathlib import Path

from app.core.machine import Fact
from app.hardware.facts import derived_fact, parse_decimal, read_pairs, unknown_fact
from app.hardware.memory import meminfo_bytes

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
