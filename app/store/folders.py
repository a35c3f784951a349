"""Folders of chats and tags on them, as rows, on a connection its caller owns.

Tags are words that chats have in common: one is there as long as a chat has it. They differ by more than the case of
their letters.
"""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from uuid import uuid4

from app.core.chats import (
    LONGEST_NAME,
    LONGEST_TAG,
    MOST_TAGS,
    ChatFolder,
    ChatFolderPatch,
    NewChatFolder,
    TagCount,
)
from app.core.errors import BadRequest, NotFound
from app.store.attachments import attachments_of_folders, own_attachments
from app.store.opening import transaction

_COUNT = "(SELECT count(*) FROM chats c WHERE c.folder = f.id AND c.deleted_at IS NULL AND NOT c.is_archived)"
_FOLDER = f"f.id, f.name, f.model, f.system_prompt, f.created_at, {_COUNT}"


def list_folders(connection: sqlite3.Connection) -> list[ChatFolder]:
    """Return all folders by name."""
    rows = connection.execute(f"SELECT {_FOLDER} FROM folders f").fetchall()  # noqa: S608 -- constant names
    files = attachments_of_folders(connection)
    folders = [
        ChatFolder(
            id=row[0],
            name=row[1],
            model=row[2],
            system_prompt=row[3],
            created_at=row[4],
            chat_count=row[5],
            files=files.get(row[0], []),
        )
        for row in rows
    ]
    return sorted(folders, key=lambda folder: (folder.name.casefold(), folder.created_at))


def read_folder(connection: sqlite3.Connection, folder: str) -> ChatFolder:
    """Return one folder. Raises NotFound."""
    match = next((candidate for candidate in list_folders(connection) if candidate.id == folder), None)
    if match is None:
        raise NotFound("There is no such folder.", hint="It may have been deleted.", code="folder_not_found")
    return match


def add_folder(connection: sqlite3.Connection, new: NewChatFolder) -> ChatFolder:
    """Store a folder. Raises BadRequest for a name that is none, and NotFound for files that were not uploaded."""
    folder = ChatFolder(
        id=uuid4().hex,
        name=_check_name(new.name),
        model=new.model,
        system_prompt=new.system_prompt.strip(),
        created_at=time.time(),
    )
    with transaction(connection):
        insert_folder(connection, folder, new.files)
    return read_folder(connection, folder.id)


def insert_folder(connection: sqlite3.Connection, folder: ChatFolder, files: Sequence[str]) -> None:
    """Add a row for a folder that owns these attachments. In the caller's transaction."""
    connection.execute(
        "INSERT INTO folders (id, name, model, system_prompt, created_at) VALUES (?, ?, ?, ?, ?)",
        (folder.id, folder.name, folder.model, folder.system_prompt, folder.created_at),
    )
    own_attachments(connection, folder.id, files, [uuid4().hex for _ in files])


def change_folder(connection: sqlite3.Connection, folder: str, patch: ChatFolderPatch) -> ChatFolder:
    """Change what the patch names. Raises what `add_folder` raises, and NotFound for the folder."""
    name = None if patch.name is None else _check_name(patch.name)
    prompt = None if patch.system_prompt is None else patch.system_prompt.strip()
    with transaction(connection):
        read_folder(connection, folder)
        connection.execute(
            "UPDATE folders SET name = coalesce(?, name), model = coalesce(?, model),"
            " system_prompt = coalesce(?, system_prompt) WHERE id = ?",
            (name, patch.model, prompt, folder),
        )
        if patch.files is not None:
            own_attachments(connection, folder, patch.files, [uuid4().hex for _ in patch.files])
    return read_folder(connection, folder)


def delete_folder(connection: sqlite3.Connection, folder: str, *, with_chats: bool) -> list[str]:
    """Delete a folder; return the ids of its chats, which go on without it or into the trash. Raises NotFound."""
    with transaction(connection):
        read_folder(connection, folder)
        chats = [row[0] for row in connection.execute("SELECT id FROM chats WHERE folder = ?", (folder,))]
        if with_chats:
            statement = "UPDATE chats SET deleted_at = ? WHERE folder = ? AND deleted_at IS NULL"
            connection.execute(statement, (time.time(), folder))
        connection.execute("DELETE FROM folders WHERE id = ?", (folder,))
    return chats


def set_tags(connection: sqlite3.Connection, chat: str, tags: Iterable[str]) -> None:
    """Have a chat have these tags and no others. In the caller's transaction. Raises BadRequest."""
    clean = clean_tags(tags)
    connection.execute("DELETE FROM chat_tags WHERE chat = ?", (chat,))
    connection.executemany("INSERT INTO chat_tags (chat, tag) VALUES (?, ?)", [(chat, tag) for tag in clean])


def tags_of(connection: sqlite3.Connection, chat: str) -> list[str]:
    """Return a chat's tags in the order of the alphabet."""
    return [row[0] for row in connection.execute("SELECT tag FROM chat_tags WHERE chat = ? ORDER BY tag", (chat,))]


def list_tags(connection: sqlite3.Connection) -> list[TagCount]:
    """Return every tag with how many chats have it."""
    statement = (
        "SELECT min(t.tag), count(*) FROM chat_tags t JOIN chats c ON c.id = t.chat WHERE c.deleted_at IS NULL"
        " GROUP BY t.tag ORDER BY t.tag"
    )
    return [TagCount(tag=tag, count=count) for tag, count in connection.execute(statement)]


def clean_tags(tags: Iterable[str]) -> list[str]:
    """Return tags as they are kept: on one line, each once. Raises BadRequest for what is too long or too many."""
    by_name: dict[str, str] = {}
    for tag in tags:
        name = " ".join(tag.replace("\0", " ").split()).lstrip("#").strip()
        if len(name) > LONGEST_TAG:
            raise BadRequest(f"A tag has {LONGEST_TAG} characters at most.", code="tag_too_long")
        if name:
            by_name.setdefault(name.casefold(), name)
    if len(by_name) > MOST_TAGS:
        raise BadRequest(f"A chat has {MOST_TAGS} tags at most.", code="too_many_tags")
    return list(by_name.values())


def _check_name(name: str) -> str:
    clean = " ".join(name.replace("\0", " ").split())
    if not clean:
        raise BadRequest("A folder needs a name.", code="folder_without_name")
    if len(clean) > LONGEST_NAME:
        raise BadRequest(f"A folder's name has {LONGEST_NAME} characters at most.", code="folder_name_too_long")
    return clean
