"""A settings file's text, edited: each format's editor, and the check that it did what was meant and nothing else."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.connect import dotenv_text, json_text
from app.connect.document_paths import (
    DocumentChange,
    ListEntry,
    Plain,
    Step,
    UnreadableSettings,
    is_item,
    place_value,
    value_at,
)


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """How a kind of file is read and how one value is put into its text."""

    name: str
    parsed: Callable[[str], Plain]
    put: Callable[[str, Sequence[Step], Plain], str]


def edit_document(form: DocumentFormat, text: str, changes: Iterable[DocumentChange]) -> str:
    """Return `text` with the changes made. The same text comes back when all of them are there already.

    Raises UnreadableSettings for a file that cannot be read, or whose result would not be exactly what was meant.
    """
    for change in changes:
        before = form.parsed(text)
        present = value_at(before, change.path)
        if is_same_value(present, change.value) or (change.is_default and present is not None):
            continue
        expected_document = place_value(before, change.path, change.value)
        text = form.put(text, change.path, change.value)
        if not is_same_value(form.parsed(text), expected_document):
            raise UnreadableSettings("it is written in a way that cannot be edited without changing other parts.")
    return text


def is_same_value(first: object, second: object) -> bool:
    """Return whether two plain values are alike in type too: 1 is not true, and a number that is none is itself."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(is_same_value(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same_value, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return first == second or (math.isnan(first) and math.isnan(second))
    return type(first) is type(second) and first == second


def _toml_value(text: str) -> Plain:
    return cast("Plain", _parse_toml(text).unwrap())


def _parse_toml(text: str) -> tomlkit.TOMLDocument:
    try:
        document = tomlkit.parse(text.lstrip("\ufeff"))
    except (TOMLKitError, ValueError, RecursionError) as error:
        line = getattr(error, "line", None)
        raise UnreadableSettings(f"line {line} is not TOML." if line else "it is not TOML.") from None
    return document


_TomlPlace: TypeAlias = tomlkit.items.AbstractTable | tomlkit.TOMLDocument


def _put_toml(text: str, path: Sequence[Step], value: Plain) -> str:
    if isinstance(path[-1], ListEntry) and text and not text.endswith("\n"):
        text += "\n"  # tomlkit would append a table to the last line
    document = _parse_toml(text)
    place: _TomlPlace = document
    *outer, last = path[:-1] if isinstance(path[-1], ListEntry) else path
    for depth, key in enumerate(map(str, outer)):
        if key not in place:
            place[key] = tomlkit.table(is_super_table=depth < len(outer) - 1 or isinstance(value, dict))
        inner = place[key]
        if not isinstance(inner, tomlkit.items.AbstractTable):
            raise UnreadableSettings(f"`{key}` is not a table.")
        place = inner
    if isinstance(path[-1], ListEntry):
        _put_toml_entry(place, str(last), path[-1], value)
    else:
        place[str(last)] = value
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    written_text = mark + tomlkit.dumps(document)
    only_crlf = text.count("\r\n") == text.count("\n") > 0
    return re.sub(r"(?<!\r)\n", "\r\n", written_text) if only_crlf else written_text


def _put_toml_entry(place: _TomlPlace, key: str, step: ListEntry, value: Plain) -> None:
    """Put an entry in a list of tables, `[[key]]`, instead of the one that is meant or after the others."""
    if key not in place:
        place[key] = tomlkit.aot()
    entries = place[key]
    if not isinstance(entries, tomlkit.items.AoT | tomlkit.items.Array):
        raise UnreadableSettings(f"`{key}` is not a list.")
    at = next((at for at, entry in enumerate(entries.unwrap()) if is_item(entry, step)), None)
    if at is None:
        entries.append(tomlkit.item(value))
    else:
        entries[at] = tomlkit.item(value)


def _parse_yaml(text: str) -> Plain:
    from app.connect import yaml_text  # noqa: PLC0415 -- few tools keep YAML, and the gateway starts without it

    return yaml_text.parse_text(text)


def _put_yaml(text: str, path: Sequence[Step], value: Plain) -> str:
    from app.connect import yaml_text  # noqa: PLC0415 -- as above

    return yaml_text.put(text, path, value)


JSON = DocumentFormat("JSON", json_text.parse_text, json_text.put)
YAML = DocumentFormat("YAML", _parse_yaml, _put_yaml)
TOML = DocumentFormat("TOML", _toml_value, _put_toml)
DOTENV = DocumentFormat("a list of variables", dotenv_text.parse_text, dotenv_text.put)
