"""A Mac's processor, memory and system, from `sysctl` and `vm_stat`.

Both are read as text, once, so that a recorded Mac is a few readable lines. Unknown names are left out by `sysctl`
itself: Macs with Intel processors know other ones.
"""

import re

import msgspec

from app.core.machine import Confidence, Cpu, Fact, Memory, OperatingSystem
from app.hardware import devices
from app.hardware.evidence import Evidence
from app.hardware.facts import derived_fact, measured_fact, unknown_fact

_SYSCTL = (
    *("/usr/sbin/sysctl", "hw", "machdep.cpu", "kern.osproductversion", "kern.osrelease", "kern.hv_vmm_present"),
    *("sysctl.proc_translated", "iogpu.wired_limit_mb", "vm.swapusage"),
)
_VM_STAT = ("/usr/bin/vm_stat",)
_MIB = 1 << 20
_ARM = {"FEAT_DotProd": "asimddp", "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16", "FEAT_SME": "sme"}
_INTEL = {
    "SSE4.2": "sse4_2",
    "AVX1.0": "avx",
    "FMA": "fma",
    "F16C": "f16c",
    "AVX2": "avx2",
    "AVX512F": "avx512f",
    "AVX512BW": "avx512bw",
    "AVX512VNNI": "avx512_vnni",
}
"""As machdep.cpu.features and machdep.cpu.leaf7_features spell them -> the flag's usual name."""
_REUSABLE = ("Pages free", "Pages speculative", "Pages inactive", "Pages purgeable")
"""What a program that allocates gets. `vm_stat` takes the speculative pages out of the free ones; they are as free."""
_PAGE_SIZE = re.compile(r"page size of (\d+) bytes")
_SWAP = re.compile(r"total = ([\d.]+)M")


def read_sysctl(evidence: Evidence) -> dict[str, str]:
    """Return `sysctl`'s names and values."""
    pairs = (line.partition(":") for line in evidence.run_command(_SYSCTL).splitlines())
    return {name.strip(): value.strip() for name, has_colon, value in pairs if has_colon}


def ask_mac_cpu(evidence: Evidence) -> Cpu:
    """Ask for the processor and return its facts."""
    return mac_cpu(read_sysctl(evidence))


def ask_mac_memory(evidence: Evidence) -> Memory:
    """Ask for the memory and return its facts; its bandwidth is the chip's."""
    return mac_memory(read_sysctl(evidence), read_vm_stat(evidence))


def is_translated(values: dict[str, str]) -> bool:
    """Tell whether this process is an Intel program under Rosetta."""
    return values.get("sysctl.proc_translated") == "1"


def mac_system(values: dict[str, str]) -> OperatingSystem:
    """Return the operating system's facts."""
    is_arm = values.get("hw.optional.arm64") == "1"
    is_virtual = values.get("kern.hv_vmm_present") == "1"
    return OperatingSystem(
        name=measured_fact("macOS", "sys.platform"),
        version=_text_fact(values, "kern.osproductversion"),
        kernel=_text_fact(values, "kern.osrelease"),
        architecture=measured_fact("arm64" if is_arm else "x86_64", "sysctl hw.optional.arm64"),
        environment=measured_fact("vm" if is_virtual else "bare", "sysctl kern.hv_vmm_present"),
    )


def mac_cpu(values: dict[str, str]) -> Cpu:
    """Return the processor's facts. Performance cores are level 0; Macs with Intel processors have one level."""
    logical = parse_integer(values, "hw.logicalcpu")
    model = _text_fact(values, "machdep.cpu.brand_string")
    is_apple = (model.value or "").startswith("Apple")
    return Cpu(
        model=model,
        vendor=measured_fact("Apple", model.source) if is_apple else _text_fact(values, "machdep.cpu.vendor"),
        physical_cores=_number_fact(values, "hw.physicalcpu"),
        performance_cores=_performance_cores(values),
        logical_cores=_number_fact(values, "hw.logicalcpu"),
        usable_cores=measured_fact(float(logical), "sysctl hw.logicalcpu")
        if logical
        else unknown_fact("sysctl", "Not said."),
        isa=_isa_fact(values),
        cache_bytes=_cache_fact(values),
    )


