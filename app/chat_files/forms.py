"""What the exports of several programs have in common: values that may be missing or of another kind, and times."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime

JsonObject = Mapping[str, object]
_MILLISECONDS = 1e11
"""Seconds since 1970 reach this in the year 5138, milliseconds had in 1973."""


def text_of(value: object) -> str:
    """Return a text; nothing for another kind of value."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> JsonObject:
    """Return an object; an empty one for another kind of value."""
    return value if isinstance(value, Mapping) else {}


def objects_of(value: object) -> list[JsonObject]:
    """Return the objects of a list; none for another kind of value."""
    return [item for item in list_of(value) if isinstance(item, Mapping)]


def list_of(value: object) -> Sequence[object]:
    """Return a list; an empty one for another kind of value."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def time_of(value: object) -> float | None:
    """Return a time in Unix seconds from seconds, milliseconds or ISO 8601; None for what is no time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        seconds = value / 1000 if value > _MILLISECONDS else float(value)
        return seconds if 0 < seconds < _MILLISECONDS else None
    try:
        return datetime.fromisoformat(text_of(value)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def decode_base64(value: object) -> bytes:
    """Return what a text says in base64, with or without the beginning of a data URL; nothing for what is none."""
    text = text_of(value)
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
