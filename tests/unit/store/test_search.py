import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import ChatPatch, MessageStatus, NewChat, NewTurn
from app.store import listing
from app.store.database import ChatStore
from app.store.files import hash_of
from app.store.listing import MARK_END, MARK_START, ListRequest, parse_query, snippet_around
from app.store.rows import new_id
from tests.unit.store.conftest import Ask, unwritten

TEXT = 'He said "quantise OR die" about GPT-4; 100% of café owners like C++ 🎉 and 大規模言語モデル, mañana.'


@pytest.fixture
async def chat_with_text(store: ChatStore, chat: str, ask: Ask) -> str:
    await ask(chat, "Untitled thing", answer=TEXT)
    other = await store.create_chat(NewChat(title="Nothing of the kind"))
    await ask(other.id, "Plain words", answer="More of them")
    return chat


@pytest.mark.parametrize(
    "query",
    [
        "quantise",
        "QUANTI",
        "said quant",
        '"quantise',
        '"quantise OR die"',
        "OR",
        "gpt-4",
        "cafe",
        "manana",
        "c++",
        "100%",
        "🎉",
        "言語モ",
        "said 🎉",
        "大規模 owners",
        "thing",
        "untitled",
    ],
)
async def test_a_search_finds(store: ChatStore, chat_with_text: str, query: str) -> None:
    assert [summary.id for summary in await store.list_summaries(ListRequest(query))] == [chat_with_text]


@pytest.mark.parametrize(
    "query",
    ["quantised", "NOT quantise", "said NEAR(die)", "uantise", "🎈", "言語モデルx", "%", "_", "content:quantise"],
)
async def test_a_search_does_not_find(store: ChatStore, chat_with_text: str, query: str) -> None:
    ids = [summary.id for summary in await store.list_summaries(ListRequest(query))]
    assert ids == ([chat_with_text] if query == "%" else [])


async def test_an_empty_search_lists_everything(store: ChatStore, chat_with_text: str) -> None:
    assert len(await store.list_summaries(ListRequest("  "))) == 2


async def test_a_snippet_marks_what_was_found(store: ChatStore, chat_with_text: str) -> None:
    (summary,) = await store.list_summaries(ListRequest("quant"))
    assert f"{MARK_START}quantise{MARK_END} OR die" in summary.snippet
    (summary,) = await store.list_summaries(ListRequest("🎉"))
    assert f"C++ {MARK_START}🎉{MARK_END} and" in summary.snippet


async def test_a_title_alone_is_found_and_marked(store: ChatStore) -> None:
    await store.create_chat(NewChat(title="Rust borrow checker"))
    (summary,) = await store.list_summaries(ListRequest("borr"))
    assert summary.snippet == f"Rust {MARK_START}borrow{MARK_END} checker"


async def test_a_new_title_is_found_and_the_old_one_no_more(store: ChatStore) -> None:
    chat = await store.create_chat(NewChat(title="Zanzibar"))
    await store.change_chat(chat.id, ChatPatch(title="Madagascar"))
    assert await store.list_summaries(ListRequest("zanzibar")) == []
    assert len(await store.list_summaries(ListRequest("madagascar"))) == 1


async def test_pages_of_a_search_follow_each_other(store: ChatStore) -> None:
    chat_ids = [(await store.create_chat(NewChat(title=f"word {number}"))).id for number in range(5)]
    first = await store.list_summaries(ListRequest("word", limit=3))
    second = await store.list_summaries(ListRequest("word", limit=3, before=first[-1].updated_at))
    assert [summary.id for summary in (*first, *second)] == chat_ids[::-1]


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60) | st.text(alphabet="\"*()^:-+~ANDORNEAT{}'\\%_\0 ", max_size=30))
async def test_no_input_breaks_a_search(store: ChatStore, query: str) -> None:
    assert isinstance(await store.list_summaries(ListRequest(query)), list)


