"""One Gpu per card, whoever saw it: by PCI address, then UUID, then a name (or place in the processor) only one has.

Never by number: the numbers of drivers differ in order, and variables hide some from one of them. The first who saw a
card (its own driver) counts; later ones fill in what is unknown and add what their backend can address.
"""

from collections.abc import Sequence

import msgspec

from app.core.machine import Confidence, Fact, Gpu
from app.hardware.facts import derived

_FILLED = (
    *("memory_total", "memory_free", "driver", "compute", "integrated", "architecture", "bandwidth_gb_s"),
    *("fp16_tflops", "cores", "drives_display", "nvlink", "pcie_width"),
)
_UUID_NOISE = str.maketrans("", "", "-")


def merged_gpus(seen: Sequence[Sequence[Gpu]]) -> list[Gpu]:
    """Return every card once, cards with memory of their own first; `seen` has one list for each probe, best first."""
    cards: list[Gpu] = []
    for found in seen:
        pairs = [(gpu, _same(gpu, cards, found)) for gpu in found if not _is_partitioned(gpu, cards)]
        replaced = {old.id: _joined(old, gpu) for gpu, old in pairs if old}
        cards = [replaced.get(card.id, card) for card in cards] + [gpu for gpu, old in pairs if not old]
    return sorted(_distinct(cards), key=lambda gpu: bool(gpu.integrated.value))


def _distinct(cards: Sequence[Gpu]) -> list[Gpu]:
    """Keep the first of each id, should one probe list a card twice."""
    return list({gpu.id: gpu for gpu in reversed(cards)}.values())[::-1]


def _is_partitioned(gpu: Gpu, cards: Sequence[Gpu]) -> bool:
    """Tell a card whose instances are listed instead of it."""
    return any(card.partition_of == gpu.id for card in cards)


def _same(gpu: Gpu, cards: Sequence[Gpu], found: Sequence[Gpu]) -> Gpu | None:
    """Return the card that `gpu` is, or None when it is new. `found` are those seen together with `gpu`."""
    by_id = next((card for card in cards if card.id == gpu.id), None)
    if by_id:
        return by_id
    if gpu.uuid and (by_uuid := next((card for card in cards if _uuid(card) == _uuid(gpu)), None)):
        return by_uuid
    if gpu.integrated.value and (inside := _same_processor(gpu, cards, found)):
        return inside
    # two addresses that differ are two cards, whatever they are called
    candidates = [
        card for card in cards if _name(card) == _name(gpu) and not (_has_address(card) and _has_address(gpu))
    ]
    return candidates[0] if len(candidates) == 1 and _is_only(gpu, found) else None


def _same_processor(gpu: Gpu, cards: Sequence[Gpu], found: Sequence[Gpu]) -> Gpu | None:
    """Return the graphics of the same processor: a vendor has one there, whatever it is called."""
    inside = [card for card in cards if card.vendor == gpu.vendor and card.integrated.value]
    beside = [other for other in found if other.vendor == gpu.vendor and other.integrated.value]
    is_one = len(inside) == len(beside) == 1 and not (_has_address(inside[0]) and _has_address(gpu))
    return inside[0] if is_one else None


def _is_only(gpu: Gpu, found: Sequence[Gpu]) -> bool:
    return bool(_name(gpu)) and sum(_name(other) == _name(gpu) for other in found) == 1


def _has_address(gpu: Gpu) -> bool:
    return gpu.id.count(":") == 2  # noqa: PLR2004 -- domain:bus:device.function


def _name(gpu: Gpu) -> str:
    return (gpu.name.value or "").lower()


def _uuid(gpu: Gpu) -> str:
    """Return the hexadecimal digits: NVML writes "GPU-8932f937-...", Vulkan only digits."""
    return gpu.uuid.lower().removeprefix("gpu-").translate(_UUID_NOISE)


def _joined(card: Gpu, other: Gpu) -> Gpu:
    facts = {name: getattr(other, name) for name in _FILLED if getattr(card, name).value is None}
    addressable = {**card.addressable, **{backend: _clamped(fact, card) for backend, fact in other.addressable.items()}}
    return msgspec.structs.replace(
        card, **facts, name=_better_name(card.name, other.name), uuid=card.uuid or other.uuid, addressable=addressable
    )


def _better_name(name: Fact[str], other: Fact[str]) -> Fact[str]:
    is_stand_in = name.value is None or name.confidence is Confidence.DERIVED
    return other if is_stand_in and other.value else name


def _clamped(fact: Fact[int], card: Gpu) -> Fact[int]:
    """Keep a backend's figure within what the card's own driver says: Vulkan was seen to show 19.5 of 12 GB."""
    physical = card.memory_total.value
    if fact.value is None or physical is None or fact.value <= physical:
        return fact
    return derived(physical, fact.source, unit="B", note=f"{fact.source} said more than there is.")
