"""SQLite's errors said plainly.

Only what the machine did wrong becomes a `StorageFault`; a wrong statement or a broken constraint is our own mistake
and passes through.
"""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from app.core.errors import StorageFault

_PRIMARY = 0xFF  # an extended result code keeps its primary code in the low byte
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FULL = StorageFault(
    "The disk is full: the conversation could not be saved.",
    hint="Free some space and try again; nothing that was saved before is lost.",
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


def fault_of(error: sqlite3.Error | OSError) -> StorageFault | None:
    """Return what to tell a person, or None when the error is a mistake of this program."""
    known: StorageFault | None
    if isinstance(error, OSError):
        known = _FULL if error.errno == errno.ENOSPC else _UNREACHABLE
    else:
        known = _KNOWN.get(_code_of(error))
    if known is None:
        return None
    body = known.body
    return StorageFault(body.sentence, hint=body.hint, code=body.code, detail=str(error))


@contextmanager
def translate_faults() -> Iterator[None]:
    """Turn what the machine did wrong into a `StorageFault`; other errors pass."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        fault = fault_of(error)
        if fault is None:
            raise
        raise fault from error


def _code_of(error: sqlite3.Error) -> int:
    code = getattr(error, "sqlite_errorcode", None)  # absent on errors the Python module raises itself
    return -1 if code is None else int(code) & _PRIMARY
