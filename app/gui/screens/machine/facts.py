"""Facts in words: what is known of the computer, from where, and how far to trust it."""

from typing import Any

import msgspec

from app.core import words
from app.core.machine import Confidence, Fact, Gpu, Machine
from app.core.translation import LazyText, tr

AnyFact = Fact[Any]
_CONFIDENCE = {
    Confidence.MEASURED: LazyText("measured just now"),
    Confidence.DERIVED: LazyText("derived from measurements"),
    Confidence.TABLE: LazyText("looked up by product name"),
    Confidence.UNKNOWN: LazyText("unknown"),
}

_ENVIRONMENTS = {
    "bare": LazyText("the computer itself"),
    "vm": LazyText("a virtual machine"),
    "container": LazyText("a container"),
    "wsl": LazyText("WSL"),
}


class FactRow(msgspec.Struct, frozen=True):
    """One fact, said: `tip` tells where it comes from and how far to trust it."""

    label: str
    text: str
    tip: str
    is_known: bool


def fact_rows(machine: Machine) -> list[FactRow]:
    """Return what is known of the system and the processor, in the order people ask."""
    system, cpu, memory = machine.os, machine.cpu, machine.memory
    return [
        _make_row(tr("System"), system.version),
        _make_row(tr("Kernel"), system.kernel),
        _make_row(tr("Architecture"), system.architecture),
        _make_row(tr("Runs on"), system.environment),
        _make_row(tr("Processor"), cpu.model),
        _make_row(tr("Cores"), cpu.physical_cores),
        _make_row(tr("Usable cores"), cpu.usable_cores),
        _make_row(tr("Vector extensions"), cpu.isa),
        *([] if cpu.vector_bits.value is None else [_make_row(tr("Vector units"), cpu.vector_bits)]),
        _make_row(tr("Last-level cache"), cpu.cache_bytes),
        _make_row(tr("Memory"), memory.total),
        _make_row(tr("Memory bandwidth"), memory.bandwidth_gb_s),
        _make_row(tr("According to its data sheet"), memory.theoretical_gb_s),
        _make_row(tr("Memory limit"), memory.limit),
        _make_row(tr("Swap"), memory.swap_total),
        *(row for gpu in machine.gpus for row in _gpu_rows(gpu)),
        *(_make_row(tr("Neural processor"), npu.name) for npu in machine.npus),
    ]


def fact_text(fact: AnyFact) -> str:
    """Return a fact's value in words; an unknown one says why."""
    value: Any = str(_ENVIRONMENTS.get(fact.value, fact.value)) if isinstance(fact.value, str) else fact.value
    if value is None:
        return fact.note or tr("Unknown")
    if isinstance(value, list):
        return " ".join(map(str, value)) or tr("none")
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    if fact.unit == "B":
        return words.format_bytes(value)
    if isinstance(value, float):
        value = f"{value:.4g}"
    return f"{value} {fact.unit}".strip()


def fact_source(fact: AnyFact) -> str:
    """Return where a fact comes from and how far to trust it."""
    confidence = _CONFIDENCE[fact.confidence].tr()
    origin = f"{fact.source}: {confidence}" if fact.source else f"{confidence[:1].upper()}{confidence[1:]}"
    return f"{origin}. {fact.note}" if fact.note and fact.value is not None else f"{origin}."


def _gpu_rows(gpu: Gpu) -> list[FactRow]:
    return [
        _make_row(tr("Graphics"), gpu.name),
        _make_row(tr("Graphics architecture"), gpu.architecture),
        _make_row(tr("Graphics driver"), gpu.driver),
        _make_row(tr("Compute level"), gpu.compute),
        _make_row(tr("Drives a display"), gpu.drives_display),
    ]


def _make_row(label: str, fact: AnyFact) -> FactRow:
    return FactRow(label, fact_text(fact), fact_source(fact), fact.value is not None)
