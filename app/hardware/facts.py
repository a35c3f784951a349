"""Short ways to state a fact with its source, and to read small system files without raising."""

from pathlib import Path
from typing import TypeVar

from app.core.machine import Confidence, Fact

T = TypeVar("T")


def measured(value: T, source: str, *, unit: str = "", note: str = "") -> Fact[T]:
    """Return a fact read from the system just now."""
    return Fact(value=value, unit=unit, source=source, confidence=Confidence.MEASURED, note=note)


def derived(value: T, source: str, *, unit: str = "", note: str = "") -> Fact[T]:
    """Return a fact computed from measured ones; `note` states the rule."""
    return Fact(value=value, unit=unit, source=source, confidence=Confidence.DERIVED, note=note)


def unknown(source: str, note: str, *, unit: str = "") -> Fact[T]:
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
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def read_pairs(path: Path, separator: str = ":") -> dict[str, str]:
    """Return the "key: value" lines of a file; the first of each key counts."""
    pairs: dict[str, str] = {}
    for line in (read_text(path) or "").splitlines():
        key, found, value = line.partition(separator)
        if found:
            pairs.setdefault(key.strip(), value.strip())
    return pairs


def cpu_list(text: str) -> set[int]:
    """Return the members of a kernel CPU list such as "0-3,8". Malformed parts count for nothing."""
    members: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            members.update(range(int(first), int(last or first) + 1))
    return members
