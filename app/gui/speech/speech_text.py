"""From Markdown to what is read aloud, a paragraph a line: marks are not spoken, formulas are their source.

A block of code is passed over with a word: nobody follows brackets by ear.
"""

from collections.abc import Iterator

from app.core.translation import tr
from app.gui.markdown.pieces import LINE_BREAK, MarkdownPiece, PieceKind, RichText, rich_of, table_of, wide_length
from app.gui.markdown.splitter import MarkdownSplitter


def speech_lines(markdown: str) -> list[str]:
    """Return what is read aloud; no line is empty."""
    splitter = MarkdownSplitter()
    pieces = [*splitter.feed(markdown), *splitter.finish()]
    lines = (" ".join(line.split()) for piece in pieces for line in _lines_of(piece))
    return [line for line in lines if line]


def _lines_of(piece: MarkdownPiece) -> Iterator[str]:
    if piece.kind is PieceKind.CODE:
        if piece.is_first:
            yield tr("Code is left out.")
    elif piece.kind is PieceKind.TABLE:
        rows = table_of(piece).rows
        for row in rows if piece.is_first else rows[1:]:  # each piece of a long table begins with its header
            yield ", ".join(filter(None, map(_words_of, row)))
    elif piece.kind is PieceKind.MATH:
        yield piece.source
    elif piece.kind is not PieceKind.RULE:
        number = piece.marker if piece.marker[:1].isdigit() else ""
        yield f"{number} {_words_of(rich_of(piece))}"


def _words_of(rich: RichText) -> str:
    return rich.copy_text(0, wide_length(rich.text)).replace(LINE_BREAK, " ")
