"""What people and other programs write in a description of a machine, in the one form the rest reads.

"64 GB" is a figure, "RTX 4090" a GPU, "2x RTX 3090" two of them, null the same as nothing. What cannot be understood is
left as it is, for the types to refuse.
"""

import re
from collections.abc import Mapping
from typing import Any

_ALIASES = {"gpu": "gpus", "ram": "ram_gb", "memory_gb": "ram_gb", "system": "os", "isa_extensions": "isa"}
_GPU_ALIASES = {"vram": "vram_gb", "memory_gb": "vram_gb", "cc": "compute_capability", "model": "name"}
_FIGURES = frozenset({"ram_gb", "free_ram_gb", "ram_bandwidth_gb_s", "cores"})
_GPU_FIGURES = frozenset({"vram_gb", "free_vram_gb", "count", "bandwidth_gb_s", "fp16_tflops", "cores"})
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}
_PER_GIB = {"t": 1024.0, "m": 1 / 1024}
_FIGURE = re.compile(r"(\d+(?:\.\d+)?) *(?:([tgm])i?b|gb/s|tflops|cores)?", re.IGNORECASE)
_COUNT_FIRST = re.compile(r"(\d{1,4}) ?[x\xd7*] ?(?=[a-z])(.+)", re.IGNORECASE)
_COUNT_LAST = re.compile(r"(.+?) ?\(?\b[x\xd7*] ?(\d{1,4})\)?", re.IGNORECASE)
_CAPABILITY = re.compile(r"(?:sm|compute)_?(\d{1,2})(\d)[af]?", re.IGNORECASE)


def tidy_description(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with its names, figures and lists of GPUs in the documented form."""
    fields = _parse_figures(_canonical_names(description, _ALIASES), _FIGURES, ("unified",))
    if isinstance(fields.get("cpu"), Mapping):
        fields["cpu"] = _parse_figures(_canonical_names(fields["cpu"], {"name": "model"}), frozenset({"cores"}), ())
    if "gpus" in fields:
        cards = fields["gpus"]
        fields["gpus"] = [
            _parse_card(card) for card in (cards if isinstance(cards, list) else [cards]) if card is not None
        ]
    return fields


def _canonical_names(description: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields by their documented names, without those that say nothing; a documented name counts first."""
    lowered = {re.sub(r"[ -]", "_", name.lower()): value for name, value in description.items() if value is not None}
    return {aliases[name]: value for name, value in lowered.items() if name in aliases} | {
        name: value for name, value in lowered.items() if name not in aliases
    }


def _parse_figures(fields: dict[str, Any], figures: frozenset[str], choices: tuple[str, ...]) -> dict[str, Any]:
    return fields | {
        **{name: _parse_figure(fields[name]) for name in figures & set(fields)},
        **{name: _parse_yes_or_no(fields[name]) for name in choices if name in fields},
    }


def _parse_figure(value: object) -> object:
    """Return the number of "24", "24GB" (GiB) or "1 TB"; whole numbers whole."""
    known = _FIGURE.fullmatch(value.strip()) if isinstance(value, str) else None
    if known is None:
        return value
    number = float(known[1]) * _PER_GIB.get((known[2] or "").lower(), 1.0)
    return int(number) if number.is_integer() else number


def _parse_yes_or_no(value: object) -> object:
    return _YES_OR_NO.get(value.strip().lower(), value) if isinstance(value, str) else value


def _parse_card(description: object) -> object:
    if isinstance(description, str):
        description = {"name": description}
    if not isinstance(description, Mapping):
        return description
    card = _parse_figures(_canonical_names(description, _GPU_ALIASES), _GPU_FIGURES, ("nvlink", "integrated"))
    if isinstance(card.get("compute_capability"), str):
        card["compute_capability"] = _CAPABILITY.sub(r"\1.\2", card["compute_capability"].strip())
    return _split_count(card)


def _split_count(card: dict[str, Any]) -> dict[str, Any]:
    """Return the card with the count its name tells ("2x RTX 3090"); one that is told beside it counts more."""
    name = card.get("name")
    first = _COUNT_FIRST.fullmatch(name.strip()) if isinstance(name, str) else None
    last = _COUNT_LAST.fullmatch(name.strip()) if isinstance(name, str) and first is None else None
    if first:
        return {"count": int(first[1]), **card, "name": first[2]}
    return {"count": int(last[2]), **card, "name": last[1]} if last else card
