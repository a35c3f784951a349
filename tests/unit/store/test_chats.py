import sqlite3
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.core.chats import ChatPatch, MessageStatus, NewChat, NewTurn, Role, Sampling, Timings
from app.core.errors import BadRequest, Conflict, NotFound
from app.store import rows
from app.store.database import ChatStore
from app.store.listing import ListRequest
from app.store.opening import transaction
from tests.unit.store.conftest import Ask, unwritten

DAY_S = 24 * 3600.0


async def test_a_chat_comes_back_as_it_was_made(store: ChatStore) -> None:
    chat = await store.create_chat(
        NewChat(title=" Fits ", model="guide", system_prompt="Be brief.", sampling=Sampling(temperature=0.5, seed=3))
    )
    assert (chat.title, chat.model, chat.system_prompt) == ("Fits", "guide", "Be brief.")
    assert chat.sampling == Sampling(temperature=0.5, seed=3)
    assert await store.read_chat(chat.id) == chat


async def test_a_turn_stores_the_question_and_an_answer_to_be(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "What is a slot?\nReally.", answer=None)
    stored_chat = await store.read_chat(chat)
    assert turn.question is not None
    assert [turn.question, turn.answer] == stored_chat.messages
    assert (turn.question.role, turn.question.parent, turn.question.status) == (Role.USER, None, "complete")
    assert (turn.answer.role, turn.answer.parent, turn.answer.status) == ("assistant", turn.question.id, "generating")
    assert (turn.answer.model, turn.answer.engine) == ("m", "e")
    assert (stored_chat.head, stored_chat.title) == (turn.answer.id, "What is a slot?")


async def test_a_second_question_does_not_rename_the_chat(store: ChatStore, chat: str, ask: Ask) -> None:
    first = await ask(chat, "First")
    await ask(chat, "Second", parent=first.answer.id)
    assert (await store.read_chat(chat)).title == "First"


async def test_regenerating_adds_a_sibling_of_the_answer(store: ChatStore, chat: str, ask: Ask) -> None:
    first = await ask(chat, "Why?", answer="Because.")
    assert first.question is not None
    again = await ask(chat, None, parent=first.question.id, answer="Just so.")
    assert again.question is None
    assert again.answer.parent == first.answer.parent == first.question.id
    stored_chat = await store.read_chat(chat)
    assert [message.content for message in stored_chat.messages] == ["Why?", "Because.", "Just so."]
    assert stored_chat.head == again.answer.id


async def test_editing_a_question_makes_a_branch(store: ChatStore, chat: str, ask: Ask) -> None:
    root = await ask(chat, "One", answer="1")
    await ask(chat, "Two", parent=root.answer.id, answer="2")
    branch = await ask(chat, "Three", parent=root.answer.id, answer="3")
    assert [message.content for message in await store.read_path(chat, branch.answer.id)] == ["One", "1", "Three", "3"]
    assert len((await store.read_chat(chat)).messages) == 6


async def test_the_reader_moves_to_another_branch(store: ChatStore, chat: str, ask: Ask) -> None:
    first = await ask(chat, "One")
    await ask(chat, "Other")
    assert (await store.change_chat(chat, ChatPatch(head=first.answer.id))).head == first.answer.id


async def test_a_patch_changes_only_what_it_names(store: ChatStore) -> None:
    chat = await store.create_chat(NewChat(title="A", model="m", system_prompt="p", sampling=Sampling(top_k=4)))
    patched_chat = await store.change_chat(chat.id, ChatPatch(title="B"))
    assert patched_chat == replace(chat, title="B")
    cleared_chat = await store.change_chat(chat.id, ChatPatch(system_prompt="", sampling=Sampling()))
    assert (cleared_chat.system_prompt, cleared_chat.sampling) == ("", Sampling())


@pytest.mark.parametrize("content", [None, "", "  \n"])
async def test_nothing_to_answer_is_refused(store: ChatStore, chat: str, content: str | None) -> None:
    with pytest.raises(BadRequest):
        await store.begin_turn(chat, NewTurn(content=content), unwritten(chat))
    assert (await store.read_chat(chat)).messages == []


async def test_a_parent_that_does_not_fit_is_refused(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "One")
    other = await store.create_chat(NewChat())
    assert turn.question is not None
    with pytest.raises(BadRequest):
        await ask(chat, None, parent=turn.answer.id)
    with pytest.raises(NotFound):
        await ask(other.id, "Two", parent=turn.answer.id)


async def test_asking_below_an_answer_still_being_written_is_refused(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "One", answer=None)
    with pytest.raises(Conflict):
        await ask(chat, "Two", parent=turn.answer.id)


async def test_what_does_not_exist_is_not_found(store: ChatStore, chat: str) -> None:
    for call in (
        store.read_chat("x"),
        store.delete_chat("x"),
        store.restore_chat("x"),
        store.read_message(chat, "x"),
        store.read_path("x", "y"),
    ):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(NotFound):
        await store.change_chat(chat, ChatPatch(head="x"))


