"""Kept responses: conversations as chains, bounded, and forgotten as a whole or not at all."""

from pathlib import Path

import pytest

from app.core.errors import NotFound
from app.store import responses
from app.store.database import ChatStore
from app.store.responses import ResponseLimits, ResponseRecord, ResponseRecordItem

AMPLE = ResponseLimits(most=100, days=30)


def make_record(name: str, previous: str | None = None) -> ResponseRecord:
    return ResponseRecord(
        id=name,
        previous=previous,
        body=f'{{"id":"{name}"}}',
        input=(ResponseRecordItem(f"in_{name}", f'"asked {name}"'),),
        output=(ResponseRecordItem(f"out_{name}", f'"said {name}"'),),
    )


async def test_a_response_is_read_as_it_was_kept(store: ChatStore) -> None:
    await store.keep_response(make_record("a"), AMPLE)
    assert await store.read_response("a") == make_record("a")
    with pytest.raises(NotFound) as unknown:
        await store.read_response("b")
    assert unknown.value.code == "response_not_found"


async def test_a_conversation_is_all_that_was_said_oldest_first(store: ChatStore) -> None:
    for response in (make_record("a"), make_record("b", "a"), make_record("branch", "a"), make_record("c", "b")):
        await store.keep_response(response, AMPLE)
    ids = [item.id for item in await store.response_conversation("c")]
    assert ids == ["in_a", "out_a", "in_b", "out_b", "in_c", "out_c"]
    assert len(await store.response_conversation("branch")) == 4


async def test_a_conversation_that_lacks_its_beginning_is_none(store: ChatStore) -> None:
    for response in (make_record("a"), make_record("b", "a")):
        await store.keep_response(response, AMPLE)
    await store.delete_response("a")
    with pytest.raises(NotFound):
        await store.response_conversation("b")
    with pytest.raises(NotFound):
        await store.response_conversation("a")
    with pytest.raises(NotFound):
        await store.delete_response("a")
    assert await store.response_items(["in_a", "out_a"]) == {}


async def test_items_are_found_by_their_ids(store: ChatStore) -> None:
    await store.keep_response(make_record("a"), AMPLE)
    assert await store.response_items(["out_a", "never"]) == {"out_a": ('"said a"', "a")}
    assert await store.response_items([]) == {}


async def test_what_was_left_alone_for_longest_is_forgotten(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("time.time", lambda: now)
    for at, response in enumerate((make_record("a"), make_record("other"), make_record("b", "a"))):
        now = 1e9 + at
        await store.keep_response(response, AMPLE)
    now = 1e9 + 10
    await store.response_conversation("b")  # its beginning counts as used too
    await store.keep_response(make_record("new"), ResponseLimits(most=3, days=30))
    assert len(await store.response_conversation("b")) == 4
    with pytest.raises(NotFound):
        await store.read_response("other")


async def test_what_is_too_old_or_too_much_is_forgotten(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("time.time", lambda: now)
    await store.keep_response(make_record("a"), AMPLE)
    now += 3 * 24 * 3600.0
    await store.keep_response(make_record("x"), ResponseLimits(most=100, days=2))
    assert (await store.read_response("a")).id == "a", "a day longer: the clock may be a day wrong"
    now += 60.0
    await store.keep_response(make_record("b"), ResponseLimits(most=100, days=2))
    with pytest.raises(NotFound):
        await store.read_response("a")
    monkeypatch.setattr(responses, "MOST_BYTES", 40)
    await store.keep_response(make_record("c"), AMPLE)
    with pytest.raises(NotFound):
        await store.read_response("b")
    assert (await store.read_response("c")).id == "c"


async def test_responses_survive_a_restart(path: Path) -> None:
    first = await ChatStore.open(path)
    await first.keep_response(make_record("a"), AMPLE)
    await first.close()
    second = await ChatStore.open(path)
    assert await second.read_response("a") == make_record("a")
    await second.close()
