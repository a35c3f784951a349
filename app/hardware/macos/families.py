"""The probe families of macOS: what each asks, and which pure function judges the answers.

Replayed from recorded answers; this project's tests do not run on a Mac. The Neural Engine is no NPU here: no engine
can be pointed at it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.core.machine import Fact
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import ProbePart, measured_fact
from app.hardware.macos.gpus import (
    PROFILER,
    MacMemory,
    MetalDevice,
    cards_of,
    gpu_cores,
    has_only_virtual,
    mac_gpus,
    read_metal,
)
from app.hardware.macos.sysctl import (
    is_translated,
    mac_cpu,
    mac_memory,
    mac_system,
    parse_integer,
    read_sysctl,
    read_vm_stat,
    with_chip_bandwidth,
)

_MIB = 1 << 20


def _base_family(evidence: Evidence) -> ProbePart:
    values, cards = read_sysctl(evidence), cards_of(evidence.run_command(PROFILER))
    cpu = mac_cpu(values)
    memory = mac_memory(values, read_vm_stat(evidence))
    return ProbePart(
        os=mac_system(values),
        cpu=cpu,
        memory=with_chip_bandwidth(memory, cpu.model, gpu_cores(cards)),
        limits=list(_limit_facts(values, cards)),
    )


def _apple_family(evidence: Evidence) -> ProbePart:
    values, cards = read_sysctl(evidence), cards_of(evidence.run_command(PROFILER))
    if not cards:
        return ProbePart(absent="system_profiler lists no graphics.")
    available = mac_memory(values, read_vm_stat(evidence)).available.value
    wired_limit = (parse_integer(values, "iogpu.wired_limit_mb") or 0) * _MIB
    memory = MacMemory(total=parse_integer(values, "hw.memsize"), available=available, wired_limit=wired_limit)
    return ProbePart(gpus=mac_gpus(cards, _ask_metal(evidence), memory))


def _ask_metal(evidence: Evidence) -> list[MetalDevice]:
    try:
        return evidence.read_table("metal", list[MetalDevice], read_metal)
    except NoAnswer:
        return []


def _limit_facts(values: dict[str, str], cards: Sequence[dict[str, Any]]) -> Iterator[Fact[str]]:
    if is_translated(values):
        yield measured_fact(
            "Roundhouse runs as an Intel program under Rosetta: install the build for Apple silicon. MLX cannot run "
            "translated, and llama.cpp loses the GPU.",
            "sysctl sysctl.proc_translated",
        )
    if wired_limit_mb := parse_integer(values, "iogpu.wired_limit_mb"):
        yield measured_fact(
            f"The GPU may use {wired_limit_mb / 1024:.1f} GiB: somebody set this.", "sysctl iogpu.wired_limit_mb"
        )
    if has_only_virtual(cards):
        yield measured_fact("This virtual machine's graphics cannot run models: the processor does.", "system_profiler")


FAMILIES: Mapping[str, Callable[[Evidence], ProbePart]] = {"base": _base_family, "apple": _apple_family}
