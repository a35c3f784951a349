import pytest
from msgspec.structs import replace

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import ChatFolderPatch, ChatImport, ChatPatch, ChatShelf, NewChat, NewChatFolder, NewTurn, TagCount
from app.core.errors import BadRequest, Conflict, NotFound
from app.store import rows
from app.store.database import ChatStore
from app.store.files import hash_of
from app.store.listing import ListRequest
from tests.unit.store.conftest import Ask, unwritten


async def keep(store: ChatStore, content: bytes) -> Attachment:
    attachment = Attachment(
        id=rows.new_id(),
        name="rules.txt",
        kind=AttachmentKind.TEXT,
        media_type="text/plain",
        hash=hash_of(content),
        size_bytes=len(content),
        tokens=3,
    )
    parts = {AttachmentPart.ORIGINAL: content, AttachmentPart.TEXT: content}
    return await store.add_attachment(attachment, parts)


async def ids_of(store: ChatStore, request: ListRequest) -> list[str]:
    return [summary.id for summary in await store.list_summaries(request)]


async def test_a_new_chat_begins_with_what_its_folder_has(store: ChatStore) -> None:
    folder = await store.create_folder(NewChatFolder(name="  Steam \n", model="guide", system_prompt="Be brief."))
    assert folder.name == "Steam"
    chat = await store.create_chat(NewChat(folder=folder.id))
    assert (chat.folder, chat.model, chat.system_prompt) == (folder.id, "guide", "Be brief.")
    own = await store.create_chat(NewChat(folder=folder.id, model="other", system_prompt=""))
    assert (own.model, own.system_prompt) == ("other", "")
    await store.change_folder(folder.id, ChatFolderPatch(system_prompt="Be long."))
    assert (await store.read_chat(chat.id)).system_prompt == "Be brief."
    assert (await store.read_folder(folder.id)).chat_count == 2


async def test_chats_are_listed_by_folder_and_outside_of_them(store: ChatStore) -> None:
    folder = await store.create_folder(NewChatFolder(name="Steam"))
    inside, outside = [(await store.create_chat(NewChat(title=title))).id for title in ("in", "out")]
    await store.change_chat(inside, ChatPatch(folder=folder.id, is_pinned=True))
    assert await ids_of(store, ListRequest(folder=folder.id)) == [inside]
    assert await ids_of(store, ListRequest(folder="")) == [outside]
    assert await ids_of(store, ListRequest(query="in", folder=folder.id)) == [inside]
    assert await ids_of(store, ListRequest(query="out", folder=folder.id)) == []
    assert set(await ids_of(store, ListRequest())) == {inside, outside}
    await store.change_chat(inside, ChatPatch(folder=""))
    assert await ids_of(store, ListRequest(folder=folder.id)) == []


async def test_a_deleted_folder_leaves_its_chats(store: ChatStore) -> None:
    folder = await store.create_folder(NewChatFolder(name="Steam"))
    chat = (await store.create_chat(NewChat(folder=folder.id))).id
    assert await store.delete_folder(folder.id, with_chats=False) == [chat]
    assert (await store.read_chat(chat)).folder == ""
    assert await store.list_folders() == []


async def test_the_chats_of_a_folder_go_to_the_trash_only_when_that_is_asked_for(store: ChatStore) -> None:
    folder = await store.create_folder(NewChatFolder(name="Steam"))
    chat = (await store.create_chat(NewChat(folder=folder.id))).id
    await store.delete_folder(folder.id, with_chats=True)
    assert await ids_of(store, ListRequest(shelf=ChatShelf.TRASH)) == [chat]
    assert (await store.restore_chat(chat)).folder == ""


async def test_a_folder_owns_files_and_questions_get_copies(store: ChatStore) -> None:
    rules, more = await keep(store, b"rules"), await keep(store, b"more")
    folder = await store.create_folder(NewChatFolder(name="Steam", files=[rules.id, more.id]))
    assert [file.id for file in folder.files] == [rules.id, more.id]
    chat = (await store.create_chat(NewChat(folder=folder.id))).id
    turn = await store.begin_turn(chat, NewTurn(content="Why?", attachments=[rules.id]), unwritten(chat))
    assert turn.question is not None
    assert [file.hash for file in turn.question.attachments] == [rules.hash]
    assert turn.question.attachments[0].id != rules.id
    with pytest.raises(Conflict):
        await store.remove_attachment(more.id)
    patched_folder = await store.change_folder(folder.id, ChatFolderPatch(files=[more.id]))
    assert [file.id for file in patched_folder.files] == [more.id]
    assert await store.read_file(rules, AttachmentPart.TEXT) == b"rules"  # the question has it
    await store.delete_folder(folder.id, with_chats=False)
    with pytest.raises(NotFound):
        await store.read_attachments([more.id])


