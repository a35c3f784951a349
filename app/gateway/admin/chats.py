"""Chats over HTTP. Whatever changes a chat is told to every window; an answer goes on when its follower leaves."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

import msgspec

from app.core.chats import (
    AnswerEvent,
    Chat,
    ChatFolder,
    ChatFolderPatch,
    ChatImport,
    ChatImportResult,
    ChatPatch,
    ChatShelf,
    ChatSummary,
    ForkChat,
    Message,
    NewChat,
    NewChatFolder,
    NewTurn,
    NewVersion,
    TagCount,
    Turn,
)
from app.core.errors import Forbidden
from app.core.events import ChatChanged, ChatFoldersChanged
from app.core.tokens import CountText, TextTokens
from app.core.tool_calls import ChatTools, DecideToolCall
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.store.listing import MAX_PAGE, ListRequest

routes = RouteTable()


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`query` searches; `before` is the `updated_at` of the last chat already seen.

    `folder` shows one folder's chats, an empty one those in none; `tag` those that have it. With `has_titles_first` a
    search begins with the titles that start with its text and those that have its words; it has one page then.
    """

    query: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 50
    before: float | None = None
    shelf: ChatShelf = ChatShelf.CURRENT
    folder: str | None = None
    tag: str = ""
    has_titles_first: bool = False


class FolderDeleteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`with_chats` moves its chats to the trash; else they stay, in no folder."""

    with_chats: bool = False


class DeleteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`for_good` deletes what is in the trash already."""

    for_good: bool = False


class FollowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`offset` is how many characters of the answer the reader has."""

    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


@routes.add("GET", "/chats")
async def list_chats(call: AdminCall[None, ListQuery]) -> list[ChatSummary]:
    """List or search chats, newest first."""
    return await call.services.chats.list_summaries(ListRequest(**msgspec.structs.asdict(call.query)))


@routes.add("POST", "/chats")
async def create(call: AdminCall[NewChat, NoQuery]) -> Chat:
    """Begin a chat."""
    call.body.sampling.check_forms()
    if call.body.tools != ChatTools():
        _require_person(call, "give a chat tools")
    new = msgspec.structs.replace(call.body, collections=await _collection_ids(call, call.body.collections))
    return _publish_change(call, await call.services.chats.create_chat(new))


@routes.add("POST", "/chats/import")
async def import_chats(call: AdminCall[ChatImport, NoQuery]) -> ChatImportResult:
    """Add chats that were written elsewhere; those that are there already change nothing."""
    result = await call.services.chats.import_chats(call.body)
    if call.body.folders:
        call.services.events.publish(ChatFoldersChanged())
    for chat in call.body.chats:
        call.services.events.publish(ChatChanged(chat=chat.id))
    return result


@routes.add("GET", "/chats/tags")
async def list_chat_tags(call: AdminCall[None, NoQuery]) -> list[TagCount]:
    """List the tags that chats have."""
    return await call.services.chats.list_tags()


@routes.add("GET", "/chats/folders")
async def list_chat_folders(call: AdminCall[None, NoQuery]) -> list[ChatFolder]:
    """List the folders of chats by name."""
    return await call.services.chats.list_folders()


@routes.add("POST", "/chats/folders")
async def create_chat_folder(call: AdminCall[NewChatFolder, NoQuery]) -> ChatFolder:
    """Add a folder for chats."""
    return _publish_folder(call, await call.services.chats.create_folder(call.body))


@routes.add("GET", "/chats/folders/{id}")
async def read_chat_folder(call: AdminCall[None, NoQuery]) -> ChatFolder:
    """Show a folder of chats."""
    return await call.services.chats.read_folder(call.names["id"])


@routes.add("PATCH", "/chats/folders/{id}")
async def change_chat_folder(call: AdminCall[ChatFolderPatch, NoQuery]) -> ChatFolder:
    """Change a folder, and what new chats in it begin with."""
    return _publish_folder(call, await call.services.chats.change_folder(call.names["id"], call.body))


@routes.add("DELETE", "/chats/folders/{id}")
async def delete_chat_folder(call: AdminCall[None, FolderDeleteQuery]) -> None:
    """Delete a folder; its chats stay, in no folder, or go to the trash with `with_chats`."""
    with_chats = call.query.with_chats
    chats = await call.services.chats.delete_folder(call.names["id"], with_chats=with_chats)
    for chat in chats:
        if with_chats:
            await call.answers.stop_all(chat)
        call.services.events.publish(ChatChanged(chat=chat, deleted=with_chats))
    call.services.events.publish(ChatFoldersChanged())


@routes.add("GET", "/chats/{id}")
async def read(call: AdminCall[None, NoQuery]) -> Chat:
    """Show a chat with all its messages."""
    return call.answers.overlay_live(await call.services.chats.read_chat(call.names["id"]))


@routes.add("PATCH", "/chats/{id}")
async def change(call: AdminCall[ChatPatch, NoQuery]) -> Chat:
    """Change what is about a chat."""
    if call.body.sampling is not None:
        call.body.sampling.check_forms()
    if call.body.tool_servers is not None or call.body.asks_again:
        _require_person(call, "give a chat tools")
    patch = call.body
    if patch.collections is not None:
        patch = msgspec.structs.replace(patch, collections=await _collection_ids(call, patch.collections))
    if patch.folder == "" or patch.tags is not None:
        call.services.events.publish(ChatFoldersChanged())
    return call.answers.overlay_live(
        _publish_change(call, await call.services.chats.change_chat(call.names["id"], patch))
    )


@routes.add("DELETE", "/chats/{id}")
async def delete(call: AdminCall[None, DeleteQuery]) -> None:
    """Delete a chat; it can be restored for 30 days.

    Its answers stop. With `for_good`, one that is in the trash is deleted, and cannot be restored.
    """
    chat = call.names["id"]
    if call.query.for_good:
        await call.services.chats.purge_chat(chat)
        call.services.events.publish(ChatChanged(chat=chat, deleted=True))
        return
    await call.answers.stop_all(chat)
    await call.services.chats.delete_chat(chat)
    call.services.events.publish(ChatChanged(chat=chat, deleted=True))
    call.services.events.publish(ChatFoldersChanged())


@routes.add("POST", "/chats/{id}/restore")
async def restore(call: AdminCall[None, NoQuery]) -> Chat:
    """Bring a deleted chat back."""
    return _publish_change(call, await call.services.chats.restore_chat(call.names["id"]))


@routes.add("POST", "/chats/{id}/fork")
async def fork(call: AdminCall[ForkChat, NoQuery]) -> Chat:
    """Begin a chat with a copy of everything down to a message."""
    return _publish_change(call, await call.services.chats.fork_chat(call.names["id"], call.body))


@routes.add("POST", "/chats/{id}/messages/{message}/versions")
async def add_version(call: AdminCall[NewVersion, NoQuery]) -> Message:
    """Add another version of a question or an answer, with other words; nobody is asked."""
    chat = call.names["id"]
    version = await call.services.chats.add_version(chat, call.names["message"], call.body.content)
    call.services.events.publish(ChatChanged(chat=chat))
    return version


@routes.add("DELETE", "/chats/{id}/messages/{message}")
async def delete_message(call: AdminCall[None, NoQuery]) -> None:
    """Delete one message and keep what follows it; it can be restored for 30 days."""
    chat = call.names["id"]
    await call.services.chats.delete_message(chat, call.names["message"])
    call.services.events.publish(ChatChanged(chat=chat))


@routes.add("POST", "/chats/{id}/messages/{message}/restore")
async def restore_message(call: AdminCall[None, NoQuery]) -> Chat:
    """Bring a deleted message back where it was."""
    message = await call.services.chats.restore_message(call.names["id"], call.names["message"])
    return call.answers.overlay_live(_publish_change(call, message))


@routes.add("POST", "/chats/{id}/turns")
async def ask(call: AdminCall[NewTurn, NoQuery]) -> Turn:
    """Ask and be answered, or have a question answered again."""
    if call.key_name:  # it may ask only in chats whose collections it may search
        chat = await call.services.chats.read_chat(call.names["id"], with_messages=False)
        await _collection_ids(call, chat.collections)
    return await call.answers.start(call.names["id"], call.body)


@routes.add("GET", "/chats/{id}/answers/{message}")
async def follow(call: AdminCall[None, FollowQuery]) -> AsyncGenerator[AnswerEvent, None]:
    """Follow an answer while it is written."""
    return await call.answers.follow(call.names["id"], call.names["message"], call.query.offset)


@routes.add("POST", "/chats/{id}/answers/{message}/stop")
async def stop(call: AdminCall[None, NoQuery]) -> Message:
    """Stop an answer and keep what is written."""
    return await call.answers.stop(call.names["id"], call.names["message"])


@routes.add("POST", "/chats/{id}/answers/{message}/calls/{call}")
async def decide_call(call: AdminCall[DecideToolCall, NoQuery]) -> Message:
    """Say whether a tool may be called that an answer waits for."""
    _require_person(call, "decide about tools")
    names = call.names
    return call.answers.decide_call(names["id"], names["message"], names["call"], call.body.decision)


@routes.add("POST", "/tokens")
async def count_tokens(call: AdminCall[CountText, NoQuery]) -> TextTokens:
    """Count the tokens of a text: by the engine where the model is loaded, else by estimate."""
    return await call.answers.count_text(call.body.model, call.body.text)


def _require_person(call: AdminCall[Any, NoQuery], what: str) -> None:
    """Raise Forbidden for who comes with a key: tools may change anything that the person may."""
    if call.key_name:
        raise Forbidden(
            f"With a key, nobody can {what}.",
            hint="Use the window, or `roundhouse` on this computer.",
            code="chat_tools_need_person",
        )


async def _collection_ids(
    call: AdminCall[NewChat, NoQuery] | AdminCall[ChatPatch, NoQuery] | AdminCall[NewTurn, NoQuery],
    names: Sequence[str],
) -> list[str]:
    """Return the ids of collections, each once. Raises NotFound, also for what a key may not search."""
    records = [await call.collections.find_record(name, call.key_name) for name in names]
    return list(dict.fromkeys(record.id for record in records))


def _publish_change(call: AdminCall[object, NoQuery], chat: Chat) -> Chat:
    if chat.folder:
        call.services.events.publish(ChatFoldersChanged())  # it may have one chat more
    call.services.events.publish(ChatChanged(chat=chat.id))
    return chat


def _publish_folder(call: AdminCall[Any, NoQuery], folder: ChatFolder) -> ChatFolder:
    call.services.events.publish(ChatFoldersChanged())
    return folder
