"""Open the database file so that the program can go on, whatever state the file is in.

A newer file is refused and left alone. A damaged one is set aside under another name, never deleted, and a fresh one
begun. A full check of a big file takes minutes, so damage is what opening notices, or what a check finds that a marker
asked for: it is left when damage shows itself at work.

The schema's history: numbered SQL files, applied in order, each with its number in one transaction.

`PRAGMA user_version` is the number of the last one applied. Before any step on a database that holds something, a copy
is put next to it; the last three copies are kept.
"""

import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from app.core.errors import Bug, StorageFault, is_disk_full
from app.core.events import Notice
from app.store.files import files_folder

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


@cache
def _own_migrations() -> Sequence[Migration]:
    return read_migrations()


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of the last step applied; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, steps: Sequence[Migration]) -> None:
    """Raise StorageFault for a file that a later version of this program wrote. Writes nothing."""
    version, newest = version_of(connection), len(steps)
    if version > newest:
        raise StorageFault(
            "Your conversations were saved by a newer version of Roundhouse "
            f"(format {version}; this one reads {newest}).",
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
    draft = path.with_name(f"{path.name}.copy")  # half a copy, of a program that was killed, counts for none
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(draft)) as target:
            connection.backup(target)
        draft.rename(copy)
    except sqlite3.Error:
        draft.unlink(missing_ok=True)
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


CLOCK_SLACK_S = 24 * 3600.0
"""What is kept for so long is kept a day longer: a clock that is set wrong by a day takes nothing."""
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
    steps = _own_migrations() if steps is None else steps
    with translate_faults(path.parent):
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
    purge_old_chats(connection)


def purge_old_chats(connection: sqlite3.Connection) -> list[str]:
    """Delete for good the chats and messages deleted more than 30 days ago; return the ids of those chats."""
    oldest = (time.time() - KEEP_DELETED_S - CLOCK_SLACK_S,)
    with transaction(connection):
        old = [row[0] for row in connection.execute("SELECT id FROM chats WHERE deleted_at < ?", oldest)]
        connection.execute("DELETE FROM chats WHERE deleted_at < ?", oldest)
        while connection.execute(_LIFT_FOLLOWERS, oldest).rowcount:
            pass
        connection.execute("DELETE FROM messages WHERE deleted_at < ?", oldest)
    return old


_LIFT_FOLLOWERS = """
UPDATE messages SET parent = (SELECT above.parent FROM messages above WHERE above.id = messages.parent)
WHERE parent IN (SELECT id FROM messages WHERE deleted_at < ?)
"""
"""What follows an expired message stands below what was before it from then on."""


def _set_aside(path: Path) -> Path:
    aside = free_path(path.with_name(f"{path.name}.damaged-{file_timestamp()}"))
    for suffix in _SIDECARS:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    files = files_folder(path)
    if files.exists():  # the new database knows none of them, and would have them swept away
        files.rename(free_path(files.with_name(f"{files.name}.of-{aside.name}")))
    suspect_marker(path).unlink(missing_ok=True)
    return aside


def _damage_notice(aside: Path) -> Notice:
    return Notice(
        level="bad",
        code="database_damaged",
        sentence="The file with your conversations was damaged, so a new one was started.",
        hint=f"The damaged file is kept: {aside}",
    )


# SQLite's errors said plainly.
#
# Only what the machine did wrong becomes a `StorageFault`; a wrong statement or a broken constraint is our own mistake
# and passes through.

_TRIAL_BYTES = 1 << 16
"""More than SQLite asks for at a time."""
_PRIMARY = 0xFF  # an extended result code keeps its primary code in the low byte
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FULL = StorageFault(
    "The disk is full: this could not be saved.",
    hint="Free some space and try again; what was saved before is kept.",
    code="disk_full",
)
_DAMAGED = StorageFault(
    "The file with your conversations is damaged.",
    hint="Restart Roundhouse: it sets the damaged file aside and goes on with a new one.",
    code="database_damaged",
)
_READ_ONLY = StorageFault(
    "The file with your conversations cannot be written.",
    hint="Check who owns the data folder and whether its disk is mounted read-only.",
    code="database_read_only",
)
_BUSY = StorageFault(
    "Another program is holding the file with your conversations.",
    hint="Close other programs that have it open, then try again.",
    code="database_busy",
)
_UNREACHABLE = StorageFault(
    "The file with your conversations could not be read or written.",
    hint="Check that its disk is still there and not full.",
    code="database_unreachable",
)
_KNOWN: dict[int, StorageFault] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_IOERR: _UNREACHABLE,
    sqlite3.SQLITE_CANTOPEN: _UNREACHABLE,
}


def is_damage(error: sqlite3.Error) -> bool:
    """Say whether the file itself is broken, rather than full, locked or out of reach."""
    return _code_of(error) in _DAMAGE


def fault_of(error: sqlite3.Error | OSError, folder: Path) -> StorageFault | None:
    """Return what to tell a person of a database in `folder`, or None when the error is a mistake of this program."""
    known_fault: StorageFault | None
    if isinstance(error, OSError):
        known_fault = _FULL if is_disk_full(error) else _UNREACHABLE
    else:
        known_fault = _KNOWN.get(_code_of(error))
    if known_fault is None:
        return None
    body = (_FULL if known_fault is _UNREACHABLE and _is_full(folder) else known_fault).body
    return StorageFault(body.sentence, hint=body.hint, code=body.code, detail=str(error))


@contextmanager
def translate_faults(folder: Path) -> Iterator[None]:
    """Turn what the machine did wrong to a database in `folder` into a `StorageFault`; other errors pass."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        fault = fault_of(error, folder)
        if fault is None:
            raise
        raise fault from error


def _is_full(folder: Path) -> bool:
    """Find out by writing: SQLite tells neither a quota that is used up nor a limit on files from a broken disk."""
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(_TRIAL_BYTES))
            trial.flush()
    except OSError as error:
        return is_disk_full(error)
    return False


def _code_of(error: sqlite3.Error) -> int:
    code = getattr(error, "sqlite_errorcode", None)  # absent on errors the Python module raises itself
    return -1 if code is None else int(code) & _PRIMARY
