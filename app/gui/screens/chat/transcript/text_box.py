"""Paragraphs, headings, list items and quotes, and the rule across the column."""

from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.core.documents import citations_in
from app.core.translation import tr
from app.gui.markdown.pieces import LINE_BREAK, MarkdownPiece, PieceKind, RichText, rich_of
from app.gui.screens.chat.transcript.box import Box, MatchMark, PaintState, Spot, Verb
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.screens.chat.transcript.text_lines import Range, TextLines, code_spans, rich_formats

LIST_INDENT = 26
QUOTE_INDENT = 18
_MARKER_GAP = 8
_LINK_SCHEMES = ("http://", "https://")
_BULLETS = "•◦▪"


def indent_of(piece: MarkdownPiece, look: TranscriptLook) -> float:
    """Return how far from the column's edge a piece begins."""
    return piece.quote * look.px(QUOTE_INDENT) + piece.depth * look.px(LIST_INDENT)


def paint_quote(painter: QPainter, look: TranscriptLook, box: Box, piece: MarkdownPiece) -> None:
    """Draw the bars before a quoted piece, joined to those of a quoted piece above."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(look.color("line"))
    for level in range(piece.quote):
        above = look.px(box.gap) if level < box.bars_above else 0
        painter.drawRect(QRectF(level * look.px(QUOTE_INDENT), -above, look.px(3), box.height + above))


class TextBox(Box):
    """A run of styled text, perhaps with a list's marker before it."""

    def __init__(self, piece: MarkdownPiece, tone: Tone | None = None, *, shrinks: bool = False) -> None:
        super().__init__()
        self.piece = piece
        self._tone = tone
        self._shrinks = shrinks
        self._rich: RichText | None = None
        self._lines: TextLines | None = None
        self._pills: list[QRectF] = []
        self._links: list[Spot] = []
        self._x = 0.0
        self.citations: frozenset[str] = frozenset()
        """Numbers that cite passages, where they stand in brackets."""
        self.prefix = f"{piece.marker} " if piece.marker else ""
        self.joint = "\n" if piece.is_first else "" if piece.is_glued else " "

    @property
    def rich(self) -> RichText:
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
        if self.piece.kind is PieceKind.HEADING:
            return 28 if self.piece.level <= 1 else 24 if self.piece.level == 2 else 20  # noqa: PLR2004 -- levels
        return 6 if self.piece.depth else 12

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Guess from the number of letters."""
        tone = self._tone_in(look)
        room = max(1.0, (width - indent_of(self.piece, look)) / tone.letter_width)
        return ceil(max(1, len(self.piece.source)) / room) * tone.line_height

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Set the lines and find the places of code and links in them."""
        tone, rich = self._tone_in(look), self.rich
        indent = indent_of(self.piece, look)
        formats = rich_formats(rich, tone, look)
        lines = TextLines(rich.text, tone, formats, width=width - indent, shrinks=self._shrinks, formulas=rich.formulas)
        self._lines = lines
        self._x = 0.0 if lines.is_rtl else indent
        self.natural = lines.natural + indent
        self.height = lines.height
        self._pills = [area for span in code_spans(rich) for area in lines.range_areas(*span)]
        citations = self._find_citations(lines)
        self._pills += [spot.area.translated(-self._x, 0) for spot in citations]
        self._links = [*self._find_links(lines), *citations]

    def drop_layout(self) -> None:
        """Forget the lines."""
        super().drop_layout()
        self._lines = None

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw bars, marker, the boxes behind code, and the text."""
        lines = self._lines
        if lines is None:
            return
        if self.piece.quote:
            paint_quote(painter, look, self, self.piece)
        self._paint_pills(painter, look)
        if self.piece.marker:
            self._paint_marker(painter, look, lines)
        lines.draw_at(painter, QPointF(self._x, 0), look, pose.selection, pose.marks)

    def offset_at(self, point: QPointF) -> int:
        """Ask the lines."""
        return 0 if self._lines is None else self._lines.offset_at(point.x() - self._x, point.y())

    def top_at(self, position: int) -> float:
        """Ask the lines."""
        return 0.0 if self._lines is None else self._lines.top_at(position)

    def copy_text(self, start: int, end: int) -> str:
        """Return a part of the text with its formulas as they were written."""
        return self.rich.copy_text(start, end).replace(LINE_BREAK, "\n")

    def list_spots(self) -> list[Spot]:
        """Return the links."""
        return self._links

    def _tone_in(self, look: TranscriptLook) -> Tone:
        if self.piece.kind is PieceKind.HEADING:
            return look.heading_tone(self.piece.level)
        return self._tone or look.answer

    def _find_links(self, lines: TextLines) -> list[Spot]:
        return [
            Spot(area.translated(self._x, 0), Verb.OPEN_LINK, tr("Open {link}", link=span.link), span.link)
            for span in self.rich.spans
            if span.link.startswith(_LINK_SCHEMES)
            for area in lines.range_areas(span.start, span.start + span.length)
        ]

    def _find_citations(self, lines: TextLines) -> list[Spot]:
        if not self.citations:
            return []
        return [
            Spot(area.translated(self._x, 0), Verb.OPEN_SOURCE, tr("Open passage {number}", number=number), number)
            for number, start, end in citations_in(self.rich.text)
            if number in self.citations
            for area in lines.range_areas(start, end)
        ]

    def _paint_pills(self, painter: QPainter, look: TranscriptLook) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("hover"))
        grow = look.px(2)
        for area in self._pills:
            painter.drawRoundedRect(area.translated(self._x, 0).adjusted(-grow, 0, grow, 1), look.px(4), look.px(4))

    def _paint_marker(self, painter: QPainter, look: TranscriptLook, lines: TextLines) -> None:
        tone, marker = self._tone_in(look), self.piece.marker
        painter.setFont(tone.font)
        painter.setPen(look.color("ink-2" if marker[0].isdigit() else "ink-3"))
        if marker == "☑":
            painter.setPen(look.color("accent-ink"))
        width = tone.metrics.horizontalAdvance(marker)
        gap = look.px(_MARKER_GAP)
        x = self._width - indent_of(self.piece, look) + gap if lines.is_rtl else self._x - gap - width
        painter.drawText(QPointF(x, lines.first_baseline()), marker)


class RuleBox(Box):
    """A line across the column."""

    gap = 16

    def __init__(self, piece: MarkdownPiece) -> None:
        super().__init__()
        self.piece = piece

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return its height, which is always the same."""
        del width
        return look.px(8)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Take the whole width."""
        self.height, self.natural = look.px(8), width

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the line."""
        del pose
        painter.setPen(look.hairline_pen())
        painter.drawLine(QPointF(indent_of(self.piece, look), self.height / 2), QPointF(self._width, self.height / 2))


def clip_range(selection: Range | None, start: int, end: int) -> Range | None:
    """Return the part of a range between two positions, counted from the first; None when there is none."""
    if selection is None or selection[1] <= start or selection[0] >= end:
        return None
    return max(0, selection[0] - start), min(end, selection[1]) - start


def clip_marks(marks: Sequence[MatchMark], start: int, end: int) -> list[MatchMark]:
    """Return the marks between two positions, counted from the first."""
    parts = [(clip_range((mark.start, mark.end), start, end), mark) for mark in marks]
    return [MatchMark(*part, mark.is_current) for part, mark in parts if part is not None]
