"""Conversations as rows: every statement that reads or writes them, on a connection its caller owns.

Nothing here knows of threads or asyncio. `seq` orders messages, never the clock. A finished message is never changed,
only hidden.

The title a chat gets from its first question.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

import msgspec

from app.core.chats import (
    Chat,
    ChatFolder,
    ChatPatch,
    Message,
    MessageStatus,
    NewChat,
    NewTurn,
    OverflowRule,
    Role,
    Sampling,
    Timings,
    Turn,
)
from app.core.documents import AnswerDocuments
from app.core.errors import BadRequest, Conflict, NotFound
from app.core.guide import AnswerAction
from app.core.tool_calls import AnswerToolCall, ChatToolPermission, ChatTools, end_open_calls
from app.store import folders
from app.store.attachments import attachments_of_messages, claim_attachments, read_attachments
from app.store.opening import transaction

_MESSAGE = (
    "id, chat, parent, role, content, reasoning, status, model, engine, timings, finish_reason, error, created_at,"
    " is_edited, left_out, summary, calls, documents, actions, deleted_at"
)
_CHAT = (
    "id, title, model, system_prompt, sampling, head, created_at, updated_at, is_pinned, is_archived, folder, overflow,"
    " tools, collections"
)
_FIELDS = [name.strip() for name in _MESSAGE.split(",")]
_ADD_MESSAGE = (
    "INSERT INTO messages (id, chat, parent, role, content, reasoning, status, model, engine, created_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PATH = """
WITH RECURSIVE path (id, parent) AS (
    SELECT id, parent FROM messages WHERE id = ? AND chat = ?
    UNION ALL SELECT m.id, m.parent FROM messages m JOIN path ON m.id = path.parent
)
"""
_NO_FOLDER = ChatFolder(id="", name="")
_TICK_S = 1e-6  # the smallest step that a double still tells apart for Unix times


def new_id() -> str:
    """Return an id no other chat or message has."""
    return uuid4().hex


def add_chat(connection: sqlite3.Connection, new: NewChat) -> Chat:
    """Store a chat without messages. Raises NotFound for its folder, and BadRequest for its tags."""
    with transaction(connection):
        folder = folders.read_folder(connection, new.folder) if new.folder else _NO_FOLDER
        prompt = folder.system_prompt if new.system_prompt is None else new.system_prompt
        now = find_unused_time(connection)
        chat = new_id()
        values = (chat, new.title.strip(), new.model or folder.model, prompt, encode_json(new.sampling), None, now, now)
        connection.execute(
            f"INSERT INTO chats ({_CHAT}, title_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?)",  # noqa: S608 -- constant names
            (
                *(*values, new.folder or None, new.overflow, _encode_tools(new.tools), _encode_list(new.collections)),
                "person" if new.title.strip() else "question",
            ),
        )
        folders.set_tags(connection, chat, new.tags)
    return read_chat(connection, chat)


def read_chat(connection: sqlite3.Connection, chat: str, *, with_messages: bool = True) -> Chat:
    """Return a chat that is not deleted, with all its messages or with none. Raises NotFound."""
    row = connection.execute(f"SELECT {_CHAT} FROM chats WHERE id = ? AND deleted_at IS NULL", (chat,)).fetchone()  # noqa: S608 -- constant names
    if row is None:
        raise _chat_not_found()
    return Chat(
        id=row[0],
        title=row[1],
        model=row[2],
        system_prompt=row[3],
        sampling=msgspec.json.decode(row[4], type=Sampling),
        head=row[5],
        created_at=row[6],
        updated_at=row[7],
        is_pinned=bool(row[8]),
        is_archived=bool(row[9]),
        folder=row[10] or "",
        overflow=OverflowRule(row[11]),
        tools=msgspec.json.decode(row[12], type=ChatTools) if row[12] else ChatTools(),
        collections=msgspec.json.decode(row[13], type=list[str]) if row[13] else [],
        tags=folders.tags_of(connection, chat),
        messages=_read_messages(connection, chat) if with_messages else [],
    )


def read_message(connection: sqlite3.Connection, chat: str, message: str) -> Message:
    """Return one message of a chat that is not deleted. Raises NotFound."""
    require_chat(connection, chat)
    return find_message(connection, chat, message)


def read_path(connection: sqlite3.Connection, chat: str, message: str) -> list[Message]:
    """Return the messages from the root down to `message`, in order. Raises NotFound."""
    read_message(connection, chat, message)
    statement = f"{_PATH} SELECT {_MESSAGE} FROM messages WHERE id IN (SELECT id FROM path) ORDER BY seq"  # noqa: S608 -- constant names
    return _with_attachments(connection, _parse_messages(connection.execute(statement, (message, chat))))


def change_chat(connection: sqlite3.Connection, chat: str, patch: ChatPatch) -> Chat:
    """Change what the patch names. Raises NotFound, also for a head or a folder that is not there; BadRequest."""
    with transaction(connection):
        require_chat(connection, chat)
        if patch.head is not None:
            find_message(connection, chat, patch.head)
        if patch.folder is not None:
            _move_chat(connection, chat, patch.folder)
        if patch.tags is not None:
            folders.set_tags(connection, chat, patch.tags)
        sampling = None if patch.sampling is None else encode_json(patch.sampling)
        title = None if patch.title is None else patch.title.strip()
        connection.execute(
            "UPDATE chats SET title = coalesce(?, title), model = coalesce(?, model), head = coalesce(?, head),"
            " system_prompt = coalesce(?, system_prompt), sampling = coalesce(?, sampling),"
            " is_pinned = coalesce(?, is_pinned), is_archived = coalesce(?, is_archived),"
            " overflow = coalesce(?, overflow), tools = coalesce(?, tools),"
            " collections = coalesce(?, collections),"
            " title_by = iif(? IS NULL, title_by, 'person') WHERE id = ?",
            (
                *(title, patch.model, patch.head, patch.system_prompt, sampling),
                *(patch.is_pinned, patch.is_archived, patch.overflow),
                _changed_tools(connection, chat, patch),
                None if patch.collections is None else _encode_list(patch.collections),
                *(title, chat),
            ),
        )
    return read_chat(connection, chat)


def _changed_tools(connection: sqlite3.Connection, chat: str, patch: ChatPatch) -> str | None:
    """Return a chat's tools as a patch leaves them; None if it says nothing of them."""
    if patch.tool_servers is None and not patch.asks_again:
        return None
    tools = read_chat(connection, chat, with_messages=False).tools
    servers = tools.servers if patch.tool_servers is None else patch.tool_servers
    return _encode_tools(ChatTools(servers=servers, permissions=[] if patch.asks_again else tools.permissions))


