"""Answers of OpenAI's Responses API, kept so that a client can go on with one by its id, across restarts.

Every statement takes a connection its caller owns, as in `rows`. Values are JSON as it went over the wire; nothing here
reads it. A conversation is a chain of responses, and using its last one counts as using all of it, so what is forgotten
first is the conversation that was left alone for longest.
"""

import json
import sqlite3
import time
from collections.abc import Sequence

import msgspec

from app.core.errors import NotFound, quote_value
from app.store.opening import CLOCK_SLACK_S, transaction

_DAY_S = 24 * 3600.0
MOST_BYTES = 512 * 1024 * 1024
"""Of all that is kept: pictures are part of what was said, and requests may hold 32 MiB of them."""
_CHAIN = """
    WITH RECURSIVE chain (seq, previous, depth) AS (
        SELECT seq, previous, 0 FROM responses WHERE id = ?
        UNION
        SELECT older.seq, older.previous, chain.depth + 1 FROM responses older JOIN chain ON older.id = chain.previous
    )
"""
_LINKS = _CHAIN + "SELECT seq, previous FROM chain ORDER BY depth"  # noqa: S608 -- constant text, as below
_USE = _CHAIN + "UPDATE responses SET used_at = ? WHERE seq IN (SELECT seq FROM chain)"  # noqa: S608
_CONVERSATION = (
    _CHAIN + "SELECT items.id, items.value FROM chain JOIN response_items items ON items.response = chain.seq"  # noqa: S608
    " ORDER BY chain.depth DESC, items.place"
)


class ResponseRecordItem(msgspec.Struct, frozen=True):
    """One thing that was said, as JSON."""

    id: str
    value: str


class ResponseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A response as JSON, whose own `output` does not count, with its new input and its output."""

    id: str
    previous: str | None
    body: str
    input: tuple[ResponseRecordItem, ...]
    output: tuple[ResponseRecordItem, ...]


class ResponseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept at most: so many, and none that was not used for so many days."""

    most: int
    days: int


def keep_response(connection: sqlite3.Connection, response: ResponseRecord, bounds: ResponseLimits) -> None:
    """Keep a response, and forget what is beyond the bounds."""
    now = time.time()
    items = [*((item, True) for item in response.input), *((item, False) for item in response.output)]
    size = len(response.body.encode()) + sum(len(item.value.encode()) for item, _ in items)
    with transaction(connection):
        row = connection.execute(
            "INSERT INTO responses (id, previous, body, size_bytes, used_at) VALUES (?, ?, ?, ?, ?)",
            (response.id, response.previous, response.body, size, now),
        )
        connection.executemany(
            "INSERT INTO response_items (response, place, id, is_input, value) VALUES (?, ?, ?, ?, ?)",
            [(row.lastrowid, at, item.id, is_input, item.value) for at, (item, is_input) in enumerate(items)],
        )
        _delete_beyond(connection, bounds, now)


def read_response(connection: sqlite3.Connection, response: str) -> ResponseRecord:
    """Return a response. Raises NotFound."""
    row = connection.execute("SELECT seq, previous, body FROM responses WHERE id = ?", (response,)).fetchone()
    if row is None:
        raise response_not_found(response)
    item_rows = connection.execute(
        "SELECT id, value, is_input FROM response_items WHERE response = ? ORDER BY place", (row[0],)
    ).fetchall()
    return ResponseRecord(
        id=response,
        previous=row[1],
        body=row[2],
        input=tuple(ResponseRecordItem(item, value) for item, value, is_input in item_rows if is_input),
        output=tuple(ResponseRecordItem(item, value) for item, value, is_input in item_rows if not is_input),
    )


def read_conversation(connection: sqlite3.Connection, response: str) -> tuple[ResponseRecordItem, ...]:
    """Return everything said up to and with a response, oldest first. Raises NotFound if any of it was forgotten."""
    with transaction(connection):
        chain = connection.execute(_LINKS, (response,)).fetchall()
        if not chain or chain[-1][1] is not None:
            raise response_not_found(chain[-1][1] if chain else response)
        connection.execute(_USE, (response, time.time()))
        return tuple(ResponseRecordItem(item, value) for item, value in connection.execute(_CONVERSATION, (response,)))


def read_items(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the items of those ids that are kept, each with the id of its response; of several the last."""
    rows = connection.execute(
        "SELECT items.id, items.value, responses.id FROM response_items items"
        " JOIN responses ON responses.seq = items.response"
        " WHERE items.id IN (SELECT value FROM json_each(?)) ORDER BY items.response",
        (json.dumps(ids),),
    )
    return {item: (value, response) for item, value, response in rows}


def delete_response(connection: sqlite3.Connection, response: str) -> None:
    """Forget a response. Raises NotFound."""
    with transaction(connection):
        if not connection.execute("DELETE FROM responses WHERE id = ?", (response,)).rowcount:
            raise response_not_found(response)


def forget_responses(connection: sqlite3.Connection, bounds: ResponseLimits) -> None:
    """Forget what is beyond the bounds."""
    with transaction(connection):
        _delete_beyond(connection, bounds, time.time())


def _delete_beyond(connection: sqlite3.Connection, bounds: ResponseLimits, now: float) -> None:
    connection.execute("DELETE FROM responses WHERE used_at < ?", (now - bounds.days * _DAY_S - CLOCK_SLACK_S,))
    connection.execute(
        "DELETE FROM responses WHERE seq IN (SELECT seq FROM (SELECT seq, row_number() OVER last AS place,"
        " sum(size_bytes) OVER last AS total FROM responses WINDOW last AS (ORDER BY used_at DESC, seq DESC))"
        " WHERE place > ? OR total > ?)",
        (bounds.most, MOST_BYTES),
    )


def response_not_found(response: str) -> NotFound:
    """Return the error for a response that is not kept, or not for whoever asks."""
    return NotFound(
        f"There is no stored response {quote_value(response)}.",
        hint="It was deleted, forgotten, or made with `store` off. Send the conversation again.",
        code="response_not_found",
    )
