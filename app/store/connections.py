"""Connections to other computers as they were noted, for a month and up to a bound.

Every statement takes a connection to the database its caller owns, as in `rows`.
"""

import sqlite3
import time
from collections.abc import Sequence

import msgspec

from app.core.connections import Connection
from app.store.opening import transaction

KEPT_S = 30 * 24 * 3600.0
KEPT_ROWS = 10_000


def save_connections(database: sqlite3.Connection, connections: Sequence[Connection]) -> None:
    """Keep these as they are now, each in place of what its id had; forget what is old or too much."""
    rows = [(connection.id, connection.last_at, msgspec.json.encode(connection).decode()) for connection in connections]
    with transaction(database):
        database.executemany("INSERT OR REPLACE INTO connections VALUES (?, ?, ?)", rows)
        database.execute("DELETE FROM connections WHERE at < ?", (time.time() - KEPT_S,))
        database.execute(
            "DELETE FROM connections WHERE id IN (SELECT id FROM connections ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (KEPT_ROWS,),
        )


def list_connections(database: sqlite3.Connection, *, limit: int) -> list[Connection]:
    """Return the last ones, newest first. One that this version cannot read is left out."""
    decoded: list[Connection] = []
    for (text,) in database.execute("SELECT value FROM connections ORDER BY at DESC, id LIMIT ?", (limit,)):
        try:
            decoded.append(msgspec.json.decode(text, type=Connection))
        except msgspec.MsgspecError:  # a later version has more purposes
            continue
    return decoded


def forget_connections(database: sqlite3.Connection) -> None:
    """Forget all of them."""
    with transaction(database):
        database.execute("DELETE FROM connections")
