"""A settings file's text, edited: each format's editor, and the check that it did what was meant and nothing else."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.connect import json_text, yaml_text
from app.connect.places import Change, Plain, Step, Unreadable, found, placed


@dataclass(frozen=True, slots=True)
class Format:
    """How a kind of file is read and how one value is put into its text."""

    name: str
    parsed: Callable[[str], Plain]
    put: Callable[[str, Sequence[Step], Plain], str]


def edited(form: Format, text: str, changes: Iterable[Change]) -> str:
    """Return `text` with the changes made. The same text comes back when all of them are there already.

    Raises Unreadable for a file that cannot be read, or whose result would not be exactly what was meant.
    """
    for change in changes:
        before = form.parsed(text)
        present = found(before, change.path)
        if same(present, change.value) or (change.is_default and present is not None):
            continue
        meant = placed(before, change.path, change.value)
        text = form.put(text, change.path, change.value)
        if not same(form.parsed(text), meant):
            raise Unreadable("it is written in a way that cannot be edited without changing other parts.")
    return text


def same(one: object, other: object) -> bool:
    """Return whether two plain values are alike in type too: 1 is not true, and a number that is none is itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other


def _toml_parsed(text: str) -> Plain:
    return cast("Plain", _toml(text).unwrap())


def _toml(text: str) -> tomlkit.TOMLDocument:
    try:
        document = tomlkit.parse(text.lstrip("\ufeff"))
    except (TOMLKitError, ValueError, RecursionError) as error:
        line = getattr(error, "line", None)
        raise Unreadable(f"line {line} is not TOML." if line else "it is not TOML.") from None
    return document


def _toml_put(text: str, path: Sequence[Step], value: Plain) -> str:
    document = _toml(text)
    keys = [str(step) for step in path]
    place: tomlkit.items.AbstractTable | tomlkit.TOMLDocument = document
    for depth, key in enumerate(keys[:-1]):
        if key not in place:
            place[key] = tomlkit.table(is_super_table=depth < len(keys) - 2 or isinstance(value, dict))
        inner = place[key]
        if not isinstance(inner, tomlkit.items.AbstractTable):
            raise Unreadable(f"`{key}` is not a table.")
        place = inner
    place[keys[-1]] = value
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    written = mark + tomlkit.dumps(document)
    only_crlf = text.count("\r\n") == text.count("\n") > 0
    return re.sub(r"(?<!\r)\n", "\r\n", written) if only_crlf else written


JSON = Format("JSON", json_text.parsed, json_text.put)
YAML = Format("YAML", yaml_text.parsed, yaml_text.put)
TOML = Format("TOML", _toml_parsed, _toml_put)
