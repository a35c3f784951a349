"""Short ways to state a fact with its source, and to read small system files without raising.

What one probe family found. Everything is optional: a family that crashed costs only its own facts.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from app.core.machine import Confidence, Cpu, Fact, Gpu, Memory, Npu, OperatingSystem

T = TypeVar("T")

_MOST_INT = (1 << 63) - 1
"""What travels as JSON between programs."""
_MOST_DIGITS = 15
_MOST_BYTES = 1 << 53
"""Eight pebibytes."""
_MOST_CPUS = 1 << 16
"""Eight times what Linux can be built for."""


def measured_fact(value: T, source: str, *, unit: str = "", note: str = "") -> Fact[T]:
    """Return a fact read from the system just now."""
    return Fact(value=value, unit=unit, source=source, confidence=Confidence.MEASURED, note=note)


def derived_fact(value: T, source: str, *, unit: str = "", note: str = "") -> Fact[T]:
    """Return a fact computed from measured ones; `note` states the rule."""
    return Fact(value=value, unit=unit, source=source, confidence=Confidence.DERIVED, note=note)


def unknown_fact(source: str, note: str, *, unit: str = "") -> Fact[T]:
    """Return the absence of a fact, with where it was looked for and why it is missing."""
    return Fact(value=None, unit=unit, source=source, note=note)


def read_text(path: Path) -> str | None:
    """Return a small file's text without surrounding white space, or None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return a file's whole number, or None: the file is missing, or says something else (such as "max")."""
    text = read_text(path)
    try:
        number = None if text is None else int(text, 0)
    except ValueError:
        return None
    return number if number is not None and -_MOST_INT <= number <= _MOST_INT else None


def parse_decimal(text: str) -> int | None:
    """Return the number that `text` is, if it is one in digits that fits what travels between programs."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def read_bytes(path: Path) -> int | None:
    """Return a file's number of bytes, or None: it is missing, negative, or more than any computer has."""
    amount = read_int(path)
    return amount if amount is not None and 0 <= amount < _MOST_BYTES else None


def is_there(path: Path) -> bool:
    """Tell whether something is there, as far as we may look: no is also the answer of a folder closed to us."""
    try:
        return path.exists()
    except OSError:
        return False


def read_pairs(path: Path, separator: str = ":") -> dict[str, str]:
    """Return the "key: value" lines of a file; the first of each key counts."""
    pairs: dict[str, str] = {}
    for line in (read_text(path) or "").splitlines():
        key, has_separator, value = line.partition(separator)
        if has_separator:
            pairs.setdefault(key.strip(), value.strip())
    return pairs


def cpu_list(text: str) -> set[int]:
    """Return the members of a kernel CPU list such as "0-3,8". Malformed parts count for nothing."""
    members: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        start, end = parse_decimal(first), parse_decimal(last or first)
        if start is not None and end is not None:
            members.update(range(start, min(end, start + _MOST_CPUS) + 1))
    return members


class ProbePart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`absent` says why there was nothing to ask; `raw` is the record of what was looked at."""

    os: OperatingSystem | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpus: list[Gpu] = []
    npus: list[Npu] = []
    limits: list[Fact[str]] = []
    bandwidth_gb_s: Fact[float] | None = None
    is_bandwidth_disturbed: bool = False
    absent: str = ""
    raw: dict[str, Any] = {}
