"""The processor as Linux describes it: model, cores that are really ours, vector extensions, cache.

Names for the numbers by which Arm processors identify themselves (MIDR: implementer and part).

From the Linux kernel's arch/arm64/include/asm/cputype.h: those that can run a language model, newest kinds included.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from app.core.machine import Cpu, Fact
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import (
    T,
    cpu_list,
    derived_fact,
    measured_fact,
    parse_decimal,
    read_int,
    read_pairs,
    read_text,
    unknown_fact,
)
from app.hardware.linux.cgroups import cpu_quota
from app.hardware.vector_units import vector_width

ISA = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
"""The flags that decide which kernels an engine can use; all others are noise here."""

_CPUS = "sys/devices/system/cpu"
_FAST = 0.8
"""A core counts as fast from this share of the fastest one's capacity on. Linux scales the fastest to 1024; siblings of
a "prime" core lie near 0.9, the slow cores of chips with two kinds at 0.7 (GB10) and below."""
_LARGEST_CACHE = 1 << 36
"""64 GiB; the largest there is has one."""
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def read_linux_cpu(evidence: Evidence) -> Cpu:
    """Return the processor's facts."""
    root = evidence.root
    info = read_pairs(root / "proc/cpuinfo")
    logical = len(re.findall(r"^processor\s*:", read_text(root / "proc/cpuinfo") or "", re.MULTILINE))
    return Cpu(
        model=_model_fact(root, info),
        vendor=_vendor_fact(info),
        physical_cores=_physical_cores(root, logical),
        performance_cores=_performance_cores(root),
        logical_cores=measured_fact(logical, "/proc/cpuinfo") if logical else _not_stated("/proc/cpuinfo"),
        usable_cores=_usable_cores(evidence, logical),
        isa=_isa_fact(info),
        cache_bytes=_cache_fact(root, info),
        vector_bits=_vector_fact(info),
    )


def read_board(root: Path) -> str:
    """Return what the device tree calls this computer ("Raspberry Pi 5 Model B Rev 1.0"), or ""."""
    paths = ("proc/device-tree/model", "sys/firmware/devicetree/base/model", "sys/devices/soc0/machine")
    return next((text for path in paths if (text := read_text(root / path))), "")


def product_of(board_name: str) -> str:
    """Return what a board is sold as: "Raspberry Pi 5" for "Raspberry Pi 5 Model B Rev 1.0"."""
    return re.split(r" (?:Model|Rev|Developer Kit|Engineering)\b", board_name)[0]


def _model_fact(root: Path, info: dict[str, str]) -> Fact[str]:
    if info.get("model name"):
        return measured_fact(info["model name"], "/proc/cpuinfo")
    if name := read_board(root):
        return measured_fact(name, "/proc/device-tree/model")
    part = arm_part(info.get("CPU implementer", ""), info.get("CPU part", ""))
    return (
        derived_fact(part, "/proc/cpuinfo", note="by implementer and part number")
        if part
        else _not_stated("/proc/cpuinfo")
    )


def _vendor_fact(info: dict[str, str]) -> Fact[str]:
    name = info.get("vendor_id") or arm_vendor(info.get("CPU implementer", ""))
    return measured_fact(name, "/proc/cpuinfo") if name else unknown_fact("/proc/cpuinfo", "Nothing is said there.")


def _not_stated(source: str) -> Fact[T]:
    return unknown_fact(source, "Nothing is said there.")


def _isa_fact(info: dict[str, str]) -> Fact[list[str]]:
    present = set((info.get("flags") or info.get("Features") or "").split())
    if not present:
        return unknown_fact("/proc/cpuinfo", "The kernel lists no processor flags.")
    return measured_fact([flag for flag in ISA if flag in present], "/proc/cpuinfo")


def _vector_fact(info: dict[str, str]) -> Fact[int]:
    family, model = (
        int(text) if (text := info.get(name, "")).isdecimal() else None for name in ("cpu family", "model")
    )
    return vector_width(info.get("vendor_id", ""), family, model, source="/proc/cpuinfo")


def _physical_cores(root: Path, logical: int) -> Fact[int]:
    source = f"/{_CPUS}/cpu*/topology"
    known_cores = _count_cores((root / _CPUS).glob("cpu[0-9]*/topology"))
    if not known_cores:
        return unknown_fact(source, "The kernel shows no core topology.")
    if logical and known_cores > logical:
        return derived_fact(logical, source, note="More cores than processors were listed; some are offline.")
    return measured_fact(known_cores, source)


