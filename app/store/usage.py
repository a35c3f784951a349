"""What clients used, summed: rows are added as requests end, and kept when a conversation is deleted.

Every statement takes a connection its caller owns, as in `rows`. Answers in Roundhouse's own chats are added there.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from app.core.keys import KeyTokens
from app.core.requests import KeyDay, UsageRow
from app.store.opening import transaction

MOST_ROWS = 200
"""Pairs of client and model returned at most: a client may call itself something new every time."""
MOST_KEY_DAYS = 20_000
_TOKENS_STEP_S = 360
"""Tokens of a key are summed by so many seconds, as finely as its limit of a day counts them."""
_DAY_S = 86_400.0
"""A request takes no longer: one that ended since a moment began at most so long before it."""
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
    key_id: str = ""
    key_name: str = ""
    key_tokens: int = 0
    """So many count for the limits of the key."""
    is_held_back: bool = False
    """Whether it was refused for a limit of the key."""


def add_entries(connection: sqlite3.Connection, entries: Sequence[UsageEntry]) -> None:
    """Keep what these requests used."""
    with transaction(connection):
        connection.executemany(
            "INSERT INTO usage (at, client, route, model, engine, status, prompt_tokens, cached_tokens,"
            " completion_tokens, seconds, key_id, key_name, key_tokens, is_held_back)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            failed=failed_count,
            prompt_tokens=int(prompt),
            cached_tokens=int(cached_tokens),
            completion_tokens=int(completion),
        )
        for client, model, requests, failed_count, prompt, cached_tokens, completion in rows
    ]


def usage_by_key(connection: sqlite3.Connection, at: float) -> list[KeyDay]:
    """Return what each key was used for on each day since `at`, the newest day first, then by tokens.

    Days are those of this computer's clock. A key has the name it had with its last request of that day.
    """
    rows = connection.execute(
        "SELECT date(at, 'unixepoch', 'localtime') AS day, key_id, key_name, max(at), count(*),"  # noqa: S608 -- constant names
        f" sum(status IN {_FAILED} AND NOT is_held_back), sum(is_held_back), total(prompt_tokens),"
        " total(cached_tokens), total(completion_tokens) FROM usage WHERE at >= ? GROUP BY day, key_id"
        " ORDER BY day DESC, total(prompt_tokens) + total(completion_tokens) DESC, count(*) DESC, key_id LIMIT ?",
        (at, MOST_KEY_DAYS),
    )
    return [
        KeyDay(
            day=day,
            key_id=key_id,
            key=name,
            requests=requests,
            failed=failed_count,
            held_back=held_back,
            prompt_tokens=int(prompt),
            cached_tokens=int(cached_tokens),
            completion_tokens=int(completion),
        )
        for day, key_id, name, _, requests, failed_count, held_back, prompt, cached_tokens, completion in rows
    ]


def key_tokens_since(connection: sqlite3.Connection, at: float) -> list[KeyTokens]:
    """Return what counts for the limits of keys of the requests that ended since `at`, oldest first."""
    rows = connection.execute(
        "SELECT key_id, max(at + seconds), sum(key_tokens) FROM usage"
        " WHERE at >= ? AND key_tokens > 0 AND at + seconds >= ?"
        " GROUP BY key_id, CAST((at + seconds) / ? AS INTEGER) ORDER BY 2",
        (at - _DAY_S, at, _TOKENS_STEP_S),
    )
    return [KeyTokens(key_id=key_id, at=ended_at, tokens=tokens) for key_id, ended_at, tokens in rows]
