"""What a message is cut into: a flat list of pieces, one below the other.

Lists and quotes are not boxes around pieces but properties of them (`depth`, `marker`, `quote`), so that any piece can
be laid out, painted and selected without the others. A long block is several pieces of the same `group`.

What stands within a piece: emphasis, code, links; and the cells of a table. Read only when a piece is drawn.

HTML is not interpreted and images are not fetched: an image shows as a link with its description.
"""

import re
from enum import IntFlag, StrEnum

import msgspec
from markdown_it.token import Token

from app.markdown.formulas import FormulaDrawing, draw_formula, find_formulas
from app.markdown.parser import markdown_parser


class PieceKind(StrEnum):
    """How a piece is drawn."""

    TEXT = "text"
    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    RULE = "rule"
    MATH = "math"
    """A formula that stands by itself; its source has its delimiters."""


class MarkdownPiece(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One paragraph, heading, list item, run of code lines, run of table rows, or rule. `source` is still Markdown.

    A code piece's `source` is its lines; a table piece's starts with its header and delimiter rows.
    """

    kind: PieceKind
    source: str = ""
    group: int = 0
    """Number of the block within the message; pieces of one long block share it."""
    level: int = 0
    """Of a heading: 1 to 6."""
    depth: int = 0
    """How many lists the piece is in."""
    marker: str = ""
    """What stands before a list item's first piece: a bullet, a number, a box."""
    quote: int = 0
    """How many quotes the piece is in."""
    language: str = ""
    """Of code: the first word after the fence."""
    is_literal: bool = False
    """The text means itself: nothing in it is Markdown."""
    is_first: bool = True
    """The first piece of its block."""
    is_last: bool = True
    """The last piece of its block."""
    is_glued: bool = False
    """The cut before this piece was made within a line."""
    half_formula: str = ""
    """What stands behind `source` of a formula still arriving; shown as it is."""


class TextStyle(IntFlag):
    """How a run of text differs from its surroundings."""

    PLAIN = 0
    BOLD = 1
    ITALIC = 2
    CODE = 4
    STRIKE = 8


class StyleSpan(msgspec.Struct, frozen=True, gc=False):
    """A run of styled text; positions count UTF-16 units, as Qt does."""

    start: int
    length: int
    style: TextStyle = TextStyle.PLAIN
    link: str = ""


class FormulaPlace(msgspec.Struct, frozen=True, gc=False):
    """A formula in a text, at the one character that keeps its place."""

    start: int
    source: str
    drawing: FormulaDrawing


class RichText(msgspec.Struct, frozen=True):
    """Text to show, and where it is styled. Line breaks within it are U+2028."""

    text: str
    spans: tuple[StyleSpan, ...] = ()
    formulas: tuple[FormulaPlace, ...] = ()

    def copy_text(self, start: int, end: int) -> str:
        """Return the text between two positions in UTF-16 units, formulas as they were written."""
        parts = []
        for formula in self.formulas:
            if start <= formula.start < end:
                parts += [wide_cut(self.text, start, formula.start), formula.source]
                start = formula.start + 1
        return "".join([*parts, wide_cut(self.text, start, end)])


class RichTable(msgspec.Struct, frozen=True):
    """The rows of a table piece, the header first, and the alignment of each column: "", "left", "center", "right"."""

    rows: tuple[tuple[RichText, ...], ...]
    aligns: tuple[str, ...]


LINE_BREAK = "\u2028"
PLACEHOLDER = "\u00a0"
"""Keeps the place of a formula: a blank at which no line ends."""
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_SENTENCE_MARKS = ".,;:!?*_~'\""
_STYLES = {"strong": TextStyle.BOLD, "em": TextStyle.ITALIC, "s": TextStyle.STRIKE}
_BREAK_TAG = re.compile(r"<br ?/?>", re.IGNORECASE)
_MARKS = ("**", "~~", "`")


def rich_of(piece: MarkdownPiece) -> RichText:
    """Return the styled text of a paragraph, heading or list item."""
    if piece.is_literal:
        return RichText(piece.source.rstrip().replace("\n", LINE_BREAK))
    source = piece.source.strip() if piece.is_last and not piece.half_formula else piece.source
    half = piece.half_formula.replace("\n", " ")
    if not any(sign in source for sign in "*_`[<&\\~!\n:$"):
        return RichText(source + half)
    (token,) = markdown_parser().parseInline(source)
    rich = _render_tokens(token.children or [])
    blank = " " if half and source[-1:].isspace() else ""
    return msgspec.structs.replace(rich, text=f"{rich.text.rstrip() if blank else rich.text}{blank}{half}")


def table_of(piece: MarkdownPiece) -> RichTable:
    """Return the cells of a table piece, its header first."""
    rows: list[list[RichText]] = []
    aligns: list[str] = []
    for token in markdown_parser().parse(piece.source):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "th_open":
            aligns.append(str(token.attrGet("style") or "").removeprefix("text-align:"))
        elif token.type == "inline" and rows:
            rows[-1].append(_render_tokens(token.children or []))
    return RichTable(tuple(tuple(row) for row in rows), tuple(aligns))


def close_open_marks(source: str) -> str:
    """Close the emphasis and code that the end of a text still arriving leaves open, so that it does not flicker."""
    closed_source = source
    for formula in find_formulas(source):
        closed_source = closed_source.replace(source[formula.start : formula.end], "")
    for mark in _MARKS:
        if closed_source.count(mark) % 2:
            rest = source.rpartition(mark)[2]
            source = source + mark if rest.strip() else source.rpartition(mark)[0]
    return source


def _render_tokens(tokens: list[Token]) -> RichText:
    writer = _RichTextWriter()
    for token in tokens:
        writer.add_token(token)
    return RichText("".join(writer.text), tuple(writer.spans), tuple(writer.formulas))


class _RichTextWriter:
    """Turns the flat tokens of a line into text and spans."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.spans: list[StyleSpan] = []
        self.formulas: list[FormulaPlace] = []
        self._at = 0
        self._styles: list[TextStyle] = []
        self._link = ""

    def add_token(self, token: Token) -> None:
        """Add what one token shows."""
        name, _, side = token.type.rpartition("_")
        if token.type == "text":
            self._write_plain(_BREAK_TAG.sub(LINE_BREAK, token.content))
        elif token.type == "formula":
            self._write_formula(token)
        elif token.type == "code_inline":
            self._write_text(token.content, TextStyle.CODE)
        elif token.type == "softbreak":
            self._write_text(" ", TextStyle.PLAIN)
        elif token.type == "hardbreak":
            self._write_text(LINE_BREAK, TextStyle.PLAIN)
        elif token.type == "image":
            self._write_image(token)
        elif name == "link":
            self._link = str(token.attrGet("href") or "") if side == "open" else ""
        elif name in _STYLES and side == "open":
            self._styles.append(_STYLES[name])
        elif name in _STYLES:
            self._styles.pop()

    def _write_plain(self, text: str) -> None:
        """Write text, the addresses in it as links."""
        at = 0
        for match in _ADDRESS.finditer(text) if not self._link else ():
            address = _trim_address(match[0])
            self._write_text(text[at : match.start()], TextStyle.PLAIN)
            self._link = address
            self._write_text(address, TextStyle.PLAIN)
            self._link, at = "", match.start() + len(address)
        self._write_text(text[at:], TextStyle.PLAIN)

    def _write_formula(self, token: Token) -> None:
        """Keep a place for a formula; the source of one that cannot be drawn stands there as code."""
        formula_drawing = draw_formula(token.content, is_display=token.meta["is_display"])
        if formula_drawing is None:
            self._write_text(token.markup.replace("\n", " "), TextStyle.CODE)
            return
        self.formulas.append(FormulaPlace(self._at, token.markup, formula_drawing))
        self._write_text(PLACEHOLDER, TextStyle.PLAIN)

    def _write_image(self, token: Token) -> None:
        outer, self._link = self._link, str(token.attrGet("src") or "")
        self._write_text(token.content or self._link, TextStyle.PLAIN)
        self._link = outer

    def _write_text(self, text: str, style: TextStyle) -> None:
        length = wide_length(text)
        for outer in self._styles:
            style |= outer
        if length and (style or self._link):
            self.spans.append(StyleSpan(self._at, length, style, self._link))
        self.text.append(text)
        self._at += length


def _trim_address(address: str) -> str:
    """Return an address without what ends the sentence or the brackets that it stands in."""
    while address and (
        address[-1] in _SENTENCE_MARKS
        or (address[-1] in ")]}" and address.count(address[-1]) > address.count("([{"[")]}".index(address[-1])]))
    ):
        address = address[:-1]
    return address


def wide_cut(text: str, start: int, end: int) -> str:
    """Return the part of `text` between two positions counted in UTF-16 units, as Qt counts."""
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le")[start * 2 : end * 2].decode("utf-16-le", "ignore")


def wide_length(text: str) -> int:
    """Return the length of `text` in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
