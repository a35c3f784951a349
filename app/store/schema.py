"""The schema's history: numbered SQL files, applied in order, each with its number in one transaction.

`PRAGMA user_version` is the number of the last one applied. Before any step on a database that holds something, a copy
is put next to it; the last three copies are kept.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from app.core.errors import Bug, StorageFault

FOLDER = Path(__file__).with_name("migrations")
KEPT_COPIES = 3


class Migration(NamedTuple):
    """One step: its number, its file's name, and the statements."""

    number: int
    name: str
    sql: str


def read_migrations(folder: Path = FOLDER) -> list[Migration]:
    """Read the steps in order. Raises Bug when a number is missing or used twice."""
    steps = [Migration(int(file.name[:4]), file.stem, file.read_text("utf-8")) for file in sorted(folder.glob("*.sql"))]
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise Bug("The numbers of the database's migrations have a gap.", detail=", ".join(s.name for s in steps))
    return steps


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of the last step applied; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, steps: Sequence[Migration]) -> None:
    """Raise StorageFault for a file that a later version of this program wrote. Writes nothing."""
    version, newest = version_of(connection), len(steps)
    if version > newest:
        raise StorageFault(
            f"Your conversations were saved by a newer version of Roundhouse (format {version}; this one reads {newest}).",
            hint="Update Roundhouse to open them. Nothing in the file was changed.",
            code="database_newer",
        )


def apply_migrations(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> None:
    """Bring the database at `path` up to the last step. A step that fails leaves the database as it was before it."""
    version = version_of(connection)
    if 0 < version < len(steps):
        keep_copy(connection, path, version)
    for step in steps[version:]:
        _apply_step(connection, step)


def keep_copy(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy the open database to a file next to it and drop all but the newest copies."""
    copy = free_path(path.with_name(f"{path.name}.format-{version}-{file_timestamp()}"))
    try:
        with closing(sqlite3.connect(copy)) as target:
            connection.backup(target)
    except sqlite3.Error:
        copy.unlink(missing_ok=True)
        raise
    copies = sorted(path.parent.glob(f"{path.name}.format-*"), key=lambda file: file.stat().st_mtime_ns)
    for old in copies[:-KEPT_COPIES]:
        old.unlink(missing_ok=True)
    return copy


def file_timestamp() -> str:
    """Return the local time as it appears in the names of files set aside."""
    return time.strftime("%Y%m%d-%H%M%S")


def free_path(path: Path) -> Path:
    """Return `path`, or the first of `path-2`, `path-3`, ... that does not exist."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def _apply_step(connection: sqlite3.Connection, step: Migration) -> None:
    script = f"BEGIN IMMEDIATE;\n{step.sql}\nPRAGMA user_version = {step.number};\nCOMMIT;"
    try:
        connection.executescript(script)
    except sqlite3.Error:
        with suppress(sqlite3.Error):  # SQLite has rolled back by itself when the disk was full
            connection.execute("ROLLBACK")
        raise
