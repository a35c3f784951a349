"""Attachments as rows: which file belongs to which question. Every statement is on a connection its caller owns.

A file is uploaded first and belongs to nothing until its question is sent, or a folder has it; what is never sent is
forgotten after a day.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.errors import Conflict, NotFound
from app.store.files import AttachmentFiles
from app.store.opening import CLOCK_SLACK_S, transaction

_KEEP_UNSENT_S = 24 * 3600.0
_KINDS_OF_TEXT = frozenset({AttachmentKind.TEXT, AttachmentKind.DOCUMENT})
_MANY = 500
"""Variables of one statement; SQLite takes more, everywhere."""


def add_attachment(
    connection: sqlite3.Connection,
    files: AttachmentFiles,
    attachment: Attachment,
    parts: Mapping[AttachmentPart, bytes],
) -> Attachment:
    """Keep a file that is not sent yet."""
    files.save(attachment.hash, parts)
    with transaction(connection):
        _insert(connection, attachment)
        if AttachmentPart.TEXT in parts:
            _index_text(connection, attachment.hash, parts[AttachmentPart.TEXT])
    return attachment


def list_unindexed(connection: sqlite3.Connection) -> list[str]:
    """Return the hashes of files with a text that no search finds: those kept before searches looked into files."""
    rows = connection.execute(
        "SELECT hash, max(value) FROM attachments WHERE hash NOT IN (SELECT hash FROM indexed_files) GROUP BY hash"
    )
    return [hash_ for hash_, value in rows if _decode(value).kind in _KINDS_OF_TEXT]


def index_file(connection: sqlite3.Connection, files: AttachmentFiles, digest: str) -> None:
    """Have searches find what a file says. Raises StorageFault for one that is not there any more."""
    text = files.read(digest, AttachmentPart.TEXT)
    with transaction(connection):
        if connection.execute("SELECT 1 FROM attachments WHERE hash = ?", (digest,)).fetchone():
            _index_text(connection, digest, text)


def _index_text(connection: sqlite3.Connection, digest: str, text: bytes) -> None:
    row = connection.execute("INSERT OR IGNORE INTO indexed_files (hash) VALUES (?)", (digest,))
    if row.rowcount:
        content = text.decode("utf-8", "replace")
        connection.execute("INSERT INTO file_text (rowid, content) VALUES (?, ?)", (row.lastrowid, content))


def read_attachments(connection: sqlite3.Connection, ids: Sequence[str]) -> list[Attachment]:
    """Return these, in this order. Raises NotFound."""
    return [_decode(_find_row(connection, id_)[1]) for id_ in ids]


def remove_attachment(connection: sqlite3.Connection, files: AttachmentFiles, attachment: str) -> None:
    """Forget a file that was not sent. Raises NotFound, and Conflict for one of a question or a folder."""
    with transaction(connection):
        owner, value = _find_row(connection, attachment)
        if owner is not None:
            raise Conflict("That file belongs to a question that was sent, or to a folder.", code="attachment_sent")
        connection.execute("DELETE FROM attachments WHERE id = ?", (attachment,))
    _free_file(connection, files, _decode(value).hash)


def claim_attachments(connection: sqlite3.Connection, message: str, ids: Sequence[str], new_ids: Iterable[str]) -> None:
    """Have a question own these files; those of another owner are owned once more. In the caller's transaction."""
    for id_, new_id in zip(ids, new_ids, strict=False):
        _insert(connection, _take(connection, id_, new_id), message=message)


def own_attachments(connection: sqlite3.Connection, folder: str, ids: Sequence[str], new_ids: Iterable[str]) -> None:
    """Have a folder own these files and no others, as `claim_attachments` does for a question."""
    there = {row[0] for row in connection.execute("SELECT id FROM attachments WHERE folder = ?", (folder,))}
    for id_, new_id in zip(ids, new_ids, strict=False):
        attachment = _decode(_find_row(connection, id_)[1]) if id_ in there else _take(connection, id_, new_id)
        connection.execute("DELETE FROM attachments WHERE id = ?", (attachment.id,))  # they are in the order given
        _insert(connection, attachment, folder=folder)
        there.discard(id_)
    connection.executemany("DELETE FROM attachments WHERE id = ?", [(id_,) for id_ in there])


