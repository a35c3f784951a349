import errno
import stat
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import MessageStatus, NewChat, NewTurn
from app.core.errors import BadRequest, Conflict, NotFound, StorageFault
from app.store import opening
from app.store.database import ChatStore
from app.store.files import AttachmentFiles, hash_of
from app.store.rows import new_id
from tests.unit.store.conftest import Ask, unwritten


async def keep(store: ChatStore, content: bytes, name: str = "notes.txt") -> Attachment:
    attachment = Attachment(
        id=new_id(),
        name=name,
        kind=AttachmentKind.TEXT,
        media_type="text/plain",
        hash=hash_of(content),
        size_bytes=len(content),
        tokens=1,
    )
    return await store.add_attachment(
        attachment, {AttachmentPart.ORIGINAL: content, AttachmentPart.TEXT: content.upper()}
    )


def names_in(path: Path) -> set[str]:
    folder = path.with_name("attachments")
    return {file.name for file in folder.iterdir()} if folder.exists() else set()


async def send(store: ChatStore, chat: str, *attachments: Attachment, content: str = "What is it?") -> str:
    turn = NewTurn(content=content, attachments=[attachment.id for attachment in attachments])
    question = (await store.begin_turn(chat, turn, unwritten(chat))).question
    assert question is not None
    return question.id


async def test_a_question_keeps_its_files_in_order(store: ChatStore, chat: str) -> None:
    first, second = await keep(store, b"one", "1.txt"), await keep(store, b"two", "2.txt")
    question = await send(store, chat, second, first)
    for message in (
        (await store.read_chat(chat)).messages[0],
        await store.read_message(chat, question),
        (await store.read_path(chat, question))[0],
    ):
        assert message.attachments == [second, first]
    assert await store.read_file(first, AttachmentPart.TEXT) == b"ONE"


@pytest.mark.skipif(sys.platform == "win32", reason="no such modes there")
async def test_files_are_their_owners_alone(store: ChatStore, path: Path) -> None:
    await keep(store, b"secret")
    folder = path.with_name("attachments")
    modes = {stat.S_IMODE(place.stat().st_mode) for place in folder.iterdir()}
    assert (stat.S_IMODE(folder.stat().st_mode), modes) == (0o700, {0o600})


async def test_the_same_file_is_kept_once_and_freed_with_its_last_use(store: ChatStore, path: Path) -> None:
    first, second = await keep(store, b"same"), await keep(store, b"same")
    assert names_in(path) == {first.hash, f"{first.hash}.text"}
    await store.remove_attachment(first.id)
    assert names_in(path) == {first.hash, f"{first.hash}.text"}
    await store.remove_attachment(second.id)
    assert names_in(path) == set()
    with pytest.raises(NotFound):
        await store.read_attachments([first.id])
    with pytest.raises(StorageFault):
        await store.read_file(first, AttachmentPart.TEXT)


async def test_a_file_of_a_question_is_not_removed_and_can_be_used_again(store: ChatStore, chat: str) -> None:
    attachment = await keep(store, b"again")
    await send(store, chat, attachment)
    with pytest.raises(Conflict):
        await store.remove_attachment(attachment.id)
    other = (await store.create_chat(NewChat())).id
    await send(store, other, attachment)
    copy = (await store.read_chat(other)).messages[0].attachments[0]
    assert copy.id != attachment.id
    assert copy.hash == attachment.hash


async def test_a_question_of_files_alone_is_titled_by_the_first(store: ChatStore, chat: str) -> None:
    await send(store, chat, await keep(store, b"x", "Minutes.txt"), content=" ")
    assert (await store.read_chat(chat)).title == "Minutes.txt"


async def test_files_need_a_question_and_must_exist(store: ChatStore, chat: str, ask: Ask) -> None:
    turn = await ask(chat, "Why?")
    assert turn.question is not None
    attachment = await keep(store, b"x")
    for new in (
        NewTurn(content=""),
        NewTurn(parent=turn.question.id, attachments=[attachment.id]),
    ):
        with pytest.raises(BadRequest):
            await store.begin_turn(chat, new, unwritten(chat))
    with pytest.raises(NotFound):
        await store.begin_turn(chat, NewTurn(content="?", attachments=["none"]), unwritten(chat))
    assert len((await store.read_chat(chat)).messages) == 2


