"""Single messages: other versions, deleted and brought back, and chats that begin with a copy."""

import sqlite3
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import Chat, ChatPatch, ForkChat, Message, MessageStatus, NewChat, NewTurn, Role, Sampling
from app.core.errors import BadRequest, Conflict, NotFound
from app.store.database import ChatStore
from app.store.listing import ListRequest
from tests.unit.store.conftest import Ask, unwritten

DAY_S = 24 * 3600.0
FILE = Attachment(
    id="f1", name="shed.txt", kind=AttachmentKind.TEXT, media_type="text/plain", hash="0" * 64, size_bytes=2, tokens=1
)


async def talk(ask: Ask, chat: str, *pairs: tuple[str, str]) -> list[Message]:
    """Ask one after the other; return all messages."""
    messages: list[Message] = []
    for question, answer in pairs:
        turn = await ask(chat, question, parent=messages[-1].id if messages else None, answer=answer)
        assert turn.question is not None
        messages += [turn.question, turn.answer]
    return messages


async def words_shown(store: ChatStore, chat: str) -> list[str]:
    head = (await store.read_chat(chat)).head
    return [] if head is None else [message.content for message in await store.read_path(chat, head)]


def shapes(chat: Chat) -> list[tuple[str, str | None]]:
    by_id = {message.id: message.content for message in chat.messages}
    return [(message.content, by_id.get(message.parent or "")) for message in chat.messages]


async def test_a_message_between_others_goes_alone_and_comes_back(store: ChatStore, chat: str, ask: Ask) -> None:
    messages = await talk(ask, chat, ("1?", "1."), ("2?", "2."), ("3?", "3."))
    before = await store.read_chat(chat)
    await store.delete_message(chat, messages[2].id)
    await store.delete_message(chat, messages[1].id)
    assert await words_shown(store, chat) == ["1?", "2.", "3?", "3."]
    assert shapes(await store.read_chat(chat)) == [("1?", None), ("2.", "1?"), ("3?", "2."), ("3.", "3?")]
    assert (await store.read_message(chat, messages[3].id)).parent == messages[0].id
    for message in messages[1:3]:
        restored_chat = await store.restore_message(chat, message.id)
    assert restored_chat == before


async def test_after_the_last_message_the_reader_is_at_the_one_before(store: ChatStore, chat: str, ask: Ask) -> None:
    messages = await talk(ask, chat, ("1?", "1."), ("2?", "2."))
    await store.delete_message(chat, messages[3].id)
    assert await words_shown(store, chat) == ["1?", "1.", "2?"]
    await store.delete_message(chat, messages[2].id)
    assert await words_shown(store, chat) == ["1?", "1."]
    restored_chat = await store.restore_message(chat, messages[2].id)
    assert restored_chat.head == messages[2].id
    assert (await store.restore_message(chat, messages[3].id)).head == messages[3].id


async def test_after_a_version_the_reader_is_at_another(store: ChatStore, chat: str, ask: Ask) -> None:
    first = await ask(chat, "Why?", answer="Because.")
    assert first.question is not None
    await ask(chat, "So?", parent=first.answer.id, answer="So.")
    again = await ask(chat, None, parent=first.question.id, answer="Just so.")
    await store.delete_message(chat, again.answer.id)
    assert await words_shown(store, chat) == ["Why?", "Because.", "So?", "So."]


async def test_everything_can_be_deleted_and_asked_again(store: ChatStore, chat: str, ask: Ask) -> None:
    for message in await talk(ask, chat, ("1?", "1.")):
        await store.delete_message(chat, message.id)
    empty = await store.read_chat(chat)
    assert (empty.messages, empty.head) == ([], None)
    await ask(chat, "2?", answer="2.")
    assert await words_shown(store, chat) == ["2?", "2."]


async def test_a_question_may_follow_one_whose_answer_was_deleted(store: ChatStore, chat: str, ask: Ask) -> None:
    messages = await talk(ask, chat, ("1?", "1."))
    await store.delete_message(chat, messages[1].id)
    await ask(chat, "2?", parent=messages[0].id, answer="Both.")
    assert await words_shown(store, chat) == ["1?", "2?", "Both."]


async def test_what_is_deleted_is_not_found_counted_or_searched(store: ChatStore, chat: str, ask: Ask) -> None:
    messages = await talk(ask, chat, ("turntable?", "roundhouse."))
    await store.delete_message(chat, messages[1].id)
    assert [summary.message_count for summary in await store.list_summaries(ListRequest())] == [1]
    assert await store.list_summaries(ListRequest("roundhouse")) == []
    for call in (
        store.read_message(chat, messages[1].id),
        store.delete_message(chat, messages[1].id),
        store.add_version(chat, messages[1].id, "x"),
        store.fork_chat(chat, ForkChat(message=messages[1].id)),
        store.change_chat(chat, ChatPatch(head=messages[1].id)),
    ):
        with pytest.raises(NotFound, match="no such message"):
            await call
    await store.restore_message(chat, messages[1].id)
    assert [summary.id for summary in await store.list_summaries(ListRequest("roundhouse"))] == [chat]


async def test_what_is_being_answered_stays(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "1?", answer=None)
    assert turn.question is not None
    for message in (turn.question, turn.answer):
        with pytest.raises(Conflict) as error:
            await store.delete_message(chat, message.id)
        assert error.value.code == "answer_in_progress"
    with pytest.raises(Conflict):
        await store.add_version(chat, turn.answer.id, "Mine")
    with pytest.raises(Conflict):
        await store.fork_chat(chat, ForkChat(message=turn.answer.id))
    assert len((await store.read_chat(chat)).messages) == 2


