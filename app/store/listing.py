"""Chats as a list shows them: newest first, page by page, all of them or those a search finds.

A search finds a chat by its title, by one message that has every word, or by one attached file that has. The newest
such message gives the snippet, else the file that came last.

What a person typed into the search box, as conditions no input can break.

Words go to the full-text index, each quoted, the last one as a prefix. What the index cannot find inside a run of
characters (scripts written without spaces, emoji, bare punctuation) is looked for as it stands.
"""

import re
import sqlite3
import unicodedata
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from app.core.attachments import Attachment
from app.core.chats import ChatShelf, ChatSummary

MARK_START, MARK_END = "\x02", "\x03"
_MAX_WORDS = 16  # more narrow nothing down, and each costs a lookup
_MAX_WORD = 100
MOST_HITS = 20_000  # messages that a search looks at, the newest: a letter typed first is in nearly all of them
_CONTEXT = 40  # characters of a snippet on either side of a match
_WILDCARD = re.compile(r"[\\%_]")
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`match` is an FTS5 expression, empty if no word is indexed; `parts` are texts that must occur as they stand."""

    match: str
    parts: tuple[str, ...]

    @property
    def patterns(self) -> list[str]:
        r"""Return `parts` for LIKE ... ESCAPE '\'."""
        return [f"%{escape_like(part)}%" for part in self.parts]


def escape_like(text: str) -> str:
    r"""Return a text that means itself in LIKE ... ESCAPE '\'."""
    return _WILDCARD.sub(r"\\\g<0>", text)


def parse_query(text: str) -> SearchQuery | None:
    """Return what to look for, or None when nothing was typed."""
    words = [word[:_MAX_WORD] for word in text.replace("\0", " ").split()][:_MAX_WORDS]
    if not words:
        return None
    indexed_words = [word for word in words if _is_indexed(word)]
    quoted_words = ['"{}"'.format(word.replace('"', '""')) for word in indexed_words]
    return SearchQuery(
        match=" ".join(quoted_words) + "*" if quoted_words else "",
        parts=tuple(word for word in words if not _is_indexed(word)),
    )


def snippet_around(text: str, part: str) -> str:
    """Return the surroundings of the first occurrence of `part`, marked; the start of the text if it is not there."""
    match = re.search(re.escape(part), text, re.IGNORECASE)
    if match is None:
        return _one_line(text[: 2 * _CONTEXT])
    start, end = max(0, match.start() - _CONTEXT), match.end() + _CONTEXT
    before, after = text[start : match.start()], text[match.end() : end]
    marked_text = f"{before}{MARK_START}{match.group()}{MARK_END}{after}"
    return _one_line(("…" if start else "") + marked_text + ("…" if end < len(text) else ""))


def _is_indexed(word: str) -> bool:
    """Say whether SQLite's unicode61 tokenizer makes words of it that a person would recognise."""
    return any(_is_token_character(char) for char in word) and not _NO_SPACES.search(word) and not _has_symbol(word)


