"""Laws of what is kept: for how long, how much of it, which imports fit, and what a search takes for a word."""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.core.attachments import MOST_ATTACHMENTS, Attachment, AttachmentKind, AttachmentPart
from app.core.chats import Chat, ChatImport, Message, MessageStatus, NewChat, Role, Sampling
from app.core.errors import BadRequest
from app.store import attachments, rows
from app.store import database as connections
from app.store.database import ChatStore
from app.store.imports import _check_chat
from app.store.listing import MARK_END, MARK_START, MAX_PAGE, ListRequest, parse_query, snippet_around
from app.store.measurements import KEPT_GENERATIONS, KEPT_LOADS
from app.store.opening import (
    CLOCK_SLACK_S,
    KEEP_DELETED_S,
    KEPT_COPIES,
    Migration,
    apply_migrations,
    open_database,
    version_of,
)

DAY_S = 24 * 3600
HOUR_S = 3600
NOTE = Attachment(
    id="a1", name="n.txt", kind=AttachmentKind.TEXT, media_type="text/plain", hash="f" * 64, size_bytes=2, tokens=1
)


def test_how_long_and_how_much_is_kept() -> None:
    assert (KEEP_DELETED_S, connections.KEPT_S, CLOCK_SLACK_S) == (30 * DAY_S, 30 * DAY_S, DAY_S)
    assert (connections.KEPT_ROWS, KEPT_GENERATIONS, KEPT_LOADS, KEPT_COPIES) == (10_000, 1000, 200, 3)
    assert (MAX_PAGE, ListRequest()) == (200, ListRequest(query="", limit=50, before=None))


@pytest.mark.parametrize(("age_s", "is_kept"), [(31 * DAY_S - HOUR_S, True), (31 * DAY_S + HOUR_S, False)])
async def test_the_trash_is_emptied_after_a_month_and_a_day(path: Path, age_s: float, *, is_kept: bool) -> None:
    store = await ChatStore.open(path)
    chat = (await store.create_chat(NewChat(title="Old"))).id
    await store.delete_chat(chat)
    deleted_at = time.time() - age_s
    await store._run_job(lambda c: c.execute("UPDATE chats SET deleted_at = ?", (deleted_at,)))
    await store.close()
    store = await ChatStore.open(path)
    row_count = await store._run_job(lambda c: c.execute("SELECT count(*) FROM chats").fetchone()[0])
    await store.close()
    assert row_count == is_kept


@pytest.mark.parametrize(("age_s", "is_kept"), [(2 * DAY_S - HOUR_S, True), (2 * DAY_S + HOUR_S, False)])
async def test_a_file_that_was_never_sent_is_forgotten_after_a_day_and_a_day(
    store: ChatStore, age_s: float, *, is_kept: bool
) -> None:
    await store.add_attachment(NOTE, {AttachmentPart.ORIGINAL: b"Hi"})
    await store._run_job(lambda c: c.execute("UPDATE attachments SET created_at = ?", (time.time() - age_s,)))
    await store._run_job(lambda c: attachments.tidy_attachments(c, store._files))
    row_count = await store._run_job(lambda c: c.execute("SELECT count(*) FROM attachments").fetchone()[0])
    assert row_count == is_kept
    assert [part.is_file() for part in store._files.folder.rglob("f*") if part.is_file()] == [True] * is_kept


async def test_more_messages_than_a_statement_takes_have_their_files(store: ChatStore, chat: str) -> None:
    most = attachments._MANY
    names = [f"m{at}" for at in range(2 * most + 1)]

    def fill(connection: sqlite3.Connection) -> dict[str, list[Attachment]]:
        for at, name in enumerate(names):
            connection.execute(
                "INSERT INTO messages (id, chat, parent, role, content, status, created_at) VALUES (?, ?, NULL, 'user',"
                " 'x', 'complete', ?)",
                (name, chat, at),
            )
            attachments._insert(connection, replace(NOTE, id=f"a{at}"), message=name)
        return attachments.attachments_of_messages(connection, names)

    records = await store._run_job(fill)
    assert {name: [each.id for each in files] for name, files in records.items()} == {
        name: [f"a{at}"] for at, name in enumerate(names)
    }
    assert await store._run_job(lambda c: attachments.attachments_of_messages(c, [])) == {}