async def test_messages_of_other_chats_are_not_touched(store: ChatStore, chat: str, ask: Ask) -> None:
    other = (await store.create_chat(NewChat())).id
    messages = await talk(ask, chat, ("1?", "1."))
    for call in (store.delete_message, store.restore_message):
        with pytest.raises(NotFound):
            await call(other, messages[1].id)
        with pytest.raises(NotFound):
            await call("nowhere", messages[1].id)
    assert await words_shown(store, chat) == ["1?", "1."]


async def test_restoring_what_was_never_deleted_changes_nothing(store: ChatStore, chat: str, ask: Ask) -> None:
    messages = await talk(ask, chat, ("1?", "1."), ("2?", "2."))
    before = await store.read_chat(chat)
    assert await store.restore_message(chat, messages[1].id) == before


async def test_an_edited_answer_is_a_version_of_the_models(store: ChatStore, chat: str, ask: Ask) -> None:
    messages = await talk(ask, chat, ("1?", "Wrong."), ("2?", "2."))
    version = await store.add_version(chat, messages[1].id, "Right.")
    assert (version.role, version.parent, version.model) == (Role.ASSISTANT, messages[0].id, "m")
    assert (version.status, version.is_edited, version.timings) == (MessageStatus.COMPLETE, True, None)
    assert await words_shown(store, chat) == ["1?", "Right."]
    assert len((await store.read_chat(chat)).messages) == 5
    assert not (await store.read_message(chat, messages[1].id)).is_edited


async def test_an_edited_question_keeps_its_files(store: ChatStore, chat: str) -> None:
    await store.add_attachment(FILE, {AttachmentPart.TEXT: b"23"})
    turn = await store.begin_turn(chat, NewTurn(content="What?", attachments=["f1"]), unwritten(chat))
    await store.finish_answer(replace(turn.answer, content="23 m", status=MessageStatus.COMPLETE))
    assert turn.question is not None
    version = await store.add_version(chat, turn.question.id, "How long?")
    assert (version.is_edited, [file.name for file in version.attachments]) == (False, ["shed.txt"])
    again = await store.read_message(chat, turn.question.id)
    assert again.attachments != version.attachments
    assert (await store.add_version(chat, turn.question.id, "")).attachments  # the file is the question


@pytest.mark.parametrize("content", ["", "  \n"])
async def test_nothing_is_no_version(store: ChatStore, chat: str, ask: Ask, content: str) -> None:
    messages = await talk(ask, chat, ("1?", "1."))
    with pytest.raises(BadRequest):
        await store.add_version(chat, messages[1].id, content)


async def test_a_fork_has_the_branch_and_nothing_else(store: ChatStore, ask: Ask) -> None:
    new = NewChat(title="Rails", model="guide", system_prompt="Be brief.", sampling=Sampling(seed=3))
    chat = (await store.create_chat(new)).id
    messages = await talk(ask, chat, ("1?", "1."), ("2?", "2."))
    await ask(chat, None, parent=messages[0].id, answer="another")
    await store.delete_message(chat, messages[1].id)
    before = await store.read_chat(chat)
    fork = await store.fork_chat(chat, ForkChat(message=messages[2].id))
    assert shapes(fork) == [("1?", None), ("2?", "1?")]
    assert fork.head == fork.messages[-1].id
    assert (fork.title, fork.model, fork.system_prompt, fork.sampling) == ("Rails", "guide", "Be brief.", new.sampling)
    assert not {message.id for message in fork.messages} & {message.id for message in before.messages}
    assert await store.read_chat(chat) == before
    assert (await store.fork_chat(chat, ForkChat(message=messages[2].id, title=" Points "))).title == "Points"


async def test_a_fork_keeps_the_files_when_its_source_is_gone(store: ChatStore, chat: str) -> None:
    await store.add_attachment(FILE, {AttachmentPart.TEXT: b"23"})
    turn = await store.begin_turn(chat, NewTurn(content="What?", attachments=["f1"]), unwritten(chat))
    assert turn.question is not None
    fork = await store.fork_chat(chat, ForkChat(message=turn.question.id))
    await store.delete_chat(chat)
    await store.purge_chat(chat)
    (file,) = (await store.read_chat(fork.id)).messages[0].attachments
    assert await store.read_file(file, AttachmentPart.TEXT) == b"23"


@pytest.mark.parametrize("age_days", [29, 32])
async def test_a_deleted_message_is_kept_for_thirty_days(
    store: ChatStore, chat: str, ask: Ask, path: Path, age_days: float
) -> None:
    messages = await talk(ask, chat, ("1?", "1."), ("2?", "2."))
    for message in messages[1:3]:
        await store.delete_message(chat, message.id)
    before = await store.read_chat(chat)
    await store.close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE messages SET deleted_at = ? WHERE deleted_at IS NOT NULL", (time.time() - age_days * DAY_S,)
        )
    connection.close()
    new_store = await ChatStore.open(path)
    try:
        assert await new_store.read_chat(chat) == before
        if age_days < 30:
            assert len((await new_store.restore_message(chat, messages[1].id)).messages) == 3
        else:
            with pytest.raises(NotFound):
                await new_store.restore_message(chat, messages[1].id)
    finally:
        await new_store.close()