def mac_memory(values: dict[str, str], vm_stat: str) -> Memory:
    """Return the memory's facts. Whether the GPU shares it is known to whoever looked at the GPU."""
    swap = _SWAP.search(values.get("vm.swapusage", ""))
    return Memory(
        total=_number_fact(values, "hw.memsize", unit="B"),
        available=available_memory(vm_stat),
        limit=unknown_fact("", "macOS has no control groups.", unit="B"),
        swap_total=measured_fact(int(float(swap[1]) * _MIB), "sysctl vm.swapusage", unit="B")
        if swap
        else unknown_fact("sysctl vm.swapusage", "Nothing is said there.", unit="B"),
        unified=unknown_fact("", "No GPU was looked at."),
    )


def with_chip_bandwidth(memory: Memory, model: Fact[str], gpu_cores: int | None) -> Memory:
    """Return the memory with what the chip's table says of its bandwidth: macOS does not tell it.

    Chips of one name come with two bandwidths, told apart by their GPU cores (M3 Max, M4 Max).
    """
    device = devices.find_device(model.value or "", cores=gpu_cores)
    if device is None:
        note = "The chip is not in the device table."
        return msgspec.structs.replace(memory, theoretical_gb_s=unknown_fact("device table", note, unit="GB/s"))
    fact = Fact(
        value=device.bandwidth_gb_s,
        unit="GB/s",
        source=f"device table: {device.name}",
        confidence=Confidence.TABLE,
    )
    return msgspec.structs.replace(memory, theoretical_gb_s=fact)


def available_memory(vm_stat: str) -> Fact[int]:
    """Return what programs can still have: pages of 16 KiB on Apple silicon, 4 KiB on Intel."""
    size = _PAGE_SIZE.search(vm_stat)
    counts = dict(re.findall(r"^(Pages [a-z ]+):\s+(\d+)\.", vm_stat, re.MULTILINE))
    if not size or "Pages free" not in counts:
        return unknown_fact("vm_stat", "Its output cannot be read.", unit="B")
    pages = sum(int(counts.get(name, 0)) for name in _REUSABLE)
    return derived_fact(pages * int(size[1]), "vm_stat", unit="B", note="free + speculative + inactive + purgeable")


def read_vm_stat(evidence: Evidence) -> str:
    """Return `vm_stat`'s output."""
    return evidence.run_command(_VM_STAT)


def parse_integer(values: dict[str, str], name: str) -> int | None:
    """Return a whole number, or None."""
    text = values.get(name, "")
    return int(text) if text.isdecimal() else None


def _isa_fact(values: dict[str, str]) -> Fact[list[str]]:
    if values.get("hw.optional.arm64") == "1":
        flags = [flag for name, flag in _ARM.items() if values.get(f"hw.optional.arm.{name}") == "1"]
        return measured_fact(["asimd", *flags], "sysctl hw.optional.arm")
    features = f"{values.get('machdep.cpu.features', '')} {values.get('machdep.cpu.leaf7_features', '')}".split()
    if not features:
        return unknown_fact("sysctl machdep.cpu", "No features are listed.")
    return measured_fact([flag for name, flag in _INTEL.items() if name in features], "sysctl machdep.cpu")


def _performance_cores(values: dict[str, str]) -> Fact[int]:
    if parse_integer(values, "hw.nperflevels") == 1 or "hw.perflevel0.physicalcpu" not in values:
        return unknown_fact("sysctl hw.nperflevels", "All cores look alike.")
    return _number_fact(values, "hw.perflevel0.physicalcpu")


def _cache_fact(values: dict[str, str]) -> Fact[int]:
    """Return the third level's bytes on Intel; on Apple silicon the second level of the performance cores."""
    for name in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"):
        if parse_integer(values, name):
            return _number_fact(values, name, unit="B")
    return unknown_fact("sysctl hw", "No cache is listed.", unit="B")


def _text_fact(values: dict[str, str], name: str) -> Fact[str]:
    text = values.get(name, "")
    return measured_fact(text, f"sysctl {name}") if text else unknown_fact(f"sysctl {name}", "Nothing is said there.")


def _number_fact(values: dict[str, str], name: str, *, unit: str = "") -> Fact[int]:
    number = parse_integer(values, name)
    if number is None:
        return unknown_fact(f"sysctl {name}", "Nothing is said there.", unit=unit)
    return measured_fact(number, f"sysctl {name}", unit=unit)