def set_tool_permission(connection: sqlite3.Connection, chat: str, permission: ChatToolPermission) -> None:
    """Keep what was decided of a tool in one chat. Raises NotFound."""
    with transaction(connection):
        tools = read_chat(connection, chat, with_messages=False).tools.with_permission(permission)
        connection.execute("UPDATE chats SET tools = ? WHERE id = ?", (_encode_tools(tools), chat))


def _encode_tools(tools: ChatTools) -> str:
    return "" if tools == ChatTools() else encode_json(tools)


def _encode_actions(actions: Sequence[AnswerAction]) -> str:
    return msgspec.json.encode(actions).decode() if actions else ""


def _encode_calls(calls: Sequence[AnswerToolCall]) -> str:
    return msgspec.json.encode(calls).decode() if calls else ""


def _encode_list(names: Sequence[str]) -> str:
    return msgspec.json.encode(names).decode() if names else ""


def _encode_documents(documents: AnswerDocuments) -> str:
    return "" if documents == AnswerDocuments() else encode_json(documents)


def _move_chat(connection: sqlite3.Connection, chat: str, folder: str) -> None:
    if folder:
        folders.read_folder(connection, folder)
    connection.execute("UPDATE chats SET folder = ? WHERE id = ?", (folder or None, chat))


def wants_title(connection: sqlite3.Connection, chat: str) -> bool:
    """Tell whether a chat still has the title that its first question gave it."""
    statement = "SELECT 1 FROM chats WHERE id = ? AND title_by = 'question' AND deleted_at IS NULL"
    return connection.execute(statement, (chat,)).fetchone() is not None


def set_model_title(connection: sqlite3.Connection, chat: str, title: str) -> bool:
    """Give a chat the title that a model wrote, unless a person gave it one since; return whether it has it now."""
    with transaction(connection):
        statement = "UPDATE chats SET title = ?, title_by = 'model' WHERE id = ? AND title_by = 'question'"
        return connection.execute(statement, (title, chat)).rowcount > 0