async def test_files_leave_with_a_chat_that_leaves_the_trash(
    store: ChatStore, chat: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_file, other = await keep(store, b"shared"), (await store.create_chat(NewChat())).id
    own_file = await keep(store, b"gone")
    await send(store, chat, shared_file, own_file)
    await send(store, other, shared_file)
    await store.delete_chat(chat)
    await store.close()
    store = await ChatStore.open(path)
    assert own_file.hash in names_in(path), "the chat can still be restored"
    await store.close()
    monkeypatch.setattr(opening, "KEEP_DELETED_S", -2 * opening.CLOCK_SLACK_S)
    store = await ChatStore.open(path)
    assert names_in(path) == {shared_file.hash, f"{shared_file.hash}.text"}
    await store.close()


async def test_what_was_never_sent_is_forgotten_after_a_day(
    store: ChatStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attachment = await keep(store, b"draft")
    await store.close()
    store = await ChatStore.open(path)
    assert await store.read_attachments([attachment.id]) == [attachment]
    await store.close()
    monkeypatch.setattr("app.store.attachments._KEEP_UNSENT_S", -2 * opening.CLOCK_SLACK_S)
    store = await ChatStore.open(path)
    assert names_in(path) == set()
    await store.close()


async def test_halves_and_strays_are_swept_and_foreign_files_are_not(store: ChatStore, path: Path) -> None:
    attachment = await keep(store, b"kept")
    folder = path.with_name("attachments")
    stray = hash_of(b"stray")
    for name in (stray, f"{stray}.text", f"{attachment.hash}.picture.part", "holiday.jpg"):
        (folder / name).write_bytes(b"?")
    AttachmentFiles(folder).sweep({attachment.hash})
    assert names_in(path) == {attachment.hash, f"{attachment.hash}.text", "holiday.jpg"}


async def test_the_files_of_a_damaged_database_are_set_aside_with_it(store: ChatStore, path: Path) -> None:
    attachment = await keep(store, b"precious")
    await store.close()
    path.write_bytes(b"no database at all" * 500)  # noqa: ASYNC240 -- nothing else runs
    store = await ChatStore.open(path)
    await store.close()
    aside = next(path.parent.glob("attachments.of-*"))
    assert (aside / attachment.hash).read_bytes() == b"precious"
    assert not path.with_name("attachments").exists()


async def test_a_full_disk_keeps_nothing_of_a_file_and_a_later_try_does(
    store: ChatStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        with pytest.raises(StorageFault) as failure:
            await keep(store, b"too much")
    assert failure.value.code == "disk_full"
    assert names_in(path) == set()
    assert (await store.count_rows())["attachments"] == 0
    attachment = await keep(store, b"too much")
    assert await store.read_file(attachment, AttachmentPart.TEXT) == b"TOO MUCH"


async def test_an_answer_owns_what_was_drawn_for_it(store: ChatStore, chat: str) -> None:
    answer = (await store.begin_turn(chat, NewTurn(content="Draw."), unwritten(chat))).answer
    picture = await keep(store, b"drawn", "engine.png")
    await store.attach_to_answer(answer.id, picture.id)
    message = await store.finish_answer(replace(answer, content="Here", status=MessageStatus.STOPPED))
    assert message.attachments == [picture]
    with pytest.raises(Conflict, match="belongs to a question"):
        await store.remove_attachment(picture.id)
    longer = (await store.begin_turn(chat, NewTurn(continues=message.id), unwritten(chat))).answer
    assert [(file.hash, file.id != picture.id) for file in longer.attachments] == [(picture.hash, True)]
    with pytest.raises(NotFound):
        await store.attach_to_answer("nobody", (await keep(store, b"late")).id)
