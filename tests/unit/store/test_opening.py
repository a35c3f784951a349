import errno
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.core.chats import MessageStatus, NewChat, NewTurn
from app.core.errors import Bug, StorageFault
from app.core.tool_calls import AnswerToolCall, ToolCallState
from app.store.database import ChatStore
from app.store.listing import ListRequest
from app.store.opening import (
    KEPT_COPIES,
    Migration,
    open_database,
    read_migrations,
    suspect_marker,
    translate_faults,
    version_of,
)
from tests.unit.store.conftest import Ask, unwritten


@contextmanager
def open_store(path: Path, steps: list[Migration] | None = None) -> Iterator[sqlite3.Connection]:
    with closing(open_database(path, steps).connection) as connection:
        yield connection


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def schema_of(path: Path) -> list[tuple[str, str]]:
    with raw(path) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def begun_at(path: Path, version: int) -> None:
    """Leave a database as the program of that schema version would have, with one answered chat in it."""
    with raw(path) as connection:
        for step in read_migrations()[:version]:
            connection.executescript(step.sql)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute(
            "INSERT INTO chats (id, title, model, system_prompt, sampling, head, created_at, updated_at)"
            " VALUES ('c', 'Old title', 'm', '', '{}', 'b', 1.0, 2.0)"
        )
        for message, parent, role, text in (("a", None, "user", "Ancient question"), ("b", "a", "assistant", "Reply")):
            connection.execute(
                "INSERT INTO messages (id, chat, parent, role, content, status, created_at)"
                " VALUES (?, 'c', ?, ?, ?, 'complete', 1.0)",
                (message, parent, role, text),
            )


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("version", range(1, len(read_migrations())))
async def test_every_older_format_arrives_at_the_present_one(path: Path, version: int) -> None:
    begun_at(path, version)
    store = await ChatStore.open(path)
    chat = await store.read_chat("c")
    assert [(message.id, message.content) for message in chat.messages] == [("a", "Ancient question"), ("b", "Reply")]
    assert [summary.id for summary in await store.list_summaries(ListRequest("ancient"))] == ["c"]
    assert [summary.id for summary in await store.list_summaries(ListRequest("old"))] == ["c"]
    await store.close()
    fresh = path.with_name("fresh.db")
    with open_store(fresh):
        pass
    assert schema_of(path) == schema_of(fresh)


def test_a_copy_is_kept_before_a_migration_and_only_the_last_three(path: Path) -> None:
    steps = read_migrations()
    begun_at(path, 1)
    number = len(steps)
    for _ in range(KEPT_COPIES + 2):
        with open_store(path, steps[:number]):
            pass
        number += 1
        steps.append(Migration(number, f"{number:04}_more", f"CREATE TABLE extra_{number} (x);"))
    copies = sorted(path.parent.glob("*.format-*"))
    assert len(copies) == KEPT_COPIES
    with raw(copies[0]) as connection:
        assert connection.execute("SELECT content FROM messages").fetchone() == ("Ancient question",)


def test_half_a_copy_of_a_killed_migration_counts_for_none(path: Path) -> None:
    begun_at(path, 1)
    half = path.with_name(f"{path.name}.copy")
    half.write_bytes(b"half a database")
    with open_store(path):
        pass
    assert not half.exists()
    (copy,) = path.parent.glob("*.format-*")
    with raw(copy) as connection:
        assert version_of(connection) == 1


def test_a_fresh_database_needs_no_copy(path: Path) -> None:
    with open_store(path) as connection:
        assert version_of(connection) == len(read_migrations())
    assert list(path.parent.glob("*.format-*")) == []


def test_a_step_that_fails_leaves_the_database_as_it_was(path: Path) -> None:
    begun_at(path, 1)
    before = schema_of(path)
    steps = [
        *read_migrations()[:1],
        Migration(2, "0002_bad", "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);"),
    ]
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        open_database(path, steps)
    assert schema_of(path) == before
    with raw(path) as connection:
        assert version_of(connection) == 1


