"""Colours for code, a run of lines at a time.

Pygments reads from the start of a text; a long block is read in runs instead. A string or comment that may go on past
the end of a run is handed to the next one as `carry`, read again there, and its colour dropped.
"""

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygments.token import _TokenType as _Kind

    _Lexed = tuple[int, _Kind, str]

_CARRY_LIMIT = 6000
"""Characters; an unclosed string longer than this loses its colour rather than costing a frame."""
COMMON_LANGUAGES = ("rust", "go", "cpp", "html", "sql", "javascript", "json", "bash", "python")
"""What answers are full of, the most usual last."""
_OTHER_NAMES = {"patch": "diff"}
"""What models call a language, and its colours by another name."""
_PLAIN = {"", "text", "txt", "plain", "plaintext", "none", "output"}


class Ink(StrEnum):
    """What a word of code is, as far as its colour goes."""

    KEYWORD = "keyword"
    STRING = "string"
    COMMENT = "comment"
    NUMBER = "number"
    NAME = "name"
    TYPE = "type"
    ADDED = "added"
    REMOVED = "removed"


class InkRun(msgspec.Struct, frozen=True, gc=False):
    """A run of characters of one ink; positions count UTF-16 units."""

    start: int
    length: int
    ink: Ink


_INKS = {
    Comment: Ink.COMMENT,
    Keyword.Type: Ink.TYPE,
    Keyword: Ink.KEYWORD,
    Operator.Word: Ink.KEYWORD,
    String: Ink.STRING,
    Number: Ink.NUMBER,
    Name.Function: Ink.NAME,
    Name.Class: Ink.TYPE,
    Name.Builtin: Ink.TYPE,
    Name.Decorator: Ink.NAME,
    Name.Tag: Ink.KEYWORD,
    Name.Attribute: Ink.NAME,
    Generic.Inserted: Ink.ADDED,
    Generic.Deleted: Ink.REMOVED,
    Generic.Heading: Ink.KEYWORD,
    Generic.Subheading: Ink.KEYWORD,
}


def highlight_code(language: str, text: str, carry: str = "") -> tuple[tuple[InkRun, ...], str]:
    """Return where `text` is coloured, and what the run of lines after it has to carry."""
    lexer = _find_lexer(language)
    if lexer is None:
        return (), ""
    tokens = [(start, kind, value) for start, kind, value in _lex_text(lexer, carry + text) if value]
    runs = _make_runs(tokens, text, len(carry))
    return runs, _open_tail(tokens, carry + text)


def _lex_text(lexer: Lexer, text: str) -> "Iterator[_Lexed]":
    end = "" if text.endswith("\n") else "\n"  # lexers of lines, of changes for one, know none without its end
    tokens: Iterator[_Lexed] = lexer.get_tokens_unprocessed(text + end)
    return tokens


@lru_cache(maxsize=64)
def _find_lexer(language: str) -> Lexer | None:
    if language.lower() in _PLAIN:
        return None
    try:
        name = language.lower()
        return get_lexer_by_name(_OTHER_NAMES.get(name, name))
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _ink_of(kind: "_Kind") -> Ink | None:
    ancestor: _Kind | None = kind
    while ancestor is not None:
        if ancestor in _INKS:
            return _INKS[ancestor]
        ancestor = ancestor.parent
    return None


def _make_runs(tokens: "list[_Lexed]", text: str, skip: int) -> tuple[InkRun, ...]:
    wide = None if text.isascii() else _wide_offsets(text)
    runs: list[InkRun] = []
    for at, kind, value in tokens:
        ink = _ink_of(kind)
        start, end = max(0, at - skip), min(at - skip + len(value), len(text))
        if ink is None or end <= start or value.isspace():
            continue
        if wide:
            start, end = wide[start], wide[end]
        if runs and runs[-1].ink is ink and runs[-1].start + runs[-1].length == start:
            start = runs.pop().start
        runs.append(InkRun(start, end - start, ink))
    return tuple(runs)


def _wide_offsets(text: str) -> list[int]:
    """Return, for each character position, how many UTF-16 units come before it."""
    offsets, at = [], 0
    for sign in text:
        offsets.append(at)
        at += 2 if ord(sign) > 0xFFFF else 1  # noqa: PLR2004 -- the last character of one UTF-16 unit
    return [*offsets, at]


def _open_tail(tokens: "list[_Lexed]", text: str) -> str:
    """Return the string or comment of several lines the text ends in, or nothing."""
    start = len(text)
    for at, kind, value in reversed(tokens):
        is_quoted = kind[:2] == String[:2] or kind[:1] == Comment[:1]
        if not is_quoted and not value.isspace():
            break
        start = at
    tail = text[start:]
    return tail if "\n" in tail.strip("\n") and len(tail) < _CARRY_LIMIT else ""
