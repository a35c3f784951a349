"""Pinned chats above the others, archived ones out of the way, deleted ones in the trash until they go for good."""

import pytest

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import ChatPatch, ChatShelf, NewChat, NewTurn
from app.core.errors import NotFound
from app.store.database import ChatStore
from app.store.listing import ListRequest
from tests.unit.store.conftest import Ask, unwritten


@pytest.fixture
async def chats(store: ChatStore) -> list[str]:
    """Return ten chats, the newest first."""
    return [(await store.create_chat(NewChat(title=f"Chat {number}"))).id for number in range(10)][::-1]


async def ids(store: ChatStore, **request: object) -> list[str]:
    return [summary.id for summary in await store.list_summaries(ListRequest(**request))]  # type: ignore[arg-type]  # by name


async def test_pinned_chats_stand_first_and_on_no_later_page(store: ChatStore, chats: list[str]) -> None:
    for chat in (chats[8], chats[3]):
        assert (await store.change_chat(chat, ChatPatch(is_pinned=True))).is_pinned
    others = [chat for chat in chats if chat not in {chats[8], chats[3]}]
    first = await store.list_summaries(ListRequest(limit=4))
    assert [summary.id for summary in first] == [chats[3], chats[8], *others[:4]]
    assert [summary.is_pinned for summary in first] == [True, True, False, False, False, False]
    assert await ids(store, limit=50, before=first[-1].updated_at) == others[4:]


async def test_archived_chats_are_out_of_the_way_and_come_back(store: ChatStore, chats: list[str]) -> None:
    await store.change_chat(chats[1], ChatPatch(is_archived=True))
    assert await ids(store) == [chats[0], *chats[2:]]
    assert await ids(store, shelf=ChatShelf.ARCHIVED) == [chats[1]]
    assert (await store.read_chat(chats[1])).is_archived
    await store.change_chat(chats[1], ChatPatch(is_archived=False))
    assert await ids(store) == chats


async def test_a_search_looks_on_one_shelf(store: ChatStore, chats: list[str], ask: Ask) -> None:
    for chat in chats[:3]:
        await ask(chat, "Where is the turntable?")
    await store.change_chat(chats[1], ChatPatch(is_archived=True))
    await store.delete_chat(chats[2])
    assert await ids(store, query="turntable") == [chats[0]]
    assert await ids(store, query="turntable", shelf=ChatShelf.ARCHIVED) == [chats[1]]
    assert await ids(store, query="turntable", shelf=ChatShelf.TRASH) == [chats[2]]


async def test_the_trash_shows_what_was_deleted_whether_archived_or_pinned(store: ChatStore, chats: list[str]) -> None:
    await store.change_chat(chats[0], ChatPatch(is_archived=True, is_pinned=True))
    await store.delete_chat(chats[0])
    assert await ids(store, shelf=ChatShelf.TRASH) == [chats[0]]
    assert await ids(store, shelf=ChatShelf.ARCHIVED) == []
    assert (await store.restore_chat(chats[0])).is_archived


async def test_only_what_is_in_the_trash_is_deleted_for_good(store: ChatStore, chats: list[str]) -> None:
    with pytest.raises(NotFound):
        await store.purge_chat(chats[0])
    await store.delete_chat(chats[0])
    await store.purge_chat(chats[0])
    assert await ids(store, shelf=ChatShelf.TRASH) == []
    with pytest.raises(NotFound):
        await store.restore_chat(chats[0])


async def test_files_go_with_the_last_chat_that_has_them(store: ChatStore, chats: list[str]) -> None:
    note = Attachment(
        id="a1", name="n.txt", kind=AttachmentKind.TEXT, media_type="text/plain", hash="f" * 64, size_bytes=2, tokens=1
    )
    await store.add_attachment(note, {AttachmentPart.ORIGINAL: b"Hi"})
    await store.begin_turn(chats[0], NewTurn(content="Read", attachments=["a1"]), unwritten(chats[0]))
    await store.delete_chat(chats[0])
    assert await store.read_file(note, AttachmentPart.ORIGINAL) == b"Hi"
    await store.purge_chat(chats[0])
    with pytest.raises(Exception, match="not there any more"):
        await store.read_file(note, AttachmentPart.ORIGINAL)
