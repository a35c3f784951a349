"""What clients used, summed: rows are added as requests end, and kept when a conversation is deleted.

Every statement takes a connection its caller owns, as in `rows`. Answers in Roundhouse's own chats are added there.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from app.core.requests import UsageRow
from app.store.opening import transaction

MOST_ROWS = 200
"""Pairs of client and model returned at most: a client may call itself something new every time."""
_FAILED = "('failed', 'engine_failed', 'refused', 'bug')"
"""`ExchangeOutcome` and `MessageStatus` values that are failures; a reader who stopped reading is none."""


class UsageEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request that ended. `status` is how, `seconds` how long it took; tokens as far as the engine told them."""

    at: float
    client: str
    route: str
    model: str
    engine: str
    status: str
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float


def add_entries(connection: sqlite3.Connection, entries: Sequence[UsageEntry]) -> None:
    """Keep what these requests used."""
    with transaction(connection):
        connection.executemany(
            "INSERT INTO usage (at, client, route, model, engine, status, prompt_tokens, cached_tokens,"
            " completion_tokens, seconds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [msgspec.structs.astuple(entry) for entry in entries],
        )


def usage_since(connection: sqlite3.Connection, at: float) -> list[UsageRow]:
    """Return what was used since `at` (Unix seconds) by client and model, most tokens first."""
    rows = connection.execute(
        f"SELECT client, model, count(*), sum(status IN {_FAILED}), total(prompt_tokens), total(cached_tokens),"  # noqa: S608 -- constant names
        " total(completion_tokens) FROM usage WHERE at >= ? GROUP BY client, model"
        " ORDER BY total(prompt_tokens) + total(completion_tokens) DESC, count(*) DESC, client, model LIMIT ?",
        (at, MOST_ROWS),
    )
    return [
        UsageRow(
            client=client,
            model=model,
            requests=requests,
            failed=failed,
            prompt_tokens=int(prompt),
            cached_tokens=int(cached),
            completion_tokens=int(completion),
        )
        for client, model, requests, failed, prompt, cached, completion in rows
    ]
