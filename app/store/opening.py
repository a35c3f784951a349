"""Open the database file so that the program can go on, whatever state the file is in.

A newer file is refused and left alone. A damaged one is set aside under another name, never deleted, and a fresh one
begun. A full check of a big file takes minutes, so damage is what opening notices, or what a check finds that a marker
asked for: it is left when damage shows itself at work.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.core.events import Notice
from app.store.faults import is_damage, translate_faults
from app.store.schema import Migration, apply_migrations, file_timestamp, free_path, read_migrations, refuse_newer

KEEP_DELETED_S = 30 * 24 * 3600.0
_BUSY_MS = 5000
_CACHE_KIB = 512
"""Of pages in this process: SQLite's own 2 MiB would fill over an hour, and the system has the file in memory."""
_SIDECARS = ("", "-wal", "-shm")


class DatabaseHandle(NamedTuple):
    """A connection ready for use (autocommit: see `transaction`), and what a person should know about how it opened."""

    connection: sqlite3.Connection
    notices: tuple[Notice, ...]


def open_database(path: Path, steps: Sequence[Migration] | None = None) -> DatabaseHandle:
    """Open or create the database at `path`. Raises StorageFault when that is impossible or the file is too new."""
    steps = read_migrations() if steps is None else steps
    with translate_faults():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return DatabaseHandle(_open_connection(path, steps), ())
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            aside = _set_aside(path)
            return DatabaseHandle(_open_connection(path, steps), (_damage_notice(aside),))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a block as one change: all of it is stored, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends the transaction itself when the disk is full
            connection.execute("ROLLBACK")
        raise


def suspect_marker(path: Path) -> Path:
    """Return the file whose presence asks the next opening for a full check."""
    return path.with_name(f"{path.name}.suspect")


def _open_connection(path: Path, steps: Sequence[Migration]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000)
    try:
        refuse_newer(connection, steps)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        _look_for_damage(connection, path)
        apply_migrations(connection, path, steps)
        connection.execute("PRAGMA foreign_keys = ON")
        _tidy_leftovers(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _look_for_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Notice a cut-off file at once, and anything else when the marker asks for it."""
    pages, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
    log = path.with_name(f"{path.name}-wal")
    is_cut_off = path.stat().st_size < pages * size and not (log.exists() and log.stat().st_size)
    marker = suspect_marker(path)
    if is_cut_off or (marker.exists() and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok"):
        damage = sqlite3.DatabaseError("the file is cut off" if is_cut_off else "the check found damage")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage
    marker.unlink(missing_ok=True)


def _tidy_leftovers(connection: sqlite3.Connection) -> None:
    """End what a killed gateway left unfinished, and drop what was deleted long ago."""
    with transaction(connection):
        connection.execute("UPDATE messages SET status = 'interrupted' WHERE status = 'generating'")
        connection.execute("DELETE FROM chats WHERE deleted_at < ?", (time.time() - KEEP_DELETED_S,))


def _set_aside(path: Path) -> Path:
    aside = free_path(path.with_name(f"{path.name}.damaged-{file_timestamp()}"))
    for suffix in _SIDECARS:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    suspect_marker(path).unlink(missing_ok=True)
    return aside


def _damage_notice(aside: Path) -> Notice:
    return Notice(
        level="bad",
        code="database_damaged",
        sentence="The file with your conversations was damaged, so a new one was started.",
        hint=f"The damaged file is kept: {aside}",
    )