def _take(connection: sqlite3.Connection, id_: str, new_id: str) -> Attachment:
    """Return an attachment for a new owner: itself where it has none, else a copy that is called `new_id`."""
    owner, value = _find_row(connection, id_)
    if owner is not None:
        return msgspec.structs.replace(_decode(value), id=new_id)
    connection.execute("DELETE FROM attachments WHERE id = ?", (id_,))  # its place is after those before it
    return _decode(value)


def attachments_of_folders(connection: sqlite3.Connection) -> dict[str, list[Attachment]]:
    """Return the files of all folders, by folder."""
    by_folder: dict[str, list[Attachment]] = {}
    statement = "SELECT folder, value FROM attachments WHERE folder IS NOT NULL ORDER BY folder, seq"
    for folder, value in connection.execute(statement):
        by_folder.setdefault(folder, []).append(_decode(value))
    return by_folder


def attachments_of_messages(connection: sqlite3.Connection, messages: Sequence[str]) -> dict[str, list[Attachment]]:
    """Return the attachments of these messages, by message."""
    by_message: dict[str, list[Attachment]] = {}
    for start in range(0, len(messages), _MANY):
        some = messages[start : start + _MANY]
        marks = ", ".join("?" * len(some))
        statement = f"SELECT message, value FROM attachments WHERE message IN ({marks}) ORDER BY message, seq"  # noqa: S608 -- marks only
        for message, value in connection.execute(statement, some):
            by_message.setdefault(message, []).append(_decode(value))
    return by_message


def tidy_attachments(connection: sqlite3.Connection, files: AttachmentFiles) -> None:
    """Forget what was never sent, and delete the files that nothing uses any more."""
    with transaction(connection):
        oldest = time.time() - _KEEP_UNSENT_S - CLOCK_SLACK_S
        is_unowned = "message IS NULL AND folder IS NULL"
        connection.execute(f"DELETE FROM attachments WHERE {is_unowned} AND created_at < ?", (oldest,))  # noqa: S608 -- a constant
        connection.execute("DELETE FROM indexed_files WHERE hash NOT IN (SELECT hash FROM attachments)")
    files.sweep({row[0] for row in connection.execute("SELECT DISTINCT hash FROM attachments")})


def _insert(
    connection: sqlite3.Connection, attachment: Attachment, *, message: str | None = None, folder: str | None = None
) -> None:
    value = msgspec.json.encode(attachment).decode()
    connection.execute(
        "INSERT INTO attachments (id, message, folder, hash, value, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (attachment.id, message, folder, attachment.hash, value, time.time()),
    )


def _find_row(connection: sqlite3.Connection, attachment: str) -> tuple[str | None, str]:
    """Return who owns an attachment, a message or a folder, and the attachment as JSON. Raises NotFound."""
    row: tuple[str | None, str] | None = connection.execute(
        "SELECT coalesce(message, folder), value FROM attachments WHERE id = ?", (attachment,)
    ).fetchone()
    if row is None:
        raise NotFound(
            "There is no such attachment.",
            hint="A file that is not sent within a day is forgotten: attach it again.",
            code="attachment_not_found",
        )
    return row


def _free_file(connection: sqlite3.Connection, files: AttachmentFiles, digest: str) -> None:
    if not connection.execute("SELECT 1 FROM attachments WHERE hash = ?", (digest,)).fetchone():
        connection.execute("DELETE FROM indexed_files WHERE hash = ?", (digest,))
        files.remove(digest)


def _decode(value: str) -> Attachment:
    return msgspec.json.decode(value, type=Attachment)