def test_migrations_without_a_number_are_a_bug(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("SELECT 1;")
    (tmp_path / "0003_b.sql").write_text("SELECT 1;")
    with pytest.raises(Bug):
        read_migrations(tmp_path)


def test_a_newer_database_is_refused_and_untouched(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE from_the_future (x)")
        connection.execute("PRAGMA user_version = 999")
    before = path.read_bytes()
    with pytest.raises(StorageFault, match="newer version of Roundhouse") as error:
        open_database(path)
    assert error.value.code == "database_newer"
    assert error.value.hint
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_settings_that_durability_rests_on(path: Path) -> None:
    with open_store(path) as connection:
        values = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert values == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no mode bits")
def test_a_new_folder_is_private(tmp_path: Path) -> None:
    with open_store(tmp_path / "data" / "x.db"):
        pass
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


async def fill_store(path: Path) -> None:
    store = await ChatStore.open(path)
    for number in range(50):
        await store.create_chat(NewChat(title=f"chat {number}", system_prompt="x" * 2000))
    await store.close()


def spoil(path: Path, damage: str) -> bytes:
    """Make the bytes of a database what SQLite never wrote, and return them."""
    whole = path.read_bytes()
    spoilt = {
        "text": b"not a database at all, really" + whole[29:],
        "zeros": b"\0" * 4096 + whole[4096:],
        "cut": whole[: len(whole) // 2],
        "rows": whole[: -10 * 4096] + b"\xff" * 10 * 4096,  # past the schema: only reading the rows notices
    }[damage]
    path.write_bytes(spoilt)
    return spoilt


@pytest.mark.parametrize("damage", ["text", "zeros", "cut"])
async def test_a_damaged_database_is_set_aside_and_a_new_one_begun(path: Path, damage: str) -> None:
    await fill_store(path)
    content = spoil(path, damage)
    store = await ChatStore.open(path)
    (notice,) = store.notices
    (aside,) = path.parent.glob("*.damaged-*")
    assert (notice.level, notice.code) == ("bad", "database_damaged")
    assert str(aside) in notice.hint
    assert aside.read_bytes() == content
    assert await store.list_summaries() == []
    assert (await store.create_chat(NewChat(title="new"))).title == "new"
    await store.close()


async def test_damage_met_at_work_is_said_and_looked_for_at_the_next_start(path: Path) -> None:
    await fill_store(path)
    spoil(path, "rows")
    store = await ChatStore.open(path)
    assert store.notices == ()
    with pytest.raises(StorageFault) as error:
        await store.list_summaries(ListRequest(limit=100))
    assert error.value.code == "database_damaged"
    assert suspect_marker(path).exists()
    await store.close()
    store = await ChatStore.open(path)
    assert [notice.code for notice in store.notices] == ["database_damaged"]
    assert not suspect_marker(path).exists()
    await store.close()


async def test_a_sound_database_that_was_suspected_is_kept(path: Path) -> None:
    store = await ChatStore.open(path)
    await store.create_chat(NewChat(title="kept"))
    await store.close()
    suspect_marker(path).touch()
    store = await ChatStore.open(path)
    assert [summary.title for summary in await store.list_summaries()] == ["kept"]
    assert not suspect_marker(path).exists()
    await store.close()


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "disk_full"), (errno.EIO, "database_unreachable")], ids=["full", "broken"]
)
def test_an_error_of_the_disk_is_told_for_what_it_is(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(StorageFault) as fault, translate_faults(tmp_path):
        raise OSError(number, "the disk says so")
    assert fault.value.code == code


def test_a_folder_in_the_way_is_said_plainly(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StorageFault):
        open_database(path)


async def test_answers_left_unfinished_are_interrupted_and_can_be_found(path: Path) -> None:
    store = await ChatStore.open(path)
    chat = (await store.create_chat(NewChat())).id
    turn = await store.begin_turn(chat, NewTurn(content="Hm?"), unwritten(chat))
    tool_call = AnswerToolCall(id="k", round=1, at=0, server="s", tool="t")
    await store.save_answer(replace(turn.answer, content="Unfinished symphony", reasoning="r", calls=[tool_call]))
    assert (await store.read_message(chat, turn.answer.id)).calls == [tool_call]
    await store.close()
    store = await ChatStore.open(path)
    message = await store.read_message(chat, turn.answer.id)
    assert (message.status, message.content, message.reasoning) == (
        MessageStatus.INTERRUPTED,
        "Unfinished symphony",
        "r",
    )
    assert [call.state for call in message.calls] == [ToolCallState.CANCELLED], "nobody waits for it any more"
    assert [summary.id for summary in await store.list_summaries(ListRequest("symphony"))] == [chat]
    await store.close()


async def test_a_full_disk_is_said_plainly_and_the_store_goes_on_when_there_is_space(
    store: ChatStore, chat: str, ask: Ask
) -> None:
    turn = await ask(chat, "Hm?", answer=None)
    await store._run_job(lambda c: c.execute(f"PRAGMA max_page_count = {c.execute('PRAGMA page_count').fetchone()[0]}"))
    for call in (
        store.save_answer(replace(turn.answer, content="x" * 100_000)),
        store.create_chat(NewChat(title="y" * 100_000)),
    ):
        with pytest.raises(StorageFault) as error:
            await call
        assert (error.value.code, error.value.status) == ("disk_full", 507)
        assert error.value.hint
    assert (await store.read_chat(chat)).messages[-1].content == ""
    await store._run_job(lambda c: c.execute("PRAGMA max_page_count = 1000000"))
    await store.save_answer(replace(turn.answer, content="x" * 100_000))
    assert len((await store.read_chat(chat)).messages[-1].content) == 100_000


async def test_closing_twice_is_harmless(path: Path) -> None:
    store = await ChatStore.open(path)
    await store.close()
    await store.close()