@pytest.mark.parametrize("name", ["", "  ", "\n", "x" * 81])
async def test_a_folder_needs_a_name(store: ChatStore, name: str) -> None:
    with pytest.raises(BadRequest):
        await store.create_folder(NewChatFolder(name=name))
    folder = await store.create_folder(NewChatFolder(name="Steam"))
    with pytest.raises(BadRequest):
        await store.change_folder(folder.id, ChatFolderPatch(name=name))


async def test_a_folder_that_is_not_there_changes_nothing(store: ChatStore, chat: str) -> None:
    for attempt in (
        store.create_chat(NewChat(folder="gone")),
        store.change_chat(chat, ChatPatch(folder="gone", title="other")),
        store.change_folder("gone", ChatFolderPatch(name="x")),
        store.delete_folder("gone", with_chats=True),
        store.create_folder(NewChatFolder(name="x", files=["gone"])),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await store.read_chat(chat)).title == ""
    assert await store.list_folders() == []


async def test_tags_are_kept_once_and_found(store: ChatStore, chat: str) -> None:
    patched_chat = await store.change_chat(chat, ChatPatch(tags=[" #work ", "Work", "two  words", ""]))
    assert patched_chat.tags == ["two words", "work"]
    other = (await store.create_chat(NewChat(tags=["work"]))).id
    assert set(await ids_of(store, ListRequest(tag="Work"))) == {chat, other}
    assert await ids_of(store, ListRequest(tag="two words")) == [chat]
    assert await ids_of(store, ListRequest(tag="two")) == []
    assert await store.list_tags() == [TagCount(tag="two words", count=1), TagCount(tag="work", count=2)]
    await store.delete_chat(other)
    assert await store.list_tags() == [TagCount(tag="two words", count=1), TagCount(tag="work", count=1)]
    assert (await store.change_chat(chat, ChatPatch(tags=[]))).tags == []


@pytest.mark.parametrize("tags", [["x" * 41], [str(number) for number in range(21)]])
async def test_tags_have_bounds(store: ChatStore, chat: str, tags: list[str]) -> None:
    await store.change_chat(chat, ChatPatch(tags=["kept"]))
    with pytest.raises(BadRequest):
        await store.change_chat(chat, ChatPatch(tags=tags, title="other"))
    stored_chat = await store.read_chat(chat)
    assert (stored_chat.tags, stored_chat.title) == (["kept"], "")


async def test_an_import_brings_folders_tags_and_pins(store: ChatStore, ask: Ask) -> None:
    folder = await store.create_folder(NewChatFolder(name="Steam", model="guide", files=[(await keep(store, b"x")).id]))
    new_chat = await store.create_chat(NewChat(folder=folder.id, tags=["work"]))
    await ask(new_chat.id, "Why?")
    chat = await store.change_chat(new_chat.id, ChatPatch(is_pinned=True))
    await store.delete_chat(new_chat.id)
    await store.purge_chat(new_chat.id)
    await store.delete_folder(folder.id, with_chats=False)
    again = replace(folder, files=[await keep(store, b"x")])
    for _ in range(2):
        await store.import_chats(ChatImport(chats=[chat], folders=[again]))
        there = await store.read_chat(chat.id)
        assert (there.folder, there.tags, there.is_pinned) == (folder.id, ["work"], True)
        (stored_folder,) = await store.list_folders()
        assert (stored_folder.name, stored_folder.model, [file.hash for file in stored_folder.files]) == (
            "Steam",
            "guide",
            [hash_of(b"x")],
        )
    with pytest.raises(BadRequest):
        await store.import_chats(ChatImport(chats=[], folders=[replace(folder, id="no id")]))