async def test_a_page_has_as_many_as_were_asked_for_between_one_and_the_most(store: ChatStore) -> None:
    for at in range(3):
        await store.create_chat(NewChat(title=f"Chat {at}"))
    for limit, count in ((-1, 1), (0, 1), (1, 1), (2, 2), (3, 3), (10**6, 3)):
        assert len(await store.list_summaries(ListRequest(limit=limit))) == count
        assert len(await store.list_summaries(ListRequest("chat", limit=limit))) == count
    summaries = await store.list_summaries()
    assert [each.title for each in summaries] == ["Chat 2", "Chat 1", "Chat 0"]
    assert all(each.created_at <= each.updated_at and each.message_count == 0 for each in summaries)
    for at in range(3):
        page = await store.list_summaries(ListRequest(limit=5, before=summaries[at].updated_at))
        assert page == summaries[at + 1 :]


# ----- chats from elsewhere


def chat_of(*messages: Message, **fields: object) -> Chat:
    chat = Chat(
        id="c1",
        title="t",
        model="m",
        system_prompt="",
        sampling=Sampling(),
        head=None,
        created_at=1.0,
        updated_at=2.0,
        messages=list(messages),
    )
    return replace(chat, **{"head": messages[-1].id if messages else None, **fields})


def message_of(id_: str, parent: str | None = None, role: Role = Role.USER, **fields: object) -> Message:
    message = Message(id=id_, chat="c1", parent=parent, role=role, content="x", created_at=1.0)
    return replace(message, **fields)


FITTING = [
    chat_of(),
    chat_of(message_of("m")),
    chat_of(message_of("m" * 64), id="c1"),
    chat_of(message_of("m"), message_of("n", "m", Role.ASSISTANT), message_of("o", "n")),
    chat_of(message_of("m"), message_of("n", "m", Role.ASSISTANT), message_of("o", "m", Role.ASSISTANT), head="n"),
    chat_of(message_of("m", attachments=[NOTE] * MOST_ATTACHMENTS)),
    chat_of(message_of("m"), message_of("n", "m", Role.ASSISTANT, attachments=[NOTE])),
    chat_of(message_of("m", created_at=0.0), created_at=0.0, updated_at=99_999_999_999.0),
]
UNFITTING = [
    chat_of(message_of("m", "gone")),
    chat_of(message_of("n", "m", Role.ASSISTANT), message_of("m"), head=None),
    chat_of(message_of("m"), message_of("m")),
    chat_of(message_of("m" * 65)),
    chat_of(message_of("")),
    chat_of(message_of("a b")),
    chat_of(message_of("é")),
    chat_of(message_of("m", chat="c2")),
    chat_of(message_of("m", attachments=[NOTE] * (MOST_ATTACHMENTS + 1))),
    chat_of(message_of("m"), message_of("n", "m", Role.ASSISTANT, attachments=[NOTE] * (MOST_ATTACHMENTS + 1))),
    chat_of(message_of("m", status=MessageStatus.GENERATING)),
    chat_of(message_of("m", created_at=-1.0)),
    chat_of(message_of("m", created_at=1e11)),
    chat_of(message_of("m"), head="gone"),
    chat_of(id=""),
    chat_of(id="c" * 65),
    chat_of(created_at=-0.1),
    chat_of(updated_at=1e11),
]


@pytest.mark.parametrize("chat", FITTING)
def test_a_chat_that_could_have_come_to_be_here_fits(chat: Chat) -> None:
    _check_chat(replace(chat, messages=[replace(each, chat=chat.id) for each in chat.messages]))


@pytest.mark.parametrize("chat", UNFITTING)
async def test_one_that_could_not_is_refused_and_nothing_of_it_is_kept(store: ChatStore, chat: Chat) -> None:
    with pytest.raises(BadRequest, match="cannot be added"):
        await store.import_chats(ChatImport(chats=[replace(chat_of(message_of("x", chat="c0")), id="c0"), chat]))
    assert await store.list_summaries() == []


async def test_a_title_has_five_hundred_characters_and_the_same_time_changes_no_head(store: ChatStore) -> None:
    chat = chat_of(message_of("m"), title=f"  {'t' * 501}")
    await store.import_chats(ChatImport(chats=[chat]))
    assert (await store.read_chat("c1")).title == "t" * 500
    more = chat_of(message_of("m"), message_of("n", "m", Role.ASSISTANT))
    await store.import_chats(ChatImport(chats=[more]))
    stored_chat = await store.read_chat("c1")
    assert (stored_chat.head, stored_chat.updated_at, len(stored_chat.messages)) == ("m", 2.0, 2)
    await store.import_chats(
        ChatImport(chats=[replace(more, messages=[*more.messages, message_of("o", "n")], updated_at=2.5)])
    )
    assert (await store.read_chat("c1")).updated_at == 2.5


