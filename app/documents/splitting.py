"""Cut a text into passages at the best places: before a heading, else between paragraphs, lines, sentences, words.

A passage overlaps with the one before it, so that what is said across a cut is whole in one of them; not across a
heading. The sizes are those with which the answer is found most often.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from app.core.documents import TextChunk


class PassageSizes(NamedTuple):
    """How long passages are, in characters.

    `most` of them are some 150 tokens, less than the context of any embedding model. A heading after less than `least`
    does not end a passage. Neighbours have up to `overlap` in common.
    """

    most: int = 600
    least: int = 150
    overlap: int = 100
    piece: int = 100
    """What a long line is cut into; passages consist of whole pieces."""


PASSAGE_SIZES = PassageSizes()
"""Chosen by how often the answer is found (docs/internals/documents.md)."""
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.{0,200})")
_PAGE = re.compile(r"\[Page (\d{1,6})\]")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\")\]”’]*\s+|[。！？]")  # noqa: RUF001 -- of Chinese and Japanese
_LEVELS = 6


class _Break(IntEnum):
    """How good a place for a cut is before a piece."""

    WORD = 0
    SENTENCE = 1
    LINE = 2
    PARAGRAPH = 3
    HEADING = 4


class _Piece(NamedTuple):
    start: int
    end: int
    before: _Break
    page: int | None
    heading: str


def split_text(text: str, *, is_marked_up: bool = False, sizes: PassageSizes = PASSAGE_SIZES) -> list[TextChunk]:
    """Return the passages of a text. With `is_marked_up` it has Markdown's headings, and marks before its pages."""
    pieces = list(_pieces_of(text, sizes.piece, is_marked_up=is_marked_up))
    chunks = []
    first = 0
    while first < len(pieces):
        end = _find_cut(pieces, first, sizes)
        start = pieces[first]
        chunks.append(TextChunk(start.start, pieces[end - 1].end, start.page, start.heading))
        first = end if end == len(pieces) else _step_back(pieces, first, end, sizes.overlap)
    return chunks


def _find_cut(pieces: list[_Piece], first: int, sizes: PassageSizes) -> int:
    """Return the number of the piece before which a passage that begins with `first` ends."""
    start = pieces[first].start
    end = first + 1
    while end < len(pieces) and pieces[end].end - start <= sizes.most:
        if pieces[end].before is _Break.HEADING and pieces[end].start - start >= sizes.least:
            return end
        end += 1
    if end == len(pieces):
        return end
    late = [at for at in range(first + 1, end + 1) if 2 * (pieces[at].start - start) >= sizes.most]
    return max(late, key=lambda at: (pieces[at].before, at), default=end)


def _step_back(pieces: list[_Piece], first: int, end: int, overlap: int) -> int:
    """Return the piece that the next passage begins with: some of what is before the cut, except at a heading."""
    again = end
    while (
        pieces[again].before is not _Break.HEADING
        and again - 1 > first
        and pieces[end].start - pieces[again - 1].start <= overlap
    ):
        again -= 1
    return again


def _pieces_of(text: str, longest: int, *, is_marked_up: bool) -> Iterator[_Piece]:
    """Yield the lines that are not blank, long ones in parts."""
    headings: list[str] = []
    page: int | None = None
    is_after_blank = False
    for start, end in _lines_of(text):
        line = text[start:end]
        if not line.strip():
            is_after_blank = True
            continue
        before = _Break.PARAGRAPH if is_after_blank else _Break.LINE
        is_after_blank = False
        if is_marked_up and (heading := _HEADING.match(line)):
            level = len(heading[1])
            headings = [*headings[: level - 1], *[""] * (level - 1 - len(headings)), heading[2].strip(" #")]
            before = _Break.HEADING
        elif is_marked_up and (mark := _PAGE.fullmatch(line.strip())):
            page = int(mark[1])
        trail = " > ".join(filter(None, headings))
        for part_start, part_end, strength in _cut_line(line, longest):
            yield _Piece(start + part_start, start + part_end, before if strength is None else strength, page, trail)


def _lines_of(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield at, end
        at = end + 1


def _cut_line(line: str, longest: int) -> Iterator[tuple[int, int, _Break | None]]:
    """Yield the parts of a line, none longer than a piece may be; of the first, no strength."""
    if len(line) <= longest:
        yield 0, len(line), None
        return
    at, strength = 0, None
    while at < len(line):
        end, next_strength = _part_end(line, at, at + longest)
        yield at, end, strength
        at, strength = end, next_strength


def _part_end(line: str, at: int, most: int) -> tuple[int, _Break]:
    """Return where the part that begins at `at` ends, and how good a place that is."""
    if len(line) <= most:
        return len(line), _Break.LINE
    ends = [match.end() for match in _SENTENCE_END.finditer(line, at, most)]
    if ends:
        return ends[-1], _Break.SENTENCE
    blank = line.rfind(" ", at + 1, most)
    return (blank + 1 if blank > at else most), _Break.WORD