def delete_chat(connection: sqlite3.Connection, chat: str) -> None:
    """Hide a chat; it can be restored until it is purged. Raises NotFound."""
    with transaction(connection):
        require_chat(connection, chat)
        connection.execute("UPDATE chats SET deleted_at = ? WHERE id = ?", (time.time(), chat))


def restore_chat(connection: sqlite3.Connection, chat: str) -> Chat:
    """Bring a deleted chat back; one that is there stays as it is. Raises NotFound."""
    with transaction(connection):
        connection.execute("UPDATE chats SET deleted_at = NULL WHERE id = ?", (chat,))
    return read_chat(connection, chat)


def purge_chat(connection: sqlite3.Connection, chat: str) -> None:
    """Delete a chat for good. Raises NotFound for one that is not in the trash."""
    with transaction(connection):
        statement = "DELETE FROM chats WHERE id = ? AND deleted_at IS NOT NULL"
        if not connection.execute(statement, (chat,)).rowcount:
            raise NotFound("There is no such chat in the trash.", code="chat_not_found")


def begin_turn(connection: sqlite3.Connection, chat: str, turn: NewTurn, answer: Message) -> Turn:
    """Store the question, if there is one, and `answer`, still to be written, below it; the reader moves there.

    Of `answer`, only id, model, engine and the text it begins with count. Raises NotFound, BadRequest or Conflict if
    the parent does not fit.
    """
    with transaction(connection):
        require_chat(connection, chat)
        _check_parent(connection, chat, turn)
        now = find_unused_time(connection)
        question_id = find_message(connection, chat, turn.continues).parent if turn.continues else turn.parent
        if turn.content is not None:
            question_id = new_id()
            values = (question_id, chat, turn.parent, Role.USER, turn.content, "", MessageStatus.COMPLETE, "", "", now)
            connection.execute(_ADD_MESSAGE, values)
            claim_attachments(connection, question_id, turn.attachments, [new_id() for _ in turn.attachments])
        status = MessageStatus.GENERATING
        values = (
            *(answer.id, chat, question_id, Role.ASSISTANT, answer.content, answer.reasoning),
            *(status, answer.model, answer.engine, now),
        )
        connection.execute(_ADD_MESSAGE, values)
        if turn.continues is not None:
            drawn_files = [file.id for file in find_message(connection, chat, turn.continues).attachments]
            claim_attachments(connection, answer.id, drawn_files, [new_id() for _ in drawn_files])
        connection.execute(
            "UPDATE chats SET head = ?, updated_at = ?, title = iif(title = '', ?, title) WHERE id = ?",
            (answer.id, now, _title_of(connection, turn), chat),
        )
    question = None if turn.content is None or question_id is None else find_message(connection, chat, question_id)
    return Turn(question=question, answer=find_message(connection, chat, answer.id))


def add_message(connection: sqlite3.Connection, message: Message) -> None:
    """Store a finished message without its files. In the caller's transaction; IntegrityError if its id is taken."""
    connection.execute(
        "INSERT INTO messages (id, chat, parent, role, content, reasoning, status, model, engine, timings,"
        " finish_reason, error, created_at, is_edited, left_out, summary, calls, documents, actions)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(message.id, message.chat, message.parent, message.role, message.content, message.reasoning),
            *(message.status, message.model, message.engine),
            None if message.timings is None else encode_json(message.timings),
            *(message.finish_reason, message.error, message.created_at, message.is_edited),
            *(message.left_out, message.summary, _encode_calls(message.calls), _encode_documents(message.documents)),
            _encode_actions(message.actions),
        ),
    )


def move_reader(connection: sqlite3.Connection, chat: str, message: str) -> None:
    """Have a chat shown down to a message that is new. In the caller's transaction."""
    values = (message, find_unused_time(connection), chat)
    connection.execute("UPDATE chats SET head = ?, updated_at = ? WHERE id = ?", values)


def copy_chat(connection: sqlite3.Connection, chat: str, title: str) -> str:
    """Store a chat with the settings, folder and tags of another; return its id. In the caller's transaction."""
    copied_id, now = new_id(), find_unused_time(connection)
    connection.execute(
        "INSERT INTO chats (id, title, model, system_prompt, sampling, head, created_at, updated_at, folder,"
        " overflow, collections, title_by)"
        " SELECT ?, iif(? = '', title, ?), model, system_prompt, sampling, NULL, ?, ?, folder,"
        " overflow, collections, 'person' FROM chats WHERE id = ?",
        (copied_id, title.strip(), title.strip(), now, now, chat),
    )
    servers = read_chat(connection, chat, with_messages=False).tools.servers  # what was allowed was for that chat
    connection.execute(
        "UPDATE chats SET tools = ? WHERE id = ?", (_encode_tools(ChatTools(servers=servers)), copied_id)
    )
    folders.set_tags(connection, copied_id, folders.tags_of(connection, chat))
    return copied_id