@given(times=st.lists(st.sampled_from([5.0, 5.0 + 1e-6, 5.5, 7.0]), min_size=1, max_size=8))
def test_no_two_chats_have_changed_at_the_same_time(times: Sequence[float]) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE chats (updated_at REAL)")
    for at in times:
        unused_time = rows.find_unused_time(connection, at)
        assert at <= unused_time < at + 1
        connection.execute("INSERT INTO chats VALUES (?)", (unused_time,))
    assert connection.execute("SELECT count(DISTINCT updated_at) FROM chats").fetchone() == (len(times),)
    connection.close()


# ----- searching


@pytest.mark.parametrize(
    ("text", "match", "parts"),
    [
        ("one two", '"one" "two"*', ()),
        ('say "hi"', '"say" """hi"""*', ()),
        ("東京 tower", '"tower"*', ("東京",)),
        ("50% C++", '"50%" "C++"*', ()),
        ("--- 😀", "", ("---", "😀")),
        ("x" * 101, f'"{"x" * 100}"*', ()),
        ("a\0b", '"a" "b"*', ()),
        (" ".join("abcdefghijklmnopqrst"), " ".join(f'"{char}"' for char in "abcdefghijklmnop") + "*", ()),
    ],
)
def test_words_are_looked_up_and_what_is_none_is_looked_for(text: str, match: str, parts: tuple[str, ...]) -> None:
    query = parse_query(text)
    assert query is not None
    assert (query.match, query.parts) == (match, parts)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\0"])
def test_without_a_word_nothing_is_looked_for(text: str) -> None:
    assert parse_query(text) is None


def test_what_stands_for_anything_stands_for_itself() -> None:
    query = parse_query("%_\\ 東")
    assert query is not None
    assert query.patterns == ["%\\%\\_\\\\%", "%東%"]


@given(before=st.integers(0, 60), after=st.integers(0, 60))
def test_a_snippet_shows_forty_characters_on_either_side_and_marks_what_it_cut(before: int, after: int) -> None:
    text = "b" * before + "HIT" + "a" * after
    marked_hit = f"{MARK_START}HIT{MARK_END}"
    snippet = (
        ("…" if before > 40 else "")
        + "b" * min(before, 40)
        + marked_hit
        + "a" * min(after, 40)
        + ("…" if after > 40 else "")
    )
    assert snippet_around(text, "hit") == snippet
    assert snippet_around(text, "none") == text[:80]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("\n\n# Head  line\nmore", "Head line"),
        ("", "New chat"),
        (" # ", "New chat"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("x" * 58 + " y", "x" * 58 + " y"),
        ("x" * 59 + " y", "x" * 59 + "…"),
        ("word " * 20, " ".join(["word"] * 12) + "…"),
        ("a" * 30 + ", " + "b" * 40, "a" * 30 + "…"),
        (" " + "y" * 70, "y" * 59 + "…"),
    ],
)
def test_a_title_is_the_first_line_cut_at_a_word(question: str, title: str) -> None:
    assert rows.title_from(question) == title


# ----- migrations


def steps(count: int) -> list[Migration]:
    return [Migration(number, f"{number:04}", f"CREATE TABLE t{number} (x);") for number in range(1, count + 1)]


def test_a_copy_is_kept_before_a_step_of_what_holds_something_and_never_of_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    for count, copies in ((1, 0), (1, 0), (2, 1), (3, 2), (4, 3), (6, 3)):
        handle = open_plain(path)
        apply_migrations(handle, path, steps(count))
        assert version_of(handle) == count
        handle.close()
        assert len(list(tmp_path.glob("x.db.format-*"))) == copies
    assert not list(tmp_path.glob("*.copy"))


def open_plain(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def test_a_database_is_made_in_folders_of_its_owner_and_begins_without_notices(tmp_path: Path) -> None:
    handle = open_database(tmp_path / "a" / "b" / "x.db")
    assert handle.notices == ()
    assert handle.connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert handle.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    handle.connection.close()