@given(text=st.text(min_size=1, max_size=40), before=st.text(max_size=200))
def test_a_snippet_is_one_line_and_holds_the_match(text: str, before: str) -> None:
    snippet = snippet_around(f"{before}{text}", text)
    assert "\n" not in snippet
    assert len(snippet) < 240


def test_a_snippet_has_as_much_on_either_side_and_begins_the_text_where_nothing_matches() -> None:
    text = "a" * 100 + "needle" + "b" * 100
    assert snippet_around(text, "Needle") == f"…{'a' * 40}{MARK_START}needle{MARK_END}{'b' * 40}…"
    assert snippet_around("needle", "needle") == f"{MARK_START}needle{MARK_END}"
    assert snippet_around(text, "absent") == text[:80]


def test_a_query_is_short_whatever_was_pasted() -> None:
    query = parse_query("word " * 10_000)
    assert query is not None
    assert len(query.match) < 1000


async def test_deleting_for_good_leaves_the_index_sound(path: Path) -> None:
    store = await ChatStore.open(path)
    chat = (await store.create_chat(NewChat(title="gone"))).id
    await store.begin_turn(chat, NewTurn(content="Hm?"), unwritten(chat))
    await store._run_job(lambda connection: connection.execute("UPDATE chats SET deleted_at = 1.0"))
    await store.close()
    store = await ChatStore.open(path)
    await store._run_job(lambda c: c.execute("INSERT INTO chat_text (chat_text) VALUES ('integrity-check')"))
    await store._run_job(lambda c: c.execute("INSERT INTO message_text (message_text) VALUES ('integrity-check')"))
    await store.close()


