"""What stands within a piece: emphasis, code, links; and the cells of a table. Read only when a piece is drawn.

HTML is not interpreted and images are not fetched: an image shows as a link with its description.
"""

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.gui.markdown.pieces import Piece, Rich, Span, Style, Table

LINE_BREAK = "\u2028"
_STYLES = {"strong": Style.BOLD, "em": Style.ITALIC, "s": Style.STRIKE}
_BREAK_TAG = re.compile(r"<br ?/?>", re.IGNORECASE)
_MARKS = ("**", "~~", "`")


def rich_of(piece: Piece) -> Rich:
    """Return the styled text of a paragraph, heading or list item."""
    if piece.is_literal:
        return Rich(piece.source.rstrip().replace("\n", LINE_BREAK))
    source = piece.source.strip() if piece.is_last else piece.source
    if not any(sign in source for sign in "*_`[<&\\~!\n:"):
        return Rich(source)
    (token,) = _reader().parseInline(source)
    return _rich(token.children or [])


def table_of(piece: Piece) -> Table:
    """Return the cells of a table piece, its header first."""
    rows: list[list[Rich]] = []
    aligns: list[str] = []
    for token in _reader().parse(piece.source):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "th_open":
            aligns.append(str(token.attrGet("style") or "").removeprefix("text-align:"))
        elif token.type == "inline" and rows:
            rows[-1].append(_rich(token.children or []))
    return Table(tuple(tuple(row) for row in rows), tuple(aligns))


def mended(source: str) -> str:
    """Close the emphasis and code that the end of a text still arriving leaves open, so that it does not flicker."""
    for mark in _MARKS:
        if source.count(mark) % 2:
            rest = source.rpartition(mark)[2]
            source = source + mark if rest.strip() else source.rpartition(mark)[0]
    return source


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _rich(tokens: list[Token]) -> Rich:
    writer = _Writer()
    for token in tokens:
        writer.take(token)
    return Rich("".join(writer.text), tuple(writer.spans))


class _Writer:
    """Turns the flat tokens of a line into text and spans."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.spans: list[Span] = []
        self._at = 0
        self._styles: list[Style] = []
        self._link = ""

    def take(self, token: Token) -> None:
        """Add what one token shows."""
        name, _, side = token.type.rpartition("_")
        if token.type == "text":
            self._write(_BREAK_TAG.sub(LINE_BREAK, token.content), Style.PLAIN)
        elif token.type == "code_inline":
            self._write(token.content, Style.CODE)
        elif token.type == "softbreak":
            self._write(" ", Style.PLAIN)
        elif token.type == "hardbreak":
            self._write(LINE_BREAK, Style.PLAIN)
        elif token.type == "image":
            self._image(token)
        elif name == "link":
            self._link = str(token.attrGet("href") or "") if side == "open" else ""
        elif name in _STYLES and side == "open":
            self._styles.append(_STYLES[name])
        elif name in _STYLES:
            self._styles.pop()

    def _image(self, token: Token) -> None:
        outer, self._link = self._link, str(token.attrGet("src") or "")
        self._write(token.content or self._link, Style.PLAIN)
        self._link = outer

    def _write(self, text: str, style: Style) -> None:
        length = _units(text)
        for outer in self._styles:
            style |= outer
        if length and (style or self._link):
            self.spans.append(Span(self._at, length, style, self._link))
        self.text.append(text)
        self._at += length


def _units(text: str) -> int:
    """Return how many UTF-16 units Qt counts in `text`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
