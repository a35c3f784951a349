"""How full the database is, without a word of what is in it."""

import sqlite3

_OWN = "type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%_text%'"
"""Tables that are not SQLite's own, nor those in which the index of words is kept."""


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many rows each table has."""
    names = [row[0] for row in connection.execute(f"SELECT name FROM sqlite_master WHERE {_OWN} ORDER BY name")]  # noqa: S608 -- a constant
    return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}  # noqa: S608 -- our own names of tables
