"""The probe families of macOS: what each asks, and which pure function judges the answers.

Replayed from recorded answers; this project's tests do not run on a Mac. The Neural Engine is no NPU here: no engine
can be pointed at it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.core.machine import Fact
from app.hardware.evidence import Evidence, Unanswered
from app.hardware.facts import measured
from app.hardware.macos.gpus import PROFILER, MacMemory, cards_of, gpu_cores, has_only_virtual, mac_gpus
from app.hardware.macos.metal import MetalDevice, read_metal
from app.hardware.macos.sysctl import (
    integer,
    is_translated,
    mac_cpu,
    mac_memory,
    mac_system,
    read_sysctl,
    read_vm_stat,
    with_chip_bandwidth,
)
from app.hardware.part import Part

_MIB = 1 << 20


def _base(evidence: Evidence) -> Part:
    values, cards = read_sysctl(evidence), cards_of(evidence.run(PROFILER))
    cpu = mac_cpu(values)
    memory = mac_memory(values, read_vm_stat(evidence))
    return Part(
        os=mac_system(values),
        cpu=cpu,
        memory=with_chip_bandwidth(memory, cpu.model, gpu_cores(cards)),
        limits=list(_limits(values, cards)),
    )


def _apple(evidence: Evidence) -> Part:
    values, cards = read_sysctl(evidence), cards_of(evidence.run(PROFILER))
    if not cards:
        return Part(absent="system_profiler lists no graphics.")
    available = mac_memory(values, read_vm_stat(evidence)).available.value
    wired = (integer(values, "iogpu.wired_limit_mb") or 0) * _MIB
    memory = MacMemory(total=integer(values, "hw.memsize"), available=available, wired_limit=wired)
    return Part(gpus=mac_gpus(cards, _metal(evidence), memory))


def _metal(evidence: Evidence) -> list[MetalDevice]:
    try:
        return evidence.ask("metal", list[MetalDevice], read_metal)
    except Unanswered:
        return []


def _limits(values: dict[str, str], cards: Sequence[dict[str, Any]]) -> Iterator[Fact[str]]:
    if is_translated(values):
        yield measured(
            "Roundhouse runs as an Intel program under Rosetta: install the build for Apple silicon. MLX cannot run "
            "translated, and llama.cpp loses the GPU.",
            "sysctl sysctl.proc_translated",
        )
    if wired := integer(values, "iogpu.wired_limit_mb"):
        yield measured(f"The GPU may use {wired / 1024:.1f} GiB: somebody set this.", "sysctl iogpu.wired_limit_mb")
    if has_only_virtual(cards):
        yield measured("This virtual machine's graphics cannot run models: the processor does.", "system_profiler")


FAMILIES: Mapping[str, Callable[[Evidence], Part]] = {"base": _base, "apple": _apple}
