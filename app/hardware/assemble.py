"""From what the families found to one Machine: cards joined, shared memory made one pool, limits said once.

Pure: the same for a live machine, a doctor report and a fixture.
"""

import time
from collections.abc import Sequence

import msgspec

from app.core.errors import EnvironmentFault
from app.core.machine import Fact, Gpu, Machine, Memory, ProbeReport
from app.hardware import devices
from app.hardware.cards.merge import merge_gpus
from app.hardware.evidence import Evidence
from app.hardware.facts import derived_fact
from app.hardware.families import families_of
from app.hardware.linux.cpu import product_of
from app.hardware.part import ProbePart
from app.hardware.pools import with_pools

_CHIPS = {"unified-soc", "igpu", "sbc", "cpu-memory"}
"""Kinds of the device table whose bandwidth is system memory's."""


class ProbeOutcome(msgspec.Struct, frozen=True):
    """How a family ended, and what it found if it did."""

    report: ProbeReport
    part: ProbePart | None


def examine_evidence(evidence: Evidence) -> Machine:
    """Run every family of the evidence's system here, without children: for recorded machines."""
    outcomes = [
        ProbeOutcome(
            ProbeReport(name=name, outcome="absent" if part.absent else "ok", seconds=0.0, detail=part.absent), part
        )
        for name, family in families_of(evidence.system).items()
        for part in [family(evidence)]
    ]
    return assemble_machine(outcomes)


def assemble_machine(outcomes: Sequence[ProbeOutcome]) -> Machine:
    """Return one Machine. Raises EnvironmentFault when the base family found nothing."""
    parts = [outcome.part for outcome in outcomes if outcome.part]
    base = next((part for part in parts if part.os and part.cpu and part.memory), None)
    if base is None or base.os is None or base.cpu is None or base.memory is None:
        raise EnvironmentFault("This machine could not be examined.", detail=outcomes[0].report.detail)
    chip = devices.find_device(product_of(base.cpu.model.value or ""))
    gpus = [_describe_gpu(gpu, chip) for gpu in merge_gpus([part.gpus for part in parts])]
    memory = _with_theory(_with_unified(base.memory, gpus), chip, gpus)
    return with_pools(
        Machine(
            os=base.os,
            cpu=base.cpu,
            memory=memory,
            gpus=[_with_memory_bandwidth(gpu, memory) for gpu in gpus],
            probes=[outcome.report for outcome in outcomes],
            probed_at=time.time(),
            npus=[npu for part in parts for npu in part.npus],
            limits=_deduplicate_limits([limit for part in parts for limit in part.limits]),
        )
    )


def _describe_gpu(gpu: Gpu, chip: devices.DeviceRow | None) -> Gpu:
    """Fill in what the table of devices knows: by the GPU's name, else by the processor whose graphics it is."""
    from_table = devices.fill_from_table(gpu)
    is_inside = gpu.integrated.value and chip and chip.is_unified and chip.vendor == gpu.vendor
    return devices.fill_from_table(from_table, device=chip) if is_inside else from_table


def _with_theory(memory: Memory, chip: devices.DeviceRow | None, gpus: Sequence[Gpu]) -> Memory:
    """Fill in the bandwidth memory could have, from the table of chips, where the firmware does not tell."""
    if memory.theoretical_gb_s.value is not None:
        return memory
    shared = [gpu.bandwidth_gb_s for gpu in gpus if gpu.integrated.value and gpu.bandwidth_gb_s.value is not None]
    known = shared or ([devices.bandwidth_fact(chip)] if chip and chip.kind in _CHIPS else [])
    return msgspec.structs.replace(memory, theoretical_gb_s=known[0]) if known else memory


def _with_memory_bandwidth(gpu: Gpu, memory: Memory) -> Gpu:
    """Give graphics in the processor the bandwidth of the memory they read, where nothing else is known."""
    if not gpu.integrated.value or gpu.bandwidth_gb_s.value is not None:
        return gpu
    return msgspec.structs.replace(gpu, bandwidth_gb_s=memory.theoretical_gb_s)


def _deduplicate_limits(limits: Sequence[Fact[str]]) -> list[Fact[str]]:
    return list({limit.value: limit for limit in reversed(limits)}.values())[::-1]


def _with_unified(memory: Memory, gpus: Sequence[Gpu]) -> Memory:
    """Say whether the GPU shares memory; one in the processor beside a card that does not is not meant."""
    if not gpus:
        return memory
    own = [gpu for gpu in gpus if not gpu.integrated.value]
    first = gpus[0].name.value or gpus[0].id
    note = "A GPU has memory of its own." if own else f"{first} uses system memory."
    return msgspec.structs.replace(memory, unified=derived_fact(not own, "GPU probes", note=note))