async def test_text_saved_so_far_is_kept_and_finishing_is_final(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "Hm?", answer=None)
    await store.save_answer(replace(turn.answer, content="Half", reasoning="thinking"))
    message = await store.read_message(chat, turn.answer.id)
    assert (message.content, message.reasoning, message.status) == ("Half", "thinking", "generating")
    cost = Timings(total_s=1.5, completion_tokens=2)
    final = replace(turn.answer, content="Half done", status=MessageStatus.STOPPED, timings=cost, error="e")
    assert await store.finish_answer(final) == final
    assert await store.finish_answer(replace(final, content="other", status=MessageStatus.FAILED)) == final
    await store.save_answer(replace(turn.answer, content="late"))
    assert await store.read_message(chat, turn.answer.id) == final


async def test_finishing_records_usage_once(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "Hm?", answer=None)
    final = replace(turn.answer, status=MessageStatus.COMPLETE, timings=Timings(prompt_tokens=7, completion_tokens=2))
    await store.finish_answer(final)
    await store.finish_answer(final)
    all_rows = await store._run_job(
        lambda c: c.execute("SELECT model, prompt_tokens, completion_tokens FROM usage").fetchall()
    )
    assert all_rows == [("m", 7, 2)]


async def test_deleting_is_undone_by_restoring(store: ChatStore, chat: str, ask: Ask) -> None:
    await ask(chat, "Keep me")
    before = await store.read_chat(chat)
    await store.delete_chat(chat)
    assert await store.list_summaries() == []
    assert await store.list_summaries(ListRequest("keep")) == []
    with pytest.raises(NotFound):
        await store.read_chat(chat)
    with pytest.raises(NotFound):
        await ask(chat, "More")
    assert await store.restore_chat(chat) == before
    assert await store.restore_chat(chat) == before
    assert [summary.id for summary in await store.list_summaries(ListRequest("keep"))] == [chat]


async def test_what_was_deleted_thirty_days_ago_is_purged_at_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await ChatStore.open(path)
    old, recent = [(await store.create_chat(NewChat(title=title))).id for title in ("old", "recent")]
    now = time.time()
    for chat, age_days in ((old, 31.1), (recent, 30.9)):
        monkeypatch.setattr(time, "time", lambda age=age_days: now - age * DAY_S)
        await store.delete_chat(chat)
    monkeypatch.setattr(time, "time", lambda: now)
    await store.close()
    store = await ChatStore.open(path)
    with pytest.raises(NotFound):
        await store.restore_chat(old)
    assert (await store.restore_chat(recent)).title == "recent"
    await store.close()


async def test_a_clock_set_back_reorders_nothing_within_a_chat(
    store: ChatStore, chat: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ask(chat, "One", answer="1")
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    last = await ask(chat, "Two", parent=first.answer.id, answer="2")
    assert [message.content for message in (await store.read_chat(chat)).messages] == ["One", "1", "Two", "2"]
    assert [message.content for message in await store.read_path(chat, last.answer.id)] == ["One", "1", "Two", "2"]


async def test_paging_skips_none_even_when_the_clock_stands_still(
    store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    chat_ids = [(await store.create_chat(NewChat(title=str(number)))).id for number in range(7)]
    listed_ids: list[str] = []
    before = None
    while page := await store.list_summaries(ListRequest(limit=3, before=before)):
        listed_ids += [summary.id for summary in page]
        before = page[-1].updated_at
    assert listed_ids == chat_ids[::-1]


async def test_a_summary_counts_messages_and_follows_activity(store: ChatStore, ask: Ask) -> None:
    older, newer = [(await store.create_chat(NewChat(title=title, model="x"))).id for title in ("older", "newer")]
    assert [summary.id for summary in await store.list_summaries()] == [newer, older]
    await ask(older, "Hm?")
    first, _ = await store.list_summaries()
    assert (first.id, first.message_count, first.model) == (older, 2, "x")


@pytest.mark.slow
async def test_opening_a_chat_of_five_thousand_messages_is_quick(store: ChatStore, chat: str) -> None:
    """Quicker than 800 steps of a plain loop for each message: a tenth of a second on a fast processor."""
    await store._run_job(rows_of_a_long_chat, chat)
    times, yardsticks = [], []
    for _ in range(3):
        began = time.process_time()
        read = await store.read_chat(chat)
        times.append(time.process_time() - began)
        yardsticks.append(time_loop(len(read.messages) * 800))
    assert len(read.messages) == 5000
    assert min(times) < min(yardsticks)


def time_loop(steps: int) -> float:
    """Return what a plain loop takes of this processor."""
    began = time.process_time()
    for _ in range(steps):
        pass
    return time.process_time() - began


def rows_of_a_long_chat(connection: sqlite3.Connection, chat: str) -> None:
    text = "lorem ipsum " * 40
    with transaction(connection):
        for number in range(5000):
            values = (f"{number}", chat, f"{number - 1}" if number else None, "user", text, "", "complete", "", "", 1.0)
            connection.execute(rows._ADD_MESSAGE, values)


@pytest.mark.slow
async def test_a_long_chat_can_be_purged(path: Path) -> None:
    store = await ChatStore.open(path)
    chat = (await store.create_chat(NewChat())).id
    await store._run_job(rows_of_a_long_chat, chat)
    await store._run_job(lambda connection: connection.execute("UPDATE chats SET deleted_at = 1.0"))
    await store.close()
    store = await ChatStore.open(path)
    assert await store._run_job(lambda connection: connection.execute("SELECT count(*) FROM messages").fetchone()) == (
        0,
    )
    await store.close()
