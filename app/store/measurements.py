"""What this machine showed, kept across starts: calibrations, the last generations, and loads against predictions.

Every statement takes a connection its caller owns, as in `rows`. A value that a later version cannot read any more is
left out, not an error: it is measured again.
"""

import sqlite3
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from app.core.advice import Calibration, EstimateAccuracy, Generation
from app.store.opening import transaction

KEPT_GENERATIONS = 1000
KEPT_LOADS = 200
T = TypeVar("T")


def list_calibrations(connection: sqlite3.Connection) -> list[Calibration]:
    """Return every calibration, by device and engine."""
    rows = connection.execute("SELECT value FROM calibrations ORDER BY device, engine, version, backend")
    return _decode_rows((row[0] for row in rows), Calibration)


def save_calibration(connection: sqlite3.Connection, calibration: Calibration) -> None:
    """Keep a calibration in place of the one for the same device, engine build and backend."""
    names = (calibration.device, calibration.engine, calibration.version, calibration.backend)
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO calibrations VALUES (?, ?, ?, ?, ?)", (*names, _encode_json(calibration))
        )


def forget_calibrations(connection: sqlite3.Connection) -> None:
    """Forget what was calibrated and the generations that refined it."""
    with transaction(connection):
        connection.execute("DELETE FROM calibrations")
        connection.execute("DELETE FROM generations")


def add_generation(connection: sqlite3.Connection, generation: Generation) -> None:
    """Keep one answer's timing; the oldest beyond `KEPT_GENERATIONS` go."""
    with transaction(connection):
        connection.execute("INSERT INTO generations (value) VALUES (?)", (_encode_json(generation),))
        connection.execute(
            "DELETE FROM generations WHERE seq <= (SELECT max(seq) FROM generations) - ?", (KEPT_GENERATIONS,)
        )


def list_generations(connection: sqlite3.Connection, *, limit: int = KEPT_GENERATIONS) -> list[Generation]:
    """Return the last generations, newest first."""
    rows = connection.execute("SELECT value FROM generations ORDER BY seq DESC LIMIT ?", (limit,))
    return _decode_rows((row[0] for row in rows), Generation)


def add_load(connection: sqlite3.Connection, load: EstimateAccuracy) -> None:
    """Keep what one load took against what was predicted; the oldest beyond `KEPT_LOADS` go."""
    with transaction(connection):
        connection.execute("INSERT INTO loads (model, value) VALUES (?, ?)", (load.model, _encode_json(load)))
        connection.execute("DELETE FROM loads WHERE seq <= (SELECT max(seq) FROM loads) - ?", (KEPT_LOADS,))


def list_loads(connection: sqlite3.Connection, *, limit: int = KEPT_LOADS) -> list[EstimateAccuracy]:
    """Return the last loads, newest first."""
    rows = connection.execute("SELECT value FROM loads ORDER BY seq DESC LIMIT ?", (limit,))
    return _decode_rows((row[0] for row in rows), EstimateAccuracy)


def _decode_rows(texts: Iterable[str], kind: type[T]) -> list[T]:
    decoded: list[T] = []
    for text in texts:
        try:
            decoded.append(msgspec.json.decode(text, type=kind))
        except msgspec.MsgspecError:
            continue
    return decoded


def _encode_json(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()