def save_answer(connection: sqlite3.Connection, answer: Message) -> None:
    """Store what has been written of an answer so far."""
    connection.execute(
        "UPDATE messages SET content = ?, reasoning = ?, calls = ? WHERE id = ? AND status = 'generating'",
        (answer.content, answer.reasoning, _encode_calls(answer.calls), answer.id),
    )


def attach_to_answer(connection: sqlite3.Connection, answer: str, attachment: str) -> None:
    """Have an answer that is being written own a file. Raises NotFound."""
    with transaction(connection):
        if not connection.execute("SELECT 1 FROM messages WHERE id = ?", (answer,)).fetchone():
            raise NotFound("There is no such message in this chat.", code="message_not_found")
        claim_attachments(connection, answer, [attachment], [new_id()])


def finish_answer(connection: sqlite3.Connection, answer: Message) -> Message:
    """Store the final form of an answer and what it cost. One that is final already stays as it is."""
    with transaction(connection):
        timings = None if answer.timings is None else encode_json(answer.timings)
        row_count = connection.execute(
            "UPDATE messages SET content = ?, reasoning = ?, status = ?, engine = ?, timings = ?, finish_reason = ?,"
            " error = ?, left_out = ?, summary = ?, calls = ?, documents = ?,"
            " actions = ? WHERE id = ? AND status = 'generating'",
            (
                *(answer.content, answer.reasoning, answer.status, answer.engine, timings, answer.finish_reason),
                *(answer.error, answer.left_out, answer.summary, _encode_calls(answer.calls)),
                *(_encode_documents(answer.documents), _encode_actions(answer.actions), answer.id),
            ),
        ).rowcount
        if row_count:
            now = find_unused_time(connection)
            connection.execute("UPDATE chats SET updated_at = ? WHERE id = ?", (now, answer.chat))
            _add_usage(connection, answer, now)
    return find_message(connection, answer.chat, answer.id)


def _add_usage(connection: sqlite3.Connection, answer: Message, now: float) -> None:
    cost = answer.timings or Timings()
    connection.execute(
        "INSERT INTO usage (at, model, engine, status, prompt_tokens, cached_tokens, completion_tokens, seconds)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(now, answer.model, answer.engine, answer.status),
            *(cost.prompt_tokens, cost.cached_tokens, cost.completion_tokens, cost.total_s),
        ),
    )


def _check_parent(connection: sqlite3.Connection, chat: str, turn: NewTurn) -> None:
    if turn.continues is not None:
        return
    parent = None if turn.parent is None else find_message(connection, chat, turn.parent)
    if turn.content is None:
        if parent is None or parent.role is not Role.USER:
            raise BadRequest("Another answer needs a question: `parent` must be a message of yours.")
        if turn.attachments:
            raise BadRequest("Files belong to a question: `attachments` needs `content`.")
        return
    if not turn.content.strip() and not turn.attachments:
        raise BadRequest("There is nothing to answer yet.", hint="Write a question first.")
    if parent is not None and parent.status is MessageStatus.GENERATING:
        raise Conflict("That answer is still being written.", hint="Wait for it or stop it, then ask.")


def _title_of(connection: sqlite3.Connection, turn: NewTurn) -> str:
    """Return the title for a chat that begins with this turn: of a question without words, its first file's name."""
    if not (turn.content or "").strip() and turn.attachments:
        return title_from(read_attachments(connection, turn.attachments[:1])[0].name)
    return title_from(turn.content or "")


def _read_messages(connection: sqlite3.Connection, chat: str) -> list[Message]:
    rows = connection.execute(f"SELECT {_MESSAGE} FROM messages WHERE chat = ? ORDER BY seq", (chat,))  # noqa: S608 -- constant names
    return _with_attachments(connection, _parse_messages(rows))


def _with_attachments(connection: sqlite3.Connection, messages: Iterable[Message]) -> list[Message]:
    messages = list(messages)
    by_message = attachments_of_messages(connection, [message.id for message in messages])
    if not by_message:
        return messages
    return [msgspec.structs.replace(message, attachments=by_message.get(message.id, [])) for message in messages]


