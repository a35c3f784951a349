"""The processor and the memory of a Windows machine, from what its calls returned."""

import re

import msgspec

from app.core.machine import Cpu, Fact, Memory
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import derived_fact, measured_fact, unknown_fact
from app.hardware.smbios import MemoryModule, parse_modules, theoretical_bandwidth
from app.hardware.vector_units import vector_width
from app.hardware.windows.calls import firmware_table, read_windows_cpu, read_windows_memory
from app.hardware.windows.values import WindowsCpu, WindowsMemory

_X86 = {38: "sse4_2", 39: "avx", 40: "avx2", 41: "avx512f"}
_ARM = {19: "asimd", 43: "asimddp", 46: "sve", 47: "sve2", 66: "i8mm", 68: "bf16", 70: "sme"}
"""PF_* of winnt.h -> the flag's usual name. 66 to 70 are known to Windows 11 24H2 and later only."""
_AVX2 = 40
_TOPOLOGY = "GetLogicalProcessorInformationEx"
_STATUS = "GlobalMemoryStatusEx"
_FAMILY = re.compile(r"Family (\d+) Model (\d+)")


def ask_windows_cpu(evidence: Evidence) -> Cpu:
    """Ask for the processor and return its facts; all unknown when Windows does not answer."""
    try:
        return windows_cpu(evidence.read_table("windows_cpu", WindowsCpu, read_windows_cpu))
    except NoAnswer:
        return windows_cpu(WindowsCpu())


def ask_windows_memory(evidence: Evidence) -> Memory:
    """Ask for the memory and its modules and return the facts. Raises NoAnswer when Windows does not state any."""
    memory = windows_memory(evidence.read_table("windows_memory", WindowsMemory, read_windows_memory))
    try:
        memory_modules = evidence.read_table(
            "memory_modules", list[MemoryModule], lambda: parse_modules(firmware_table())
        )
    except NoAnswer:
        memory_modules = []
    return msgspec.structs.replace(memory, theoretical_gb_s=theoretical_bandwidth(memory_modules))


def windows_cpu(values: WindowsCpu) -> Cpu:
    """Return the processor's facts."""
    fastest = max((core.efficiency_class for core in values.cores), default=0)
    fast = sum(core.count for core in values.cores if core.efficiency_class == fastest)
    physical = sum(core.count for core in values.cores)
    threads = values.logical or sum(core.threads * core.count for core in values.cores)
    return Cpu(
        model=_text_fact(values.name, "registry ProcessorNameString"),
        vendor=_text_fact(values.vendor, "registry VendorIdentifier"),
        physical_cores=_count_fact(physical),
        performance_cores=_performance_cores(fast, physical),
        logical_cores=_count_fact(threads),
        usable_cores=_usable_cores(values.affinity, threads),
        isa=_isa_fact(values.features),
        cache_bytes=_cache_fact(values.cache_bytes),
        vector_bits=_vector_fact(values),
    )


def windows_memory(values: WindowsMemory) -> Memory:
    """Return the memory's facts. Shared GPU memory is part of the total and never added to it."""
    return Memory(
        total=measured_fact(values.total, _STATUS, unit="B", note=_gap_note(values)),
        available=_available_fact(values),
        limit=_job_limit(values),
        swap_total=derived_fact(
            max(0, values.commit_limit - values.total), _STATUS, unit="B", note="commit limit - memory: the page file"
        ),
        unified=unknown_fact("", "No GPU was looked at."),
    )


def carve_out_bytes(values: WindowsMemory) -> int:
    """Return the bytes of installed memory the system never got: a GPU's carve-out and the firmware's own share."""
    return max(0, values.installed - values.total) if values.installed else 0


def _gap_note(values: WindowsMemory) -> str:
    gap = carve_out_bytes(values) / (1 << 30)
    return f"{gap:.1f} GiB of the installed memory are set aside for graphics and firmware." if gap >= 1 else ""


def _available_fact(values: WindowsMemory) -> Fact[int]:
    """Return what can still be allocated: Windows promises no memory beyond the commit limit, free or not."""
    if values.commit_available < values.available:
        note = "The page file is small or full: less can be promised than is free."
        return derived_fact(values.commit_available, _STATUS, unit="B", note=note)
    return measured_fact(values.available, _STATUS, unit="B")


def _job_limit(values: WindowsMemory) -> Fact[int]:
    if values.job_limit is None or values.job_limit >= values.total:
        return unknown_fact("QueryInformationJobObject", "No job object limits this process.", unit="B")
    return measured_fact(values.job_limit, "QueryInformationJobObject", unit="B")


def _performance_cores(fast: int, cores: int) -> Fact[int]:
    if not cores:
        return unknown_fact(_TOPOLOGY, "Windows lists no cores.")
    if fast == cores:
        return unknown_fact(f"{_TOPOLOGY} EfficiencyClass", "All cores look alike.")
    return measured_fact(fast, f"{_TOPOLOGY} EfficiencyClass")


def _usable_cores(affinity: int, threads: int) -> Fact[float]:
    if 0 < affinity < threads:
        note = f"This process may run on {affinity} of {threads} processors."
        return measured_fact(float(affinity), "GetProcessAffinityMask", note=note)
    return (
        measured_fact(float(threads), _TOPOLOGY) if threads else unknown_fact(_TOPOLOGY, "Windows lists no processors.")
    )


def _isa_fact(features: list[int]) -> Fact[list[str]]:
    known_extensions = _X86 | _ARM
    flags = [name for number, name in known_extensions.items() if number in features]
    if not flags:
        return unknown_fact("IsProcessorFeaturePresent", "Windows names no extension engines use.")
    if _AVX2 not in features:
        return measured_fact(flags, "IsProcessorFeaturePresent")
    # Windows has no number for these two, and no processor of Intel's or AMD's has AVX2 without them.
    return derived_fact([*flags, "fma", "f16c"], "IsProcessorFeaturePresent", note="AVX2 comes with FMA and F16C.")


def _vector_fact(values: WindowsCpu) -> Fact[int]:
    numbers = _FAMILY.search(values.identifier)
    family, model = (int(numbers[1]), int(numbers[2])) if numbers else (None, None)
    return vector_width(values.vendor, family, model, source="registry Identifier")


def _cache_fact(amount: int) -> Fact[int]:
    return (
        measured_fact(amount, _TOPOLOGY, unit="B")
        if amount
        else unknown_fact(_TOPOLOGY, "No cache is listed.", unit="B")
    )


def _text_fact(text: str, source: str) -> Fact[str]:
    return measured_fact(text, source) if text else unknown_fact(source, "Nothing is said there.")


def _count_fact(number: int) -> Fact[int]:
    return measured_fact(number, _TOPOLOGY) if number else unknown_fact(_TOPOLOGY, "Nothing is said there.")
