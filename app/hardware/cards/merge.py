"""One Gpu per card, whoever saw it: by PCI address, then UUID, then a name (or place in the processor) only one has.

Never by number: the numbers of drivers differ in order, and variables hide some from one of them. The first who saw a
card (its own driver) counts; later ones fill in what is unknown and add what their backend can address.
"""

from collections.abc import Sequence

import msgspec

from app.core.machine import Confidence, Fact, Gpu
from app.hardware.facts import derived_fact

_FILLED = (
    *("memory_total", "memory_free", "driver", "compute", "integrated", "architecture", "bandwidth_gb_s"),
    *("fp16_tflops", "cores", "drives_display", "nvlink", "pcie_width"),
)
_UUID_NOISE = str.maketrans("", "", "-")


def merge_gpus(probe_lists: Sequence[Sequence[Gpu]]) -> list[Gpu]:
    """Return every card once, cards with memory of their own first; `probe_lists` has one list for each probe, best first."""
    cards: list[Gpu] = []
    for batch in probe_lists:
        pairs = [(gpu, _find_card(gpu, cards, batch)) for gpu in batch if not _is_partitioned(gpu, cards)]
        updated = {old.id: _merge_cards(old, gpu) for gpu, old in pairs if old}
        cards = [updated.get(card.id, card) for card in cards] + [gpu for gpu, old in pairs if not old]
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
