"""The processor and the memory of a Windows machine, from what its calls returned."""

import msgspec

from app.core.machine import Cpu, Fact, Memory
from app.hardware.evidence import Evidence, Unanswered
from app.hardware.facts import derived, measured, unknown
from app.hardware.smbios import MemoryModule, modules, theoretical_bandwidth
from app.hardware.windows.calls import firmware_table, read_windows_cpu, read_windows_memory
from app.hardware.windows.values import WindowsCpu, WindowsMemory

_X86 = {38: "sse4_2", 39: "avx", 40: "avx2", 41: "avx512f"}
_ARM = {19: "asimd", 43: "asimddp", 46: "sve", 47: "sve2", 66: "i8mm", 68: "bf16", 70: "sme"}
"""PF_* of winnt.h -> the flag's usual name. 66 to 70 are known to Windows 11 24H2 and later only."""
_AVX2 = 40
_TOPOLOGY = "GetLogicalProcessorInformationEx"
_STATUS = "GlobalMemoryStatusEx"


def ask_windows_cpu(evidence: Evidence) -> Cpu:
    """Ask for the processor and return its facts; all unknown when Windows does not answer."""
    try:
        return windows_cpu(evidence.ask("windows_cpu", WindowsCpu, read_windows_cpu))
    except Unanswered:
        return windows_cpu(WindowsCpu())


def ask_windows_memory(evidence: Evidence) -> Memory:
    """Ask for the memory and its modules and return the facts. Raises Unanswered when Windows does not state any."""
    memory = windows_memory(evidence.ask("windows_memory", WindowsMemory, read_windows_memory))
    try:
        found = evidence.ask("memory_modules", list[MemoryModule], lambda: modules(firmware_table()))
    except Unanswered:
        found = []
    return msgspec.structs.replace(memory, theoretical_gb_s=theoretical_bandwidth(found))


def windows_cpu(found: WindowsCpu) -> Cpu:
    """Return the processor's facts."""
    fastest = max((core.efficiency_class for core in found.cores), default=0)
    fast = sum(core.count for core in found.cores if core.efficiency_class == fastest)
    physical = sum(core.count for core in found.cores)
    threads = found.logical or sum(core.threads * core.count for core in found.cores)
    return Cpu(
        model=_said(found.name, "registry ProcessorNameString"),
        vendor=_said(found.vendor, "registry VendorIdentifier"),
        physical_cores=_counted(physical),
        performance_cores=_performance(fast, physical),
        logical_cores=_counted(threads),
        usable_cores=_usable(found.affinity, threads),
        isa=_isa(found.features),
        cache_bytes=_cache(found.cache_bytes),
    )


def windows_memory(found: WindowsMemory) -> Memory:
    """Return the memory's facts. Shared GPU memory is part of the total and never added to it."""
    return Memory(
        total=measured(found.total, _STATUS, unit="B", note=_gap(found)),
        available=_available(found),
        limit=_job_limit(found),
        swap_total=derived(
            max(0, found.commit_limit - found.total), _STATUS, unit="B", note="commit limit - memory: the page file"
        ),
        unified=unknown("", "No GPU was looked at."),
    )


def carved_out(found: WindowsMemory) -> int:
    """Return the bytes of installed memory the system never got: a GPU's carve-out and the firmware's own share."""
    return max(0, found.installed - found.total) if found.installed else 0


def _gap(found: WindowsMemory) -> str:
    gap = carved_out(found) / (1 << 30)
    return f"{gap:.1f} GiB of the installed memory are set aside for graphics and firmware." if gap >= 1 else ""


def _available(found: WindowsMemory) -> Fact[int]:
    """Return what can still be allocated: Windows promises no memory beyond the commit limit, free or not."""
    if found.commit_available < found.available:
        note = "The page file is small or full: less can be promised than is free."
        return derived(found.commit_available, _STATUS, unit="B", note=note)
    return measured(found.available, _STATUS, unit="B")


def _job_limit(found: WindowsMemory) -> Fact[int]:
    if found.job_limit is None or found.job_limit >= found.total:
        return unknown("QueryInformationJobObject", "No job object limits this process.", unit="B")
    return measured(found.job_limit, "QueryInformationJobObject", unit="B")


def _performance(fast: int, cores: int) -> Fact[int]:
    if not cores:
        return unknown(_TOPOLOGY, "Windows lists no cores.")
    if fast == cores:
        return unknown(f"{_TOPOLOGY} EfficiencyClass", "All cores look alike.")
    return measured(fast, f"{_TOPOLOGY} EfficiencyClass")


def _usable(affinity: int, threads: int) -> Fact[float]:
    if 0 < affinity < threads:
        note = f"This process may run on {affinity} of {threads} processors."
        return measured(float(affinity), "GetProcessAffinityMask", note=note)
    return measured(float(threads), _TOPOLOGY) if threads else unknown(_TOPOLOGY, "Windows lists no processors.")


def _isa(features: list[int]) -> Fact[list[str]]:
    known = _X86 | _ARM
    flags = [name for number, name in known.items() if number in features]
    if not flags:
        return unknown("IsProcessorFeaturePresent", "Windows names no extension engines use.")
    if _AVX2 not in features:
        return measured(flags, "IsProcessorFeaturePresent")
    # Windows has no number for these two, and no processor of Intel's or AMD's has AVX2 without them.
    return derived([*flags, "fma", "f16c"], "IsProcessorFeaturePresent", note="AVX2 comes with FMA and F16C.")


def _cache(amount: int) -> Fact[int]:
    return measured(amount, _TOPOLOGY, unit="B") if amount else unknown(_TOPOLOGY, "No cache is listed.", unit="B")


def _said(text: str, source: str) -> Fact[str]:
    return measured(text, source) if text else unknown(source, "Nothing is said there.")


def _counted(number: int) -> Fact[int]:
    return measured(number, _TOPOLOGY) if number else unknown(_TOPOLOGY, "Nothing is said there.")
