"""What a person typed into the search box, as conditions no input can break.

Words go to the full-text index, each quoted, the last one as a prefix. What the index cannot find inside a run of
characters (scripts written without spaces, emoji, bare punctuation) is looked for as it stands.
"""

import re
import unicodedata
from dataclasses import dataclass

MARK_START, MARK_END = "\x02", "\x03"
_MAX_WORDS = 16  # more narrow nothing down, and each costs a lookup
_MAX_WORD = 100
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
        return ["%" + _WILDCARD.sub(r"\\\g<0>", part) + "%" for part in self.parts]


def parse_query(text: str) -> SearchQuery | None:
    """Return what to look for, or None when nothing was typed."""
    words = [word[:_MAX_WORD] for word in text.replace("\0", " ").split()][:_MAX_WORDS]
    if not words:
        return None
    indexed = [word for word in words if _is_indexed(word)]
    quoted = ['"{}"'.format(word.replace('"', '""')) for word in indexed]
    return SearchQuery(
        match=" ".join(quoted) + "*" if quoted else "",
        parts=tuple(word for word in words if not _is_indexed(word)),
    )


def snippet_around(text: str, part: str) -> str:
    """Return the surroundings of the first occurrence of `part`, marked; the start of the text if it is not there."""
    match = re.search(re.escape(part), text, re.IGNORECASE)
    if match is None:
        return _one_line(text[: 2 * _CONTEXT])
    start, end = max(0, match.start() - _CONTEXT), match.end() + _CONTEXT
    before, after = text[start : match.start()], text[match.end() : end]
    marked = f"{before}{MARK_START}{match.group()}{MARK_END}{after}"
    return _one_line(("…" if start else "") + marked + ("…" if end < len(text) else ""))


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
