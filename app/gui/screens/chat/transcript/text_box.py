"""Paragraphs, headings, list items and quotes, and the rule across the column."""

from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.gui.markdown.inline import rich_of
from app.gui.markdown.pieces import Kind, Piece, Rich
from app.gui.screens.chat.transcript.box import Box, Pose, Spot, Verb
from app.gui.screens.chat.transcript.lines import Lines, Range, code_spans, rich_formats
from app.gui.screens.chat.transcript.look import Look, Tone

LIST_INDENT = 26
QUOTE_INDENT = 18
_MARKER_GAP = 8
_LINK_SCHEMES = ("http://", "https://")
_BULLETS = "•◦▪"


def indent_of(piece: Piece, look: Look) -> float:
    """Return how far from the column's edge a piece begins."""
    return piece.quote * look.px(QUOTE_INDENT) + piece.depth * look.px(LIST_INDENT)


def paint_quote(painter: QPainter, look: Look, box: Box, piece: Piece) -> None:
    """Draw the bars before a quoted piece, joined to those of a quoted piece above."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(look.color("line"))
    for level in range(piece.quote):
        above = look.px(box.gap) if level < box.bars_above else 0
        painter.drawRect(QRectF(level * look.px(QUOTE_INDENT), -above, look.px(3), box.height + above))


class TextBox(Box):
    """A run of styled text, perhaps with a list's marker before it."""

    def __init__(self, piece: Piece, tone: Tone | None = None, *, shrinks: bool = False) -> None:
        super().__init__()
        self.piece = piece
        self._tone = tone
        self._shrinks = shrinks
        self._rich: Rich | None = None
        self._lines: Lines | None = None
        self._pills: list[QRectF] = []
        self._links: list[Spot] = []
        self._x = 0.0
        self.prefix = f"{piece.marker} " if piece.marker else ""
        self.joint = "\n" if piece.is_first else "" if piece.is_glued else " "

    @property
    def rich(self) -> Rich:
        """The text, read when first asked for."""
        if self._rich is None:
            self._rich = rich_of(self.piece)
        return self._rich

    @property
    def text(self) -> str:  # type: ignore[override]  # read-only here: it comes from the piece
        """What can be selected."""
        return self.rich.text

    @property
    def gap(self) -> int:  # type: ignore[override]  # read-only here: it comes from the piece
        """More above a heading, less between the items of a list, none within a long paragraph."""
        if not self.piece.is_first:
            return 0
        if self.piece.kind is Kind.HEADING:
            return 28 if self.piece.level <= 1 else 24 if self.piece.level == 2 else 20  # noqa: PLR2004 -- levels
        return 6 if self.piece.depth else 12

    def guess(self, look: Look, width: float) -> float:
        """Guess from the number of letters."""
        tone = self._tone_in(look)
        room = max(1.0, (width - indent_of(self.piece, look)) / tone.letter_width)
        return ceil(max(1, len(self.piece.source)) / room) * tone.line_height

    def lay_out(self, look: Look, width: float) -> None:
        """Set the lines and find the places of code and links in them."""
        tone, rich = self._tone_in(look), self.rich
        indent = indent_of(self.piece, look)
        formats = rich_formats(rich, tone, look)
        lines = Lines(rich.text, tone, formats, width=width - indent, shrinks=self._shrinks)
        self._lines = lines
        self._x = 0.0 if lines.is_rtl else indent
        self.natural = lines.natural + indent
        self.height = lines.height
        self._pills = [area for span in code_spans(rich) for area in lines.areas(*span)]
        self._links = self._find_links(lines)

    def release(self) -> None:
        """Forget the lines."""
        super().release()
        self._lines = None

    def paint(self, painter: QPainter, look: Look, pose: Pose) -> None:
        """Draw bars, marker, the boxes behind code, and the text."""
        lines = self._lines
        if lines is None:
            return
        if self.piece.quote:
            paint_quote(painter, look, self, self.piece)
        self._paint_pills(painter, look)
        if self.piece.marker:
            self._paint_marker(painter, look, lines)
        lines.draw(painter, QPointF(self._x, 0), look, pose.marked)

    def offset_at(self, point: QPointF) -> int:
        """Ask the lines."""
        return 0 if self._lines is None else self._lines.offset_at(point.x() - self._x, point.y())

    def spots(self) -> list[Spot]:
        """Return the links."""
        return self._links

    def _tone_in(self, look: Look) -> Tone:
        if self.piece.kind is Kind.HEADING:
            return look.heading(self.piece.level)
        return self._tone or look.answer

    def _find_links(self, lines: Lines) -> list[Spot]:
        return [
            Spot(area.translated(self._x, 0), Verb.OPEN_LINK, f"Open {span.link}", span.link)
            for span in self.rich.spans
            if span.link.startswith(_LINK_SCHEMES)
            for area in lines.areas(span.start, span.start + span.length)
        ]

    def _paint_pills(self, painter: QPainter, look: Look) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("hover"))
        grow = look.px(2)
        for area in self._pills:
            painter.drawRoundedRect(area.translated(self._x, 0).adjusted(-grow, 0, grow, 1), look.px(4), look.px(4))

    def _paint_marker(self, painter: QPainter, look: Look, lines: Lines) -> None:
        tone, marker = self._tone_in(look), self.piece.marker
        painter.setFont(tone.font)
        painter.setPen(look.color("ink-2" if marker[0].isdigit() else "ink-3"))
        if marker == "☑":
            painter.setPen(look.color("accent-ink"))
        width = tone.metrics.horizontalAdvance(marker)
        gap = look.px(_MARKER_GAP)
        x = self._width - indent_of(self.piece, look) + gap if lines.is_rtl else self._x - gap - width
        painter.drawText(QPointF(x, lines.baseline()), marker)


class RuleBox(Box):
    """A line across the column."""

    gap = 16

    def __init__(self, piece: Piece) -> None:
        super().__init__()
        self.piece = piece

    def guess(self, look: Look, width: float) -> float:
        """Return its height, which is always the same."""
        del width
        return look.px(8)

    def lay_out(self, look: Look, width: float) -> None:
        """Take the whole width."""
        self.height, self.natural = look.px(8), width

    def paint(self, painter: QPainter, look: Look, pose: Pose) -> None:
        """Draw the line."""
        del pose
        painter.setPen(look.hairline())
        painter.drawLine(QPointF(indent_of(self.piece, look), self.height / 2), QPointF(self._width, self.height / 2))


def clipped(marked: Range | None, start: int, end: int) -> Range | None:
    """Return the part of a range between two positions, counted from the first; None when there is none."""
    if marked is None or marked[1] <= start or marked[0] >= end:
        return None
    return max(0, marked[0] - start), min(end, marked[1]) - start
