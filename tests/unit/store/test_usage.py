"""What clients used: summed by client and model, from the requests of the endpoint and the answers in chats alike."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from app.core.chats import MessageStatus, Timings, Turn
from app.core.keys import KeyTokens
from app.core.requests import UsageRow
from app.store.database import ChatStore
from app.store.opening import read_migrations
from app.store.usage import MOST_ROWS, UsageEntry

USED = UsageEntry(
    at=100.0,
    client="aider",
    route="chat",
    model="m",
    engine="llama.cpp",
    status="ok",
    prompt_tokens=10,
    cached_tokens=4,
    completion_tokens=5,
    seconds=1.0,
)
ROW = UsageRow(client="aider", model="m", requests=2, failed=1, prompt_tokens=10, cached_tokens=4, completion_tokens=5)


async def test_requests_are_summed_by_client_and_model(store: ChatStore) -> None:
    failure = replace(USED, status="engine_failed", prompt_tokens=None, cached_tokens=None, completion_tokens=None)
    await store.add_usage([USED, failure, replace(USED, client="zed", prompt_tokens=900)])
    assert await store.usage_since(0.0) == [
        replace(ROW, client="zed", requests=1, failed=0, prompt_tokens=900),
        ROW,
    ]


async def test_only_what_is_recent_counts(store: ChatStore) -> None:
    await store.add_usage([USED, replace(USED, at=200.0)])
    assert [row.requests for row in await store.usage_since(150.0)] == [1]
    assert await store.usage_since(200.1) == []


async def test_answers_in_chats_count_as_roundhouses(
    store: ChatStore, chat: str, ask: Callable[..., Awaitable[Turn]]
) -> None:
    turn = await ask(chat, "Why?", answer=None)
    cost = Timings(prompt_tokens=7, cached_tokens=3, completion_tokens=2, total_s=0.5)
    await store.finish_answer(replace(turn.answer, content="Because.", status=MessageStatus.COMPLETE, timings=cost))
    (row,) = await store.usage_since(0.0)
    assert (row.client, row.requests, row.failed) == ("Roundhouse", 1, 0)
    assert (row.prompt_tokens, row.cached_tokens, row.completion_tokens) == (7, 3, 2)


async def test_days_of_keys(store: ChatStore) -> None:
    noon = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
    day_s = 86_400
    await store.add_usage(
        [
            replace(USED, at=noon, key_id="k1", key_name="ci", key_tokens=15),
            replace(USED, at=noon + 60, key_id="k1", key_name="build", key_tokens=15),
            replace(USED, at=noon + 90, key_id="k1", key_name="build", status="refused", is_held_back=True),
            replace(USED, at=noon + 95, key_id="k1", key_name="build", status="bug"),
            replace(USED, at=noon, prompt_tokens=900),
            replace(USED, at=noon - day_s, key_id="k2", key_name="other"),
            replace(USED, at=noon - 2 * day_s, key_id="k2", key_name="other"),
        ]
    )
    rows = await store.usage_by_key(noon - 1.5 * day_s)
    assert [(row.day, row.key, row.requests) for row in rows] == [
        ("2026-11-20", "", 1),
        ("2026-11-20", "build", 4),
        ("2026-11-19", "other", 1),
    ]
    assert (rows[1].held_back, rows[1].failed, rows[1].prompt_tokens, rows[1].completion_tokens) == (1, 1, 40, 20)


async def test_tokens_that_count_for_a_key(store: ChatStore) -> None:
    at = 1_000_000 * 360.0
    await store.add_usage(
        [
            replace(USED, at=at, seconds=1, key_id="k1", key_tokens=10),
            replace(USED, at=at + 2, seconds=3, key_id="k1", key_tokens=20),
            replace(USED, at=at + 300, seconds=70, key_id="k1", key_tokens=40),
            replace(USED, at=at + 1, seconds=1, key_id="k2", key_tokens=5),
            replace(USED, at=at - 500, seconds=499, key_id="k1", key_tokens=1000),
            replace(USED, at=at - 500, seconds=501, key_id="k2", key_tokens=2),
            replace(USED, at=at, seconds=1),
        ]
    )
    assert await store.key_tokens_since(at) == [
        KeyTokens(key_id="k2", at=at + 2, tokens=7),
        KeyTokens(key_id="k1", at=at + 5, tokens=30),
        KeyTokens(key_id="k1", at=at + 370, tokens=40),
    ]


async def test_what_was_kept_before_keys_were_told_apart_is_of_none(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for step in read_migrations()[:19]:
            connection.executescript(step.sql)
        connection.execute(
            "INSERT INTO usage (at, client, route, model, engine, status, seconds, prompt_tokens)"
            " VALUES (9, 'c', 'chat', 'm', 'e', 'ok', 1, 7)"
        )
        connection.execute("PRAGMA user_version = 19")
        connection.commit()
    store = await ChatStore.open(path)
    try:
        (row,) = await store.usage_by_key(0.0)
        assert (row.key_id, row.key, row.requests, row.prompt_tokens, row.held_back) == ("", "", 1, 7, 0)
        assert await store.key_tokens_since(0.0) == []
    finally:
        await store.close()


async def test_clients_that_change_their_name_do_not_fill_the_answer(store: ChatStore) -> None:
    await store.add_usage([replace(USED, client=f"client-{number}") for number in range(MOST_ROWS + 5)])
    assert len(await store.usage_since(0.0)) == MOST_ROWS


async def test_what_was_kept_before_clients_were_told_apart_is_roundhouses(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for step in read_migrations()[:4]:
            connection.executescript(step.sql)
        connection.execute("INSERT INTO usage (at, model, engine, status) VALUES (1, 'm', 'e', 'complete')")
        connection.execute("PRAGMA user_version = 4")
        connection.commit()
    store = await ChatStore.open(path)
    try:
        assert [row.client for row in await store.usage_since(0.0)] == ["Roundhouse"]
    finally:
        await store.close()