def _is_token_character(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LN" or category == "Co"


def _has_symbol(word: str) -> bool:
    return any(unicodedata.category(char) == "So" for char in word)


def _one_line(text: str) -> str:
    return " ".join(text.split())


MAX_PAGE = 200
_SUMMARY = (
    "c.id, c.title, c.model, c.created_at, c.updated_at,"
    " (SELECT count(*) FROM messages m WHERE m.chat = c.id AND m.deleted_at IS NULL), c.seq,"
    " c.is_pinned, coalesce(c.folder, ''), (SELECT group_concat(tag, char(10)) FROM chat_tags t WHERE t.chat = c.id)"
)
_SNIPPET_TOKENS = 24


_ON_SHELF = {
    ChatShelf.CURRENT: "c.deleted_at IS NULL AND NOT c.is_archived",
    ChatShelf.ARCHIVED: "c.deleted_at IS NULL AND c.is_archived",
    ChatShelf.TRASH: "c.deleted_at IS NOT NULL",
}


class ListRequest(NamedTuple):
    """Which chats: at most `limit`, last changed before `before` (Unix seconds; None: now), that have all words."""

    query: str = ""
    limit: int = 50
    before: float | None = None
    shelf: ChatShelf = ChatShelf.CURRENT
    folder: str | None = None
    """Only those in this folder; with an empty one, those in none."""
    tag: str = ""
    """Only those that have this tag."""
    has_titles_first: bool = False
    """Whether a search begins with titles: those that start with its text, then the rest. It has one page then."""


def list_chats(connection: sqlite3.Connection, request: ListRequest) -> list[ChatSummary]:
    """Return chats, newest first. Without a search, those that are pinned stand before the first page's others."""
    limit = max(1, min(request.limit, MAX_PAGE))
    search = parse_query(request.query)
    if search is not None and request.has_titles_first:
        titles = _search_titles(connection, search, limit, request)
        ids = {summary.id for summary in titles}
        others = (chat for chat in _search_chats(connection, search, limit, request) if chat.id not in ids)
        return [*titles, *others][:limit]
    if search is not None:
        return _search_chats(connection, search, limit, request)
    where = _place_condition(request)
    if request.shelf is not ChatShelf.CURRENT:
        return _list_some(connection, where, limit, request.before)
    pinned_chats = (
        [] if request.before is not None else _list_some(connection, where.and_("c.is_pinned"), MAX_PAGE, None)
    )
    return pinned_chats + _list_some(connection, where.and_("NOT c.is_pinned"), limit, request.before)


class _Condition(NamedTuple):
    """SQL that is true of some chats `c`, and the values to bind."""

    sql: str
    values: tuple[str | float, ...] = ()

    def and_(self, sql: str, *values: str | float) -> "_Condition":
        return _Condition(f"{self.sql} AND {sql}", (*self.values, *values))


def _place_condition(request: ListRequest) -> _Condition:
    """Return what says that a chat is on the shelf, in the folder, and has the tag."""
    where = _Condition(_ON_SHELF[request.shelf])
    if request.folder is not None:
        where = where.and_("c.folder = ?", request.folder) if request.folder else where.and_("c.folder IS NULL")
    if request.tag:
        where = where.and_("EXISTS (SELECT 1 FROM chat_tags t WHERE t.chat = c.id AND t.tag = ?)", request.tag)
    return where


def _list_some(
    connection: sqlite3.Connection, where: _Condition, limit: int, before: float | None
) -> list[ChatSummary]:
    rows = connection.execute(
        f"SELECT {_SUMMARY} FROM chats c WHERE {where.sql} AND c.updated_at < ? ORDER BY c.updated_at DESC LIMIT ?",  # noqa: S608 -- constants
        (*where.values, _end_of(before), limit),
    )
    return [_build_summary(row) for row in rows]


def _end_of(before: float | None) -> float:
    return float("inf") if before is None else before


def _search_chats(
    connection: sqlite3.Connection, search: SearchQuery, limit: int, request: ListRequest
) -> list[ChatSummary]:
    in_message, message_values = _match_condition(search, _MESSAGES)
    in_file, file_values = _match_condition(search, _FILES)
    in_title, title_values = _match_condition(search, _TITLES)
    where = _place_condition(request)
    statement = (
        f"SELECT {_SUMMARY}, hit.seq, file.seq FROM chats c"  # noqa: S608 -- constant names; what was typed is bound
        " LEFT JOIN (SELECT m.chat, max(m.seq) AS seq FROM messages m"
        f" WHERE m.deleted_at IS NULL AND {in_message} GROUP BY m.chat) hit ON hit.chat = c.id"
        f" LEFT JOIN (SELECT m.chat, max(a.seq) AS seq FROM {_FILES_OF_MESSAGES}"
        f" WHERE m.deleted_at IS NULL AND {in_file} GROUP BY m.chat) file ON file.chat = c.id"
        f" WHERE {where.sql} AND c.updated_at < ?"
        f" AND (hit.seq IS NOT NULL OR file.seq IS NOT NULL OR ({in_title}))"
        " ORDER BY c.updated_at DESC LIMIT ?"
    )
    values = (*message_values, *file_values, *where.values, _end_of(request.before), *title_values, limit)
    return [_build_hit(connection, search, row) for row in connection.execute(statement, values).fetchall()]


def _search_titles(
    connection: sqlite3.Connection, search: SearchQuery, limit: int, request: ListRequest
) -> list[ChatSummary]:
    """Return chats whose titles have all words: first those whose titles begin with what was typed; newest first."""
    in_title, title_values = _match_condition(search, _TITLES)
    where = _place_condition(request)
    title_pattern = escape_like(" ".join(request.query.split())) + "%"
    chosen_rows = (
        f"SELECT c.seq FROM chats c WHERE {where.sql} AND {in_title}"  # noqa: S608 -- constant names; what was typed is bound
        " ORDER BY c.title LIKE ? ESCAPE '\\' DESC, c.updated_at DESC LIMIT ?"
    )
    rows = connection.execute(
        f"SELECT {_SUMMARY}, NULL, NULL FROM chats c WHERE c.seq IN ({chosen_rows})"  # noqa: S608 -- as above
        " ORDER BY c.title LIKE ? ESCAPE '\\' DESC, c.updated_at DESC",
        (*where.values, *title_values, title_pattern, limit, title_pattern),
    )
    return [_build_hit(connection, search, row) for row in rows.fetchall()]


_FILES_OF_MESSAGES = (
    "indexed_files f JOIN attachments a ON a.hash = f.hash JOIN messages m ON m.id = a.message"  # each by an index
)


def _build_hit(connection: sqlite3.Connection, search: SearchQuery, row: tuple[Any, ...]) -> ChatSummary:
    """Return a chat that was found, with the message by which it was, or the file."""
    message, attachment = row[-2:]
    if message is not None:
        hit = connection.execute("SELECT id FROM messages WHERE seq = ?", (message,)).fetchone()[0]
        return _build_summary(row, _read_snippet(connection, search, _MESSAGES, message), hit)
    if attachment is None:
        return _build_summary(row, _read_snippet(connection, search, _TITLES, row[6]))
    statement = (
        "SELECT a.message, a.value, f.seq FROM attachments a JOIN indexed_files f ON f.hash = a.hash WHERE a.seq = ?"
    )
    hit, value, file = connection.execute(statement, (attachment,)).fetchone()
    summary = _build_summary(row, _read_snippet(connection, search, _FILES, file), hit)
    return msgspec.structs.replace(summary, file=msgspec.json.decode(value, type=Attachment).name)


class _SearchPlace(NamedTuple):
    """Where a search looks: the table of its index, what rows are called in a search, and the text of one of them."""

    table: str
    row: str
    text: str


_MESSAGES = _SearchPlace("message_text", "m.seq", "(SELECT content FROM messages WHERE seq = {row})")
_FILES = _SearchPlace("file_text", "f.seq", "(SELECT content FROM file_text WHERE rowid = {row})")
_TITLES = _SearchPlace("chat_text", "c.seq", "(SELECT title FROM chats WHERE seq = {row})")


def _match_condition(search: SearchQuery, place: _SearchPlace) -> tuple[str, list[str]]:
    """Return SQL that is true where every word occurs, and the values to bind."""
    conditions = [f"{place.text.format(row=place.row)} LIKE ? ESCAPE '\\'"] * len(search.parts)
    values = search.patterns
    if search.match:
        newest = f"ORDER BY rowid DESC LIMIT {MOST_HITS}"
        conditions.append(f"{place.row} IN (SELECT rowid FROM {place.table} WHERE {place.table} MATCH ? {newest})")  # noqa: S608 -- constant names
        values = [*values, search.match]
    return " AND ".join(conditions), values


def _read_snippet(connection: sqlite3.Connection, search: SearchQuery, place: _SearchPlace, row: int) -> str:
    if search.match:
        index = place.table
        statement = f"SELECT snippet({index}, 0, ?, ?, '…', ?) FROM {index} WHERE {index} MATCH ? AND rowid = ?"  # noqa: S608 -- constant names
        values = (MARK_START, MARK_END, _SNIPPET_TOKENS, search.match, row)
        return str(connection.execute(statement, values).fetchone()[0])
    text = connection.execute(f"SELECT {place.text.format(row='?')}", (row,)).fetchone()[0]
    return snippet_around(text, search.parts[0])


def _build_summary(row: tuple[Any, ...], snippet: str = "", hit: str = "") -> ChatSummary:
    return ChatSummary(
        id=row[0],
        title=row[1],
        model=row[2],
        created_at=row[3],
        updated_at=row[4],
        message_count=row[5],
        snippet=snippet,
        hit=hit,
        is_pinned=bool(row[7]),
        folder=row[8],
        tags=sorted((row[9] or "").split("\n"), key=str.casefold) if row[9] else [],
    )
