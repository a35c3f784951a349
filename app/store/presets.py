"""Presets of chats as rows. Names are told apart whatever their case.

Every statement takes a connection its caller owns, as in `rows`.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from app.core.errors import BadRequest, Conflict, NotFound, quote_value
from app.core.presets import LONGEST_NAME, MOST_PRESETS, ChatPreset, PresetImportResult, SavePreset
from app.store.opening import transaction
from app.store.rows import encode_json


def list_presets(connection: sqlite3.Connection) -> list[ChatPreset]:
    """Return all of them, by name. One that this version cannot read is left out."""
    presets: list[ChatPreset] = []
    for (value,) in connection.execute("SELECT value FROM presets ORDER BY key"):
        try:
            presets.append(msgspec.json.decode(value, type=ChatPreset))
        except msgspec.MsgspecError:  # a later version has more fields
            continue
    return presets


def save_preset(connection: sqlite3.Connection, new: SavePreset) -> ChatPreset:
    """Keep a preset. Raises Conflict where another has its name, and BadRequest where there are too many."""
    with transaction(connection):
        if not new.replaces and _find_preset(connection, new.preset.name) is not None:
            raise Conflict(
                f"There is a preset {quote_value(new.preset.name)} already.",
                hint="Choose another name, or replace it.",
                code="preset_exists",
            )
        _put(connection, new.preset)
        _check_count(connection)
    return new.preset


def import_presets(connection: sqlite3.Connection, presets: Sequence[ChatPreset]) -> PresetImportResult:
    """Add presets, all or none. Raises BadRequest where there are too many."""
    added_names: list[str] = []
    with transaction(connection):
        for preset in presets:
            name = _free_name(connection, preset)
            if name:
                _put(connection, msgspec.structs.replace(preset, name=name))
                added_names.append(name)
        _check_count(connection)
    return PresetImportResult(added=added_names, unchanged=len(presets) - len(added_names))


def delete_preset(connection: sqlite3.Connection, name: str) -> None:
    """Forget a preset. Raises NotFound."""
    with transaction(connection):
        if not connection.execute("DELETE FROM presets WHERE key = ?", (name.casefold(),)).rowcount:
            raise NotFound(
                f"There is no preset {quote_value(name)}.",
                hint="`roundhouse presets` lists them.",
                code="preset_not_found",
            )


def _find_preset(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM presets WHERE key = ?", (name.casefold(),)).fetchone()
    return None if row is None else str(row[0])


def _put(connection: sqlite3.Connection, preset: ChatPreset) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO presets (key, value) VALUES (?, ?)", (preset.name.casefold(), encode_json(preset))
    )


def _check_count(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT count(*) FROM presets").fetchone()[0] > MOST_PRESETS:
        raise BadRequest(f"There may be {MOST_PRESETS:,} presets.", hint="Remove some first.", code="too_many_presets")


def _free_name(connection: sqlite3.Connection, preset: ChatPreset) -> str:
    """Return the name under which a preset is added; empty where it is there already, maybe with a number."""
    number, name = 1, preset.name
    while (stored_preset := _find_preset(connection, name)) is not None:
        if msgspec.json.decode(stored_preset) == msgspec.to_builtins(msgspec.structs.replace(preset, name=name)):
            return ""
        number += 1
        name_suffix = f" ({number})"
        name = preset.name[: LONGEST_NAME - len(name_suffix)].rstrip() + name_suffix
    return name
