"""What a message is cut into: a flat list of pieces, one below the other.

Lists and quotes are not boxes around pieces but properties of them (`depth`, `marker`, `quote`), so that any piece can
be laid out, painted and selected without the others. A long block is several pieces of the same `group`.
"""

from enum import IntFlag, StrEnum

import msgspec


class PieceKind(StrEnum):
    """How a piece is drawn."""

    TEXT = "text"
    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    RULE = "rule"


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


class RichText(msgspec.Struct, frozen=True):
    """Text to show, and where it is styled. Line breaks within it are U+2028."""

    text: str
    spans: tuple[StyleSpan, ...] = ()


class RichTable(msgspec.Struct, frozen=True):
    """The rows of a table piece, the header first, and the alignment of each column: "", "left", "center", "right"."""

    rows: tuple[tuple[RichText, ...], ...]
    aligns: tuple[str, ...]
