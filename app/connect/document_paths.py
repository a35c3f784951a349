"""What is put where in a settings file, apart from the file's syntax: a path of keys, and a value.

`place_value` does it to plain data. It is what every text editor here is checked against before a file is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from app.core.errors import Conflict

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"


@dataclass(frozen=True, slots=True)
class ListEntry:
    """The entry of a list whose `key` has `value`; one that is not there is appended."""

    key: str
    value: str


Step: TypeAlias = "str | ListEntry"


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """Put `value` at `path`. With `is_default`, only if nothing is there."""

    path: tuple[Step, ...]
    value: Plain
    is_default: bool = False


class UnreadableSettings(Conflict):
    """A file that is left alone, and why."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The file was left unchanged: {why}",
            hint="Fix it in the tool itself, then try again.",
            code="tool_file_unreadable",
        )


def value_at(data: Plain, path: Sequence[Step]) -> Plain:
    """Return what is at `path`, or None."""
    for step in path:
        if isinstance(step, ListEntry):
            entries = data if isinstance(data, list) else []
            data = next((entry for entry in entries if is_item(entry, step)), None)
        else:
            data = data.get(step) if isinstance(data, dict) else None
    return data


def is_item(entry: Plain, item: ListEntry) -> bool:
    """Return whether a list's entry is the one meant."""
    return isinstance(entry, dict) and entry.get(item.key) == item.value


def wrap_in_path(path: Sequence[Step], value: Plain) -> Plain:
    """Return `value` inside the containers that `path` names."""
    for step in reversed(path):
        value = [value] if isinstance(step, ListEntry) else {step: value}
    return value


def place_value(data: Plain, path: Sequence[Step], value: Plain) -> Plain:
    """Return a copy of `data` with `value` at `path`. Raises UnreadableSettings where something else is in the way."""
    if not path:
        return value
    if data is None:
        return wrap_in_path(path, value)
    step, rest = path[0], path[1:]
    if isinstance(step, ListEntry):
        entries = expect_list(data)
        at = next((at for at, entry in enumerate(entries) if is_item(entry, step)), len(entries))
        old = entries[at] if at < len(entries) else None
        return [*entries[:at], place_value(old, rest, value), *entries[at + 1 :]]
    members = expect_members(data, step)
    return {**members, step: place_value(members.get(step), rest, value)}


def expect_list(data: Plain) -> list[Plain]:
    """Return a list as one. Raises UnreadableSettings."""
    if not isinstance(data, list):
        raise UnreadableSettings("there is something else where a list was expected.")
    return data


def expect_members(data: Plain, key: str) -> Mapping[str, Plain]:
    """Return a mapping as one. Raises UnreadableSettings."""
    if not isinstance(data, dict):
        raise UnreadableSettings(f"the place for `{key}` does not hold named values.")
    return data


def collect_strings(data: Plain) -> list[str]:
    """Return every text in `data`, keys left out."""
    if isinstance(data, str):
        return [data]
    if isinstance(data, dict):
        return [text for value in data.values() for text in collect_strings(value)]
    return [text for value in data for text in collect_strings(value)] if isinstance(data, list) else []