def _count_cores(topologies: Iterable[Path]) -> int:
    """Count distinct cores. Arm kernels number cores anew in each cluster of one package."""
    names = ("physical_package_id", "die_id", "cluster_id", "core_id")
    core_ids = {tuple(read_int(topology / name) for name in names) for topology in topologies}
    return sum(core[0] is not None and core[-1] is not None for core in core_ids)


def _performance_cores(root: Path) -> Fact[int]:
    hybrid = cpu_list(read_text(root / "sys/devices/cpu_core/cpus") or "")
    if hybrid:
        return measured_fact(_distinct_cores(root, hybrid), "/sys/devices/cpu_core/cpus")
    capacities = {path.parent: read_int(path) for path in (root / _CPUS).glob("cpu[0-9]*/cpu_capacity")}
    top = max((capacity for capacity in capacities.values() if capacity), default=0)
    if not top:
        return unknown_fact("/sys/devices", "All cores look alike.")
    fast = {folder for folder, capacity in capacities.items() if (capacity or 0) >= _FAST * top}
    numbers = {int(folder.name.removeprefix("cpu")) for folder in fast}
    return measured_fact(_distinct_cores(root, numbers), f"/{_CPUS}/cpu*/cpu_capacity")


def _distinct_cores(root: Path, cpus: set[int]) -> int:
    return _count_cores(root / _CPUS / f"cpu{cpu}" / "topology" for cpu in cpus) or len(cpus)


def _usable_cores(evidence: Evidence, logical: int) -> Fact[float]:
    allowed_cores = read_affinity(evidence) or logical
    quota = cpu_quota(evidence.root)
    if quota is not None and (not allowed_cores or quota < allowed_cores):
        return measured_fact(
            quota, "cgroup cpu.max", note=f"A control group allows {quota:g} of {allowed_cores} processors."
        )
    return (
        measured_fact(float(allowed_cores), "sched_getaffinity") if allowed_cores else _not_stated("sched_getaffinity")
    )


def read_affinity(evidence: Evidence) -> int | None:
    """Return on how many logical processors this process may run (affinity mask, cpuset), or None."""
    try:
        return evidence.read_table("affinity", int, _read_affinity)
    except NoAnswer:
        return None


def _read_affinity() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    raise NoAnswer("Only Linux says it in this way.")


def _cache_fact(root: Path, info: dict[str, str]) -> Fact[int]:
    """Add up the last-level caches: one for each distinct set of processors that share one."""
    source = f"/{_CPUS}/cpu*/cache"
    caches = [cache for index in (root / _CPUS).glob("cpu[0-9]*/cache/index[0-9]*") if (cache := _cache_at(index))]
    last = max((level for level, _, _ in caches), default=0)
    distinct = {(sharing_cpus, size) for level, sharing_cpus, size in caches if level == last}
    if distinct:
        return derived_fact(sum(size for _, size in distinct), source, unit="B", note=f"all caches of level {last}")
    size = _parse_size(info.get("cache size", "").removesuffix("B").replace(" ", ""))
    if size:
        return measured_fact(size, "/proc/cpuinfo cache size", unit="B")
    return unknown_fact(source, "The kernel describes no caches.", unit="B")


def _cache_at(index: Path) -> tuple[int, str, int] | None:
    level, size = read_int(index / "level"), _parse_size(read_text(index / "size") or "")
    if not level or not size or read_text(index / "type") == "Instruction":
        return None
    return level, read_text(index / "shared_cpu_list") or index.parts[-3], size


def _parse_size(text: str) -> int | None:
    number, unit = parse_decimal(text[:-1]), text[-1:]
    size = number * _SIZES[unit] if number and unit in _SIZES else 0
    return size if 0 < size < _LARGEST_CACHE else None


_VENDORS = {
    0x41: "ARM",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "Applied Micro",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_PARTS = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD83): "Neoverse V3AE",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725",
    (0x41, 0xD8E): "Neoverse N3",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng 920",
    (0x4E, 0x004): "Carmel",
    (0x4E, 0x010): "Olympus",
    (0x51, 0x001): "Oryon",
    (0x6D, 0xD49): "Azure Cobalt 100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}


def arm_vendor(implementer: str) -> str:
    """Return the maker for "0x41"; what stands there if nobody known; "" if nothing does."""
    return _VENDORS.get(_parse_number(implementer), implementer)


def arm_part(implementer: str, part: str) -> str:
    """Return the core's name, such as "Neoverse V2", or "" for one we do not know."""
    return _PARTS.get((_parse_number(implementer), _parse_number(part)), "")


def _parse_number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return -1
