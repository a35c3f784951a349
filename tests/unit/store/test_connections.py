"""Connections in the database: for a month, up to a bound, and readable by the previous version."""

import time
from pathlib import Path

import msgspec
import pytest

from app.core.connections import Connection, ConnectionReason
from app.store import database as connections
from app.store.database import ChatStore
from app.store.opening import CLOCK_SLACK_S, open_database

NOW = time.time()


def row(number: int, *, at: float = NOW) -> Connection:
    return Connection(
        id=f"cn_{number}",
        host="a.example",
        port=443,
        why=ConnectionReason.SEARCH,
        count=1,
        first_at=at,
        last_at=at + number,
    )


async def test_a_row_takes_the_place_of_its_earlier_self(tmp_path: Path) -> None:
    store = await ChatStore.open(tmp_path / "chats.sqlite")
    await store.save_connections([row(1), row(2)])
    newer_row = msgspec.structs.replace(row(1), count=9, last_at=NOW + 10)
    await store.save_connections([newer_row])
    assert await store.list_connections(limit=10) == [newer_row, row(2)]
    await store.forget_connections()
    assert await store.list_connections(limit=10) == []
    await store.close()


def test_what_is_a_month_old_goes(tmp_path: Path) -> None:
    database = open_database(tmp_path / "chats.sqlite").connection
    almost = row(3, at=NOW - connections.KEPT_S - CLOCK_SLACK_S + 6 * 3600)
    connections.save_connections(database, [row(1, at=NOW - connections.KEPT_S - CLOCK_SLACK_S - 60), row(2), almost])
    assert [connection.id for connection in connections.list_connections(database, limit=10)] == ["cn_2", "cn_3"]
    database.close()


def test_there_are_never_more_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEPT_ROWS", 5)
    database = open_database(tmp_path / "chats.sqlite").connection
    connections.save_connections(database, [row(number) for number in range(20)])
    assert [connection.id for connection in connections.list_connections(database, limit=100)] == [
        f"cn_{number}" for number in range(19, 14, -1)
    ]
    database.close()


def test_a_purpose_of_a_later_version_is_left_out(tmp_path: Path) -> None:
    database = open_database(tmp_path / "chats.sqlite").connection
    connections.save_connections(database, [row(1)])
    database.execute("INSERT INTO connections VALUES ('cn_x', ?, '{\"why\": \"telepathy\"}')", (NOW,))
    assert [connection.id for connection in connections.list_connections(database, limit=10)] == ["cn_1"]
    database.close()
