"""Add chats that were written elsewhere. What is there already stays as it is; only missing messages are added."""

import sqlite3
from collections.abc import Sequence

import msgspec

from app.core.attachments import MOST_ATTACHMENTS
from app.core.chats import (
    LONGEST_NAME,
    LONGEST_TAG,
    MOST_FOLDER_FILES,
    MOST_TAGS,
    Chat,
    ChatFolder,
    ChatImport,
    ChatImportResult,
    Message,
    MessageStatus,
    Role,
)
from app.core.errors import BadRequest
from app.store.attachments import claim_attachments
from app.store.folders import insert_folder, set_tags
from app.store.opening import transaction
from app.store.rows import add_message, encode_json, find_unused_time, new_id, title_from

_LONGEST_ID = 64
_LONGEST_TITLE = 500
_LAST_S = 1e11
"""Unix seconds; what is later is no time but a mistake."""


def import_chats(connection: sqlite3.Connection, chats: ChatImport) -> ChatImportResult:
    """Add all of them, or none. Attachments are those that were uploaded before.

    A folder that is there already stays as it is. Folders and tags of a chat count when it is added.

    Raises BadRequest for messages that fit into no chat, and NotFound for files that were not uploaded.
    """
    counts = {"added": 0, "extended": 0, "unchanged": 0, "deleted": 0}
    with transaction(connection):
        for folder in chats.folders:
            _import_folder(connection, folder)
        for chat in chats.chats:
            _check_chat(chat)
            counts[_import_chat(connection, chat)] += 1
    return ChatImportResult(**counts)


def _import_folder(connection: sqlite3.Connection, folder: ChatFolder) -> None:
    if not _is_id(folder.id) or not folder.name.strip() or not _is_time(folder.created_at):
        raise BadRequest("A folder of the chats has no id, no name or no time.", code="invalid_folder")
    if connection.execute("SELECT 1 FROM folders WHERE id = ?", (folder.id,)).fetchone():
        return
    name = folder.name.strip()[:LONGEST_NAME]
    files = [file.id for file in folder.files[:MOST_FOLDER_FILES]]
    insert_folder(connection, msgspec.structs.replace(folder, name=name), files)


def _folder_of(connection: sqlite3.Connection, chat: Chat) -> str | None:
    """Return the chat's folder if there is one here."""
    there = connection.execute("SELECT 1 FROM folders WHERE id = ?", (chat.folder,)).fetchone()
    return chat.folder if there else None


def _check_chat(chat: Chat) -> None:
    """Return if it is one that could have come to be here. Raises BadRequest."""
    seen_ids: set[str] = set()
    for message in chat.messages:
        if message.parent is not None and message.parent not in seen_ids:
            raise _misfit(chat, "a message follows one that is not there before it")
        if len(message.attachments) > MOST_ATTACHMENTS:
            raise _misfit(chat, "a message has more files than one takes")
        if message.id in seen_ids or not _is_id(message.id) or message.chat != chat.id:
            raise _misfit(chat, "a message has no id of its own")
        if message.status is MessageStatus.GENERATING or not _is_time(message.created_at):
            raise _misfit(chat, "a message is not finished, or has no time")
        seen_ids.add(message.id)
    if not _is_id(chat.id) or chat.head not in {None, *seen_ids}:
        raise _misfit(chat, "it has no id, or its last message is not there")
    if not _is_time(chat.created_at) or not _is_time(chat.updated_at):
        raise _misfit(chat, "it has no time")


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and text.isascii() and text.isalnum()


def _is_time(seconds: float) -> bool:
    return 0 <= seconds < _LAST_S


def _misfit(chat: Chat, why: str) -> BadRequest:
    return BadRequest(f"The chat “{chat.title[:80]}” cannot be added: {why}.", code="invalid_chat")


def _import_chat(connection: sqlite3.Connection, chat: Chat) -> str:
    """Return what became of it, by the names of `ChatImportResult`."""
    row = connection.execute("SELECT deleted_at, updated_at FROM chats WHERE id = ?", (chat.id,)).fetchone()
    if row is None:
        _add_chat(connection, chat)
        _add_messages(connection, chat, chat.messages)
        return "added"
    if row[0] is not None:
        return "deleted"
    there = {id_ for (id_,) in connection.execute("SELECT id FROM messages WHERE chat = ?", (chat.id,))}
    missing_messages = [message for message in chat.messages if message.id not in there]
    if not missing_messages:
        return "unchanged"
    _add_messages(connection, chat, missing_messages)
    if chat.updated_at > row[1]:
        changed_at = find_unused_time(connection, chat.updated_at)
        connection.execute("UPDATE chats SET head = ?, updated_at = ? WHERE id = ?", (chat.head, changed_at, chat.id))
    return "extended"


def _add_chat(connection: sqlite3.Connection, chat: Chat) -> None:
    first = next((message.content for message in chat.messages if message.role is Role.USER), "")
    title = chat.title.strip()[:_LONGEST_TITLE] or title_from(first)
    changed_at = find_unused_time(connection, chat.updated_at)
    connection.execute(
        "INSERT INTO chats (id, title, model, system_prompt, sampling, head, created_at, updated_at, is_pinned,"
        " is_archived, folder, overflow) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(chat.id, title, chat.model, chat.system_prompt, encode_json(chat.sampling)),
            *(chat.head, chat.created_at, changed_at, chat.is_pinned, chat.is_archived),
            *(_folder_of(connection, chat), chat.overflow),
        ),
    )
    set_tags(connection, chat.id, [tag[:LONGEST_TAG] for tag in chat.tags[:MOST_TAGS]])


def _add_messages(connection: sqlite3.Connection, chat: Chat, messages: Sequence[Message]) -> None:
    try:
        for message in messages:
            add_message(connection, message)
    except sqlite3.IntegrityError as error:
        raise _misfit(chat, "a message of it belongs to another chat") from error
    for message in messages:
        ids = [attachment.id for attachment in message.attachments]
        claim_attachments(connection, message.id, ids, [new_id() for _ in ids])