async def test_of_very_many_messages_the_newest_are_looked_at(
    store: ChatStore, chat: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_HITS", 2)
    for number in range(3):
        other = (await store.create_chat(NewChat(title=f"chat {number}"))).id
        await ask(other, "steam", answer="water")
    await ask(chat, "whistle", answer="water")
    titles = [summary.title for summary in await store.list_summaries(ListRequest("steam"))]
    assert titles == ["chat 2", "chat 1"]
    (whistle,) = await store.list_summaries(ListRequest("whistle"))
    assert whistle.hit == (await store.read_chat(chat)).messages[0].id


async def attach(
    store: ChatStore, chat: str, name: str, text: str, *, kind: AttachmentKind = AttachmentKind.TEXT
) -> str:
    """Return the question that has a file with this text."""
    content = f"{name} {text}".encode()
    attachment = Attachment(
        id=new_id(),
        name=name,
        kind=kind,
        media_type="text/plain",
        hash=hash_of(content),
        size_bytes=len(content),
        tokens=1,
    )
    await store.add_attachment(attachment, {AttachmentPart.ORIGINAL: content, AttachmentPart.TEXT: text.encode()})
    turn = NewTurn(content="What is it?", attachments=[attachment.id])
    question = (await store.begin_turn(chat, turn, unwritten(chat))).question
    assert question is not None
    return question.id


@pytest.mark.parametrize("query", ["quantise", "said quant", "cafe", "🎉", "言語モ", "said 🎉", "大規模 owners"])
async def test_a_search_looks_into_files_and_says_which(store: ChatStore, chat: str, query: str) -> None:
    question = await attach(store, chat, "notes.txt", TEXT)
    other = await store.create_chat(NewChat(title="Nothing of the kind"))
    await attach(store, other.id, "other.txt", "Plain words")
    (match,) = await store.list_summaries(ListRequest(query))
    assert (match.id, match.hit, match.file) == (chat, question, "notes.txt")
    assert MARK_START in match.snippet


async def test_words_of_a_message_come_before_those_of_a_file(store: ChatStore, chat: str, ask: Ask) -> None:
    await attach(store, chat, "notes.txt", "sixteen bar in the boiler")
    turn = await ask(chat, "How high in the boiler?", answer="sixteen bar")
    assert turn.question is not None
    (match,) = await store.list_summaries(ListRequest("boiler"))
    assert (match.hit, match.file) == (turn.question.id, "")
    (match,) = await store.list_summaries(ListRequest("bar boiler"))
    assert match.file == "notes.txt", "no message has both words"
    assert await store.list_summaries(ListRequest("bar locomotive")) == []


async def test_the_same_file_is_indexed_once_and_goes_with_its_last_question(
    store: ChatStore, chat: str, path: Path
) -> None:
    other = await store.create_chat(NewChat(title="Other"))
    for place in (chat, other.id):
        await attach(store, place, "notes.txt", "Zanzibar")
    assert len(await store.list_summaries(ListRequest("zanzibar"))) == 2
    for place, count in ((chat, 1), (other.id, 0)):
        await store.delete_chat(place)
        await store.purge_chat(place)
        assert len(await store.list_summaries(ListRequest("zanzibar"))) == count
        assert count_indexed(path) == (count, count)


def count_indexed(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        files = connection.execute("SELECT count(*) FROM indexed_files").fetchone()[0]
        texts = connection.execute("SELECT count(*) FROM file_text WHERE file_text MATCH 'zanzibar'").fetchone()[0]
    return files, texts


async def test_a_file_of_a_deleted_message_is_not_found(store: ChatStore, chat: str) -> None:
    question = await attach(store, chat, "notes.txt", "Zanzibar")
    (answer,) = [message for message in (await store.read_chat(chat)).messages if message.parent == question]
    await store.finish_answer(msgspec.structs.replace(answer, status=MessageStatus.COMPLETE, content="An island."))
    await store.delete_message(chat, question)
    assert await store.list_summaries(ListRequest("zanzibar")) == []
    await store.restore_message(chat, question)
    assert len(await store.list_summaries(ListRequest("zanzibar"))) == 1


async def test_files_from_before_are_indexed_once_there_is_time(store: ChatStore, chat: str, path: Path) -> None:
    await attach(store, chat, "notes.txt", "Zanzibar")
    await attach(store, chat, "gone.txt", "Madagascar")
    await attach(store, chat, "photo.png", "Zanzibar", kind=AttachmentKind.PICTURE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM indexed_files")
        connection.commit()
    for file in path.with_name("attachments").glob("*.text"):
        if file.read_text() == "Madagascar":
            file.unlink()
    assert await store.list_summaries(ListRequest("zanzibar")) == []
    for _ in range(2):
        await store.index_files()
        (match,) = await store.list_summaries(ListRequest("zanzibar"))
        assert match.file == "notes.txt"
        assert count_indexed(path) == (1, 1)


async def test_titles_come_before_words_and_those_that_begin_so_before_all(store: ChatStore, ask: Ask) -> None:
    titles = ["Steam and 100%", "About steam", "Nothing", "Steam, newer", "100_ steam"]
    chats = {title: (await store.create_chat(NewChat(title=title))).id for title in titles}
    await ask(chats["Nothing"], "What is steam?", answer="Water.")
    plain = [chat.title for chat in await store.list_summaries(ListRequest("steam"))]
    assert plain == ["Nothing", "100_ steam", "Steam, newer", "About steam", "Steam and 100%"]
    request = ListRequest("STEAM ", has_titles_first=True)
    ranked_titles = [chat.title for chat in await store.list_summaries(request)]
    assert ranked_titles == ["Steam, newer", "Steam and 100%", "100_ steam", "About steam", "Nothing"]
    assert [chat.title for chat in await store.list_summaries(request._replace(limit=3))] == ranked_titles[:3]
    for query in ("100", "100_", "100_ st"):
        assert (await store.list_summaries(request._replace(query=query)))[0].title == "100_ steam"


async def test_an_old_title_is_offered_before_many_newer_words(store: ChatStore, ask: Ask) -> None:
    old = await store.create_chat(NewChat(title="Zanzibar trip"))
    for number in range(12):
        chat = await store.create_chat(NewChat(title=f"Chat {number}"))
        await ask(chat.id, "Where is Zanzibar?", answer="In the ocean.")
    hits = await store.list_summaries(ListRequest("zanz", limit=8, has_titles_first=True))
    assert (hits[0].id, len(hits)) == (old.id, 8)
