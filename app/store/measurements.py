"""What this machine showed, kept across starts: calibrations, generations, loads against predictions, benchmarks.

Every statement takes a connection its caller owns, as in `rows`. A value that a later version cannot read any more is
left out, not an error: it is measured again.
"""

import sqlite3
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from app.core.advice import Calibration, EstimateAccuracy, Generation
from app.core.benchmarks import BenchmarkReceipt
from app.core.errors import NotFound, quote_value
from app.core.trials import TrialResult
from app.store.opening import transaction

KEPT_GENERATIONS = 1000
KEPT_LOADS = 200
KEPT_BENCHMARKS = 500
KEPT_TRIALS = 100
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


def save_benchmark(connection: sqlite3.Connection, receipt: BenchmarkReceipt) -> None:
    """Keep a receipt; the oldest beyond `KEPT_BENCHMARKS` go."""
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO benchmarks (id, model, at, value) VALUES (?, ?, ?, ?)",
            (receipt.id, receipt.target.model, receipt.at, _encode_json(receipt)),
        )
        connection.execute(
            "DELETE FROM benchmarks WHERE id NOT IN (SELECT id FROM benchmarks ORDER BY at DESC LIMIT ?)",
            (KEPT_BENCHMARKS,),
        )


def list_benchmarks(connection: sqlite3.Connection, *, model: str = "", limit: int = 100) -> list[BenchmarkReceipt]:
    """Return the last receipts, newest first, of one model or of all."""
    rows = connection.execute(
        "SELECT value FROM benchmarks WHERE ?1 IN ('', model) ORDER BY at DESC LIMIT ?2", (model, limit)
    )
    return _decode_rows((row[0] for row in rows), BenchmarkReceipt)


def find_benchmark(connection: sqlite3.Connection, receipt_id: str) -> BenchmarkReceipt:
    """Return one receipt. Raises NotFound."""
    rows = connection.execute("SELECT value FROM benchmarks WHERE id = ?", (receipt_id,))
    receipts = _decode_rows((row[0] for row in rows), BenchmarkReceipt)
    if not receipts:
        raise NotFound(
            f"There is no benchmark {quote_value(receipt_id)}.", hint="`roundhouse bench --list` lists them."
        )
    return receipts[0]


def delete_benchmark(connection: sqlite3.Connection, receipt_id: str) -> None:
    """Forget one receipt. Raises NotFound."""
    find_benchmark(connection, receipt_id)
    with transaction(connection):
        connection.execute("DELETE FROM benchmarks WHERE id = ?", (receipt_id,))


def add_trial(connection: sqlite3.Connection, result: TrialResult) -> None:
    """Keep what came of a trial; the oldest beyond `KEPT_TRIALS` go."""
    with transaction(connection):
        connection.execute("INSERT INTO trials (model, value) VALUES (?, ?)", (result.model, _encode_json(result)))
        connection.execute("DELETE FROM trials WHERE seq <= (SELECT max(seq) FROM trials) - ?", (KEPT_TRIALS,))


def list_trials(connection: sqlite3.Connection, *, model: str = "") -> list[TrialResult]:
    """Return what is kept of trials, newest first, of one model or of all."""
    rows = connection.execute("SELECT value FROM trials WHERE ?1 IN ('', model) ORDER BY seq DESC", (model,))
    return _decode_rows((row[0] for row in rows), TrialResult)


def _decode_rows(texts: Iterable[str], kind: type[T]) -> list[T]:
    records: list[T] = []
    for text in texts:
        try:
            records.append(msgspec.json.decode(text, type=kind))
        except msgspec.MsgspecError:
            continue
    return records


def _encode_json(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()