def find_message(connection: sqlite3.Connection, chat: str, message: str) -> Message:
    """Return one message. Raises NotFound, also for one that was deleted."""
    statement = f"SELECT {_MESSAGE} FROM messages WHERE id = ? AND chat = ? AND deleted_at IS NULL"  # noqa: S608 -- constant names
    row = connection.execute(statement, (message, chat)).fetchone()
    if row is None:
        raise NotFound("There is no such message in this chat.", code="message_not_found")
    above = f"{_PATH} SELECT {_MESSAGE} FROM messages WHERE deleted_at IS NOT NULL AND id IN (SELECT id FROM path)"  # noqa: S608 -- constant names
    deleted_parents = connection.execute(above, (message, chat)).fetchall() if row[_PARENT] is not None else []
    return _with_attachments(connection, _parse_messages([row, *deleted_parents]))[0]


def require_chat(connection: sqlite3.Connection, chat: str) -> None:
    """Raise NotFound where there is no such chat."""
    if not connection.execute("SELECT 1 FROM chats WHERE id = ? AND deleted_at IS NULL", (chat,)).fetchone():
        raise _chat_not_found()


def _chat_not_found() -> NotFound:
    return NotFound("There is no such chat.", hint="It may have been deleted.", code="chat_not_found")


def find_unused_time(connection: sqlite3.Connection, at: float | None = None) -> float:
    """Return a time (None: now), moved on a little if a chat has it already: paging by `updated_at` must skip none."""
    moment = time.time() if at is None else at
    if not connection.execute("SELECT 1 FROM chats WHERE updated_at = ?", (moment,)).fetchone():
        return moment
    # Imports bring many chats of one time: the last one close to it is found at once, by the index.
    statement = "SELECT max(updated_at) FROM chats WHERE updated_at >= ? AND updated_at < ?"
    return float(connection.execute(statement, (moment, moment + 1)).fetchone()[0]) + _TICK_S


Row = Sequence[str | float | None]
_ID, _PARENT, _DELETED = _FIELDS.index("id"), _FIELDS.index("parent"), _FIELDS.index("deleted_at")


def _parse_messages(rows: Iterable[Row]) -> Iterator[Message]:
    """Yield the messages that are not deleted, each below the nearest of these that is not."""
    rows = list(rows)
    deleted_parents = {row[_ID]: row[_PARENT] for row in rows if row[_DELETED] is not None}
    for row in rows:
        if row[_DELETED] is None:
            message, parent = _parse_message(row), row[_PARENT]
            while parent in deleted_parents:
                parent = deleted_parents[parent]
            yield message if parent == message.parent else msgspec.structs.replace(message, parent=parent)


def _parse_message(row: Row) -> Message:
    fields: dict[str, object] = dict(zip(_FIELDS, row, strict=True))
    del fields["deleted_at"]
    fields["is_edited"] = bool(fields["is_edited"])
    calls = msgspec.json.decode(str(fields["calls"]), type=list[AnswerToolCall]) if fields["calls"] else []
    fields["calls"] = calls if fields["status"] == MessageStatus.GENERATING else end_open_calls(calls)
    actions = fields["actions"]
    fields["actions"] = msgspec.json.decode(str(actions), type=list[AnswerAction]) if actions else []
    stored_documents = fields["documents"]
    fields["documents"] = (
        msgspec.json.decode(str(stored_documents), type=AnswerDocuments) if stored_documents else AnswerDocuments()
    )
    fields["timings"] = None if fields["timings"] is None else msgspec.json.decode(str(fields["timings"]), type=Timings)
    return msgspec.convert(fields, Message)


def encode_json(value: msgspec.Struct) -> str:
    """Return a value as a column of text holds it."""
    return msgspec.json.encode(value).decode()


MAX_TITLE = 60
UNTITLED = "New chat"


def title_from(question: str) -> str:
    """Return the first line with something on it, cut at a word boundary to 60 characters."""
    line = next((line for line in map(_tidy_line, question.splitlines()) if line), UNTITLED)
    if len(line) <= MAX_TITLE:
        return line
    room = MAX_TITLE - 1  # for the ellipsis
    cut = line[: room + 1].rfind(" ")
    return line[: cut if cut > 0 else room].rstrip(" ,;:.-") + "…"


def _tidy_line(line: str) -> str:
    return " ".join(line.split()).strip("# ")
