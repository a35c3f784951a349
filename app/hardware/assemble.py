"""From what the families found to one Machine: cards joined, shared memory made one pool, limits said once.

Pure: the same for a live machine, a doctor report and a fixture.

One Gpu per card, whoever saw it: by PCI address, then UUID, then a name (or place in the processor) only one has.

Never by number: the numbers of drivers differ in order, and variables hide some from one of them. The first who saw a
card (its own driver) counts; later ones fill in what is unknown and add what their backend can address.
"""

import time
from collections.abc import Sequence

import msgspec

from app.core.errors import EnvironmentFault
from app.core.machine import Confidence, Fact, Gpu, Machine, Memory, ProbeReport
from app.hardware import devices
from app.hardware.evidence import Evidence
from app.hardware.facts import ProbePart, derived_fact
from app.hardware.families import families_of
from app.hardware.linux.cpu import product_of
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
    shared_bandwidths = [
        gpu.bandwidth_gb_s for gpu in gpus if gpu.integrated.value and gpu.bandwidth_gb_s.value is not None
    ]
    known_bandwidths = shared_bandwidths or ([devices.bandwidth_fact(chip)] if chip and chip.kind in _CHIPS else [])
    return msgspec.structs.replace(memory, theoretical_gb_s=known_bandwidths[0]) if known_bandwidths else memory


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


_FILLED = (
    *("memory_total", "memory_free", "driver", "compute", "integrated", "architecture", "bandwidth_gb_s"),
    *("fp16_tflops", "cores", "drives_display", "nvlink", "pcie_width"),
)
_UUID_NOISE = str.maketrans("", "", "-")


def merge_gpus(probe_lists: Sequence[Sequence[Gpu]]) -> list[Gpu]:
    """Return every card once, those with memory of their own first; `probe_lists` has a list per probe, best first."""
    cards: list[Gpu] = []
    for batch in probe_lists:
        pairs = [(gpu, _find_card(gpu, cards, batch)) for gpu in batch if not _is_partitioned(gpu, cards)]
        updated_gpus = {old.id: _merge_cards(old, gpu) for gpu, old in pairs if old}
        cards = [updated_gpus.get(card.id, card) for card in cards] + [gpu for gpu, old in pairs if not old]
    return sorted(_drop_duplicates(cards), key=lambda gpu: bool(gpu.integrated.value))


def _drop_duplicates(cards: Sequence[Gpu]) -> list[Gpu]:
    """Keep the first of each id, should one probe list a card twice."""
    return list({gpu.id: gpu for gpu in reversed(cards)}.values())[::-1]


def _is_partitioned(gpu: Gpu, cards: Sequence[Gpu]) -> bool:
    """Tell a card whose instances are listed instead of it."""
    return any(card.partition_of == gpu.id for card in cards)


def _find_card(gpu: Gpu, cards: Sequence[Gpu], batch: Sequence[Gpu]) -> Gpu | None:
    """Return the card that `gpu` is, or None when it is new. `batch` are those seen together with `gpu`."""
    by_id = next((card for card in cards if card.id == gpu.id), None)
    if by_id:
        return by_id
    if gpu.uuid and (by_uuid := next((card for card in cards if _uuid_digits(card) == _uuid_digits(gpu)), None)):
        return by_uuid
    if gpu.integrated.value and (inside := _same_processor(gpu, cards, batch)):
        return inside
    # two addresses that differ are two cards, whatever they are called
    candidates = [
        card
        for card in cards
        if _lower_name(card) == _lower_name(gpu) and not (_has_address(card) and _has_address(gpu))
    ]
    return candidates[0] if len(candidates) == 1 and _is_only(gpu, batch) else None


def _same_processor(gpu: Gpu, cards: Sequence[Gpu], batch: Sequence[Gpu]) -> Gpu | None:
    """Return the graphics of the same processor: a vendor has one there, whatever it is called."""
    inside = [card for card in cards if card.vendor == gpu.vendor and card.integrated.value]
    beside = [other for other in batch if other.vendor == gpu.vendor and other.integrated.value]
    is_one = len(inside) == len(beside) == 1 and not (_has_address(inside[0]) and _has_address(gpu))
    return inside[0] if is_one else None


def _is_only(gpu: Gpu, batch: Sequence[Gpu]) -> bool:
    return bool(_lower_name(gpu)) and sum(_lower_name(other) == _lower_name(gpu) for other in batch) == 1


def _has_address(gpu: Gpu) -> bool:
    return gpu.id.count(":") == 2  # noqa: PLR2004 -- domain:bus:device.function


def _lower_name(gpu: Gpu) -> str:
    return (gpu.name.value or "").lower()


def _uuid_digits(gpu: Gpu) -> str:
    """Return the hexadecimal digits: NVML writes "GPU-8932f937-...", Vulkan only digits."""
    return gpu.uuid.lower().removeprefix("gpu-").translate(_UUID_NOISE)


def _merge_cards(card: Gpu, other: Gpu) -> Gpu:
    facts = {name: getattr(other, name) for name in _FILLED if getattr(card, name).value is None}
    addressable = {
        **card.addressable,
        **{backend: _clamp_fact(fact, card) for backend, fact in other.addressable.items()},
    }
    return msgspec.structs.replace(
        card, **facts, name=_better_name(card.name, other.name), uuid=card.uuid or other.uuid, addressable=addressable
    )


def _better_name(name: Fact[str], other: Fact[str]) -> Fact[str]:
    is_stand_in = name.value is None or name.confidence is Confidence.DERIVED
    return other if is_stand_in and other.value else name


def _clamp_fact(fact: Fact[int], card: Gpu) -> Fact[int]:
    """Keep a backend's figure within what the card's own driver says: Vulkan was seen to show 19.5 of 12 GB."""
    physical = card.memory_total.value
    if fact.value is None or physical is None or fact.value <= physical:
        return fact
    return derived_fact(physical, fact.source, unit="B", note=f"{fact.source} said more than there is.")
