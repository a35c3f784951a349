"""What people do with single messages: another version, hide and bring back, a chat that goes on from one of them.

Every statement is on a connection its caller owns, as in `rows`. Nothing is overwritten: a deleted message keeps its
place in the tree for 30 days, and what follows it is read as following what was before it (`rows`).
"""

import sqlite3
import time

from msgspec.structs import replace

from app.core.chats import Chat, ForkChat, Message, MessageStatus, Role
from app.core.errors import BadRequest, Conflict, NotFound
from app.store.attachments import claim_attachments
from app.store.opening import transaction
from app.store.rows import (
    add_message,
    copy_chat,
    find_message,
    find_unused_time,
    move_reader,
    new_id,
    read_chat,
    read_path,
    require_chat,
)

_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM messages WHERE id = ? AND chat = ?
    UNION ALL SELECT m.id FROM messages m JOIN below ON m.parent = below.id
)
"""


def add_version(connection: sqlite3.Connection, chat: str, message: str, content: str) -> Message:
    """Store a message with other words beside the one it is a version of. Raises NotFound, BadRequest or Conflict."""
    with transaction(connection):
        require_chat(connection, chat)
        original = find_message(connection, chat, message)
        if not content.strip() and not original.attachments:
            raise BadRequest("A message without words cannot be kept.", hint="Delete it instead.", code="empty_message")
        _require_final(original)
        is_answer = original.role is Role.ASSISTANT
        version = Message(
            id=new_id(),
            chat=chat,
            parent=original.parent,
            role=original.role,
            content=content,
            reasoning=original.reasoning,
            model=original.model,
            engine=original.engine,
            is_edited=is_answer,
            calls=original.calls,
            created_at=find_unused_time(connection),
        )
        add_message(connection, version)
        _copy_files(connection, original, version.id)
        move_reader(connection, chat, version.id)
    return find_message(connection, chat, version.id)


def delete_message(connection: sqlite3.Connection, chat: str, message: str) -> None:
    """Hide one message; what follows it stays. Raises NotFound, and Conflict while it or what follows is written."""
    with transaction(connection):
        require_chat(connection, chat)
        hidden_message = find_message(connection, chat, message)
        _require_still(connection, hidden_message)
        connection.execute("UPDATE messages SET deleted_at = ? WHERE id = ?", (time.time(), message))
        if _head_of(connection, chat) == message:
            connection.execute(
                "UPDATE chats SET head = ? WHERE id = ?", (_place_after(connection, hidden_message), chat)
            )


def restore_message(connection: sqlite3.Connection, chat: str, message: str) -> Chat:
    """Bring a deleted message back where it was; the reader moves to it unless what follows it is being read.

    One that was not deleted stays as it is. Raises NotFound.
    """
    with transaction(connection):
        require_chat(connection, chat)
        row = connection.execute(
            "UPDATE messages SET deleted_at = NULL WHERE id = ? AND chat = ? RETURNING id", (message, chat)
        ).fetchone()
        if row is None:
            raise NotFound(
                "There is no such message in this chat.",
                hint="A deleted message is kept for 30 days.",
                code="message_not_found",
            )
        if not _is_below(connection, chat, message, _head_of(connection, chat)):
            leaf = _newest_leaf(connection, chat, message)
            connection.execute("UPDATE chats SET head = ? WHERE id = ?", (leaf, chat))
    return read_chat(connection, chat)


def fork_chat(connection: sqlite3.Connection, chat: str, fork: ForkChat) -> Chat:
    """Store a chat with copies of the messages down to one. Raises NotFound, and Conflict while that is written."""
    with transaction(connection):
        require_chat(connection, chat)
        path = read_path(connection, chat, fork.message)
        _require_final(path[-1])
        branch = copy_chat(connection, chat, fork.title)
        ids = {message.id: new_id() for message in path}
        for message in path:
            copy = replace(message, id=ids[message.id], chat=branch, parent=ids.get(message.parent or ""))
            add_message(connection, copy)
            _copy_files(connection, message, copy.id)
        connection.execute("UPDATE chats SET head = ? WHERE id = ?", (ids[fork.message], branch))
    return read_chat(connection, branch)


def _require_final(message: Message) -> None:
    if message.status is MessageStatus.GENERATING:
        raise Conflict("That answer is still being written.", hint="Wait for it or stop it.", code="answer_in_progress")


def _require_still(connection: sqlite3.Connection, message: Message) -> None:
    """Raise Conflict while an answer to this message, or to what follows it, is written: it is read to be answered."""
    statement = f"{_BELOW} SELECT 1 FROM messages WHERE status = 'generating' AND id IN (SELECT id FROM below)"  # noqa: S608 -- constants
    if connection.execute(statement, (message.id, message.chat)).fetchone():
        raise Conflict(
            "An answer that needs this message is still being written.",
            hint="Wait for it or stop it.",
            code="answer_in_progress",
        )


def _copy_files(connection: sqlite3.Connection, original: Message, version: str) -> None:
    files = [attachment.id for attachment in original.attachments]
    claim_attachments(connection, version, files, [new_id() for _ in files])


def _head_of(connection: sqlite3.Connection, chat: str) -> str | None:
    row: tuple[str | None] = connection.execute("SELECT head FROM chats WHERE id = ?", (chat,)).fetchone()
    return row[0]


def _place_after(connection: sqlite3.Connection, hidden_message: Message) -> str | None:
    """Return where to read on when the last message of the path is gone: another version of it, or what was before."""
    chat = read_chat(connection, hidden_message.chat)
    versions = [message.id for message in chat.messages if message.parent == hidden_message.parent]
    return _newest_leaf(connection, hidden_message.chat, versions[-1]) if versions else hidden_message.parent


def _newest_leaf(connection: sqlite3.Connection, chat: str, message: str) -> str:
    leaf = message
    for candidate in read_chat(connection, chat).messages:  # in the order in which they were made: parents come first
        leaf = candidate.id if candidate.parent == leaf else leaf
    return leaf


def _is_below(connection: sqlite3.Connection, chat: str, message: str, head: str | None) -> bool:
    statement = f"{_BELOW} SELECT 1 FROM below WHERE id = ?"  # noqa: S608 -- a constant
    return head != message and connection.execute(statement, (message, chat, head)).fetchone() is not None
