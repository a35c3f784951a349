"""Chats that were written elsewhere, added to the store."""

import pytest
from msgspec.structs import replace

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import Chat, ChatImport, ChatImportResult, Message, MessageStatus, Role, Sampling
from app.core.errors import BadRequest, NotFound
from app.store.database import ChatStore
from app.store.listing import ListRequest
from tests.unit.store.conftest import Ask

CHAT = Chat(
    id="c1",
    title="",
    model="guide",
    system_prompt="Be brief.",
    sampling=Sampling(seed=3),
    head="m2",
    created_at=1700000000.0,
    updated_at=1700000100.0,
    messages=[
        Message(id="m1", chat="c1", parent=None, role=Role.USER, content="Where is the turntable?", created_at=1.0),
        Message(id="m2", chat="c1", parent="m1", role=Role.ASSISTANT, content="In the yard.", model="x"),
    ],
)
MORE = Message(id="m3", chat="c1", parent="m2", role=Role.USER, content="Thanks")


async def test_a_chat_is_added_as_it_was_written_and_can_be_searched(store: ChatStore) -> None:
    assert await store.import_chats(ChatImport(chats=[CHAT])) == ChatImportResult(added=1)
    assert await store.read_chat("c1") == replace(CHAT, title="Where is the turntable?")
    assert [summary.id for summary in await store.list_summaries(ListRequest("turntable"))] == ["c1"]


async def test_adding_it_again_changes_nothing(store: ChatStore) -> None:
    await store.import_chats(ChatImport(chats=[CHAT]))
    before = await store.read_chat("c1")
    changed_chat = replace(CHAT, title="Else", messages=[replace(CHAT.messages[0], content="Else"), CHAT.messages[1]])
    assert await store.import_chats(ChatImport(chats=[changed_chat, CHAT])) == ChatImportResult(unchanged=2)
    assert await store.read_chat("c1") == before


async def test_newer_messages_are_added_to_a_chat_that_is_there(store: ChatStore) -> None:
    await store.import_chats(ChatImport(chats=[CHAT]))
    newer = replace(CHAT, messages=[*CHAT.messages, MORE], head="m3", updated_at=CHAT.updated_at + 10)
    assert await store.import_chats(ChatImport(chats=[newer])) == ChatImportResult(extended=1)
    stored_chat = await store.read_chat("c1")
    assert (stored_chat.head, stored_chat.updated_at, len(stored_chat.messages)) == ("m3", newer.updated_at, 3)


async def test_an_older_export_leaves_the_reader_where_they_are(store: ChatStore) -> None:
    await store.import_chats(ChatImport(chats=[CHAT]))
    older = replace(CHAT, messages=[*CHAT.messages, MORE], head="m3", updated_at=CHAT.updated_at - 10)
    await store.import_chats(ChatImport(chats=[older]))
    assert (await store.read_chat("c1")).head == "m2"


async def test_a_chat_in_the_trash_stays_there(store: ChatStore) -> None:
    await store.import_chats(ChatImport(chats=[CHAT]))
    await store.delete_chat("c1")
    assert await store.import_chats(ChatImport(chats=[CHAT])) == ChatImportResult(deleted=1)
    assert await store.list_summaries() == []


async def test_files_that_were_uploaded_belong_to_their_message(store: ChatStore) -> None:
    note = Attachment(
        id="a1", name="n.txt", kind=AttachmentKind.TEXT, media_type="text/plain", hash="f" * 64, size_bytes=2, tokens=1
    )
    await store.add_attachment(note, {AttachmentPart.ORIGINAL: b"Hi"})
    question = replace(CHAT.messages[0], attachments=[note])
    await store.import_chats(ChatImport(chats=[replace(CHAT, messages=[question, CHAT.messages[1]])]))
    assert (await store.read_chat("c1")).messages[0].attachments == [note]
    other = replace(question, id="n1", chat="c2", attachments=[replace(note, id="a9")])
    with pytest.raises(NotFound):
        await store.import_chats(ChatImport(chats=[replace(CHAT, id="c2", head="n1", messages=[other])]))


async def test_an_imported_chat_goes_on(store: ChatStore, ask: Ask) -> None:
    await store.import_chats(ChatImport(chats=[CHAT]))
    turn = await ask("c1", "Really?", parent="m2")
    assert turn.question is not None
    assert turn.question.parent == "m2"


@pytest.mark.parametrize(
    "wrong",
    [
        replace(CHAT, head="m9"),
        replace(CHAT, id=""),
        replace(CHAT, id="../x"),
        replace(CHAT, updated_at=float("inf")),
        replace(CHAT, created_at=-1.0),
        replace(CHAT, messages=CHAT.messages[::-1]),
        replace(CHAT, messages=[*CHAT.messages, CHAT.messages[0]]),
        replace(CHAT, messages=[*CHAT.messages, replace(MORE, chat="c2")]),
        replace(CHAT, messages=[*CHAT.messages, replace(MORE, status=MessageStatus.GENERATING)]),
        replace(CHAT, messages=[*CHAT.messages, replace(MORE, created_at=float("nan"))]),
    ],
)
async def test_what_fits_into_no_chat_is_refused_and_adds_nothing(store: ChatStore, wrong: Chat) -> None:
    with pytest.raises(BadRequest):
        await store.import_chats(ChatImport(chats=[replace(CHAT, id="c0", messages=[], head=None), wrong]))
    assert await store.list_summaries() == []


async def test_a_message_of_another_chat_is_not_taken_over(store: ChatStore) -> None:
    await store.import_chats(ChatImport(chats=[CHAT]))
    thief = replace(CHAT, id="c2", messages=[replace(message, chat="c2") for message in CHAT.messages])
    with pytest.raises(BadRequest, match="belongs to another chat"):
        await store.import_chats(ChatImport(chats=[thief]))


async def test_two_thousand_chats_of_one_moment_are_told_apart(store: ChatStore) -> None:
    chats = [replace(CHAT, id=f"c{n}", head=None, messages=[]) for n in range(2000)]
    assert (await store.import_chats(ChatImport(chats=chats))).added == 2000
    assert len({summary.updated_at for summary in await store.list_summaries(ListRequest(limit=200))}) == 200
