"""Code: a sunken card made of one box per run of lines, so that a long block is laid out a screen at a time.

All boxes of a block share its `CodeCard`: whether it wraps and how far it is scrolled to the side.
"""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPainterPath

from app.core.translation import tr
from app.gui.markdown.highlight import highlight_code
from app.gui.markdown.pieces import LINE_BREAK, MarkdownPiece
from app.gui.screens.chat.transcript.box import Box, PaintState, Spot, Verb, paint_spot
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.screens.chat.transcript.text_box import indent_of, paint_quote
from app.gui.screens.chat.transcript.text_lines import TextLines, ink_formats
from app.gui.theme.tokens import Radius

HEAD = 36
PAD = 14
_FOOT = 12
_BAR = 4
_SPOT = 28
_MAX_WIDTH = 100_000
_LANGUAGES = {
    "py": "Python",
    "js": "JavaScript",
    "ts": "TypeScript",
    "sh": "Shell",
    "bash": "Shell",
    "cpp": "C++",
    "cs": "C#",
    "csharp": "C#",
    "json": "JSON",
    "yaml": "YAML",
    "yml": "YAML",
    "toml": "TOML",
    "html": "HTML",
    "css": "CSS",
    "sql": "SQL",
    "xml": "XML",
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "php": "PHP",
}


@dataclass(slots=True)
class CodeCard:
    """What the boxes of one code block share."""

    key: str
    wraps: bool = False
    scroll_x: float = 0.0
    natural: float = 0.0
    room: float = 0.0

    def scroll_by(self, by: float) -> bool:
        """Move the code sideways; return whether it moved."""
        before = self.scroll_x
        self.scroll_x = min(max(0.0, self.scroll_x + by), max(0.0, self.natural - self.room))
        return self.scroll_x != before


class CodeBox(Box):
    """A run of lines of a code block; the first has the head, the last the rounded foot."""

    def __init__(self, piece: MarkdownPiece, card: CodeCard, above: "CodeBox | None") -> None:
        super().__init__()
        self.piece, self.card = piece, card
        self.text = piece.source.replace("\n", LINE_BREAK)
        self.joint = "" if piece.is_glued else "\n"
        self.gap = 12 if piece.is_first else 0
        self._above = above
        self._carry: str | None = None
        self._lines: TextLines | None = None
        self._top = 0.0
        self._indent = 0.0
        self._spots: list[Spot] = []
        self._laid_wrapped = False

    def ensure_layout(self, look: TranscriptLook, width: float) -> None:
        """Lay out again when wrapping was switched."""
        if self._laid_wrapped != self.card.wraps:
            self.is_laid = False
        super().ensure_layout(look, width)

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Count the lines."""
        del width
        return self._frame_height(look) + (self.piece.source.count("\n") + 1) * look.code.line_height

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Colour and set the lines."""
        runs, self._carry = highlight_code(self.piece.language, self.piece.source, self._carry_above())
        self._indent = indent_of(self.piece, look)
        room = width - self._indent - 2 * look.px(PAD)
        self._laid_wrapped = self.card.wraps
        lines = TextLines(self.text, look.code, ink_formats(runs, look), width=room if self.card.wraps else None)
        self._lines = lines
        self._top = look.px(HEAD) if self.piece.is_first else 0.0
        is_empty = not self.text and not self.piece.is_first
        self.height = self._frame_height(look) + (0 if is_empty else lines.height)
        self.natural = width
        self.card.room = room
        self.card.natural = max(self.card.natural, min(lines.natural, _MAX_WIDTH))
        self._spots = self._head_spots(look, width) if self.piece.is_first else []

    def drop_layout(self) -> None:
        """Forget the lines."""
        super().drop_layout()
        self._lines = None

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the card's part, the head, and the code."""
        if self._lines is None:
            return
        area = QRectF(self._indent, 0, self._width - self._indent, self.height)
        if self.piece.quote:
            paint_quote(painter, look, self, self.piece)
        self._paint_card(painter, look, area)
        if self.piece.is_first:
            self._paint_head(painter, look, pose)
        painter.save()
        painter.setClipRect(area.adjusted(look.px(PAD) - 2, 0, -look.px(PAD) + 2, 0), Qt.ClipOperation.IntersectClip)
        self._lines.draw_at(painter, self._text_origin(look), look, pose.selection, pose.marks)
        painter.restore()
        self._paint_bar(painter, look, area)

    def offset_at(self, point: QPointF) -> int:
        """Ask the lines."""
        if self._lines is None:
            return 0
        x = point.x() - self._text_left + self.card.scroll_x
        return self._lines.offset_at(x, point.y() - self._top)

    def top_at(self, position: int) -> float:
        """Ask the lines."""
        return 0.0 if self._lines is None else self._top + self._lines.top_at(position)

    def list_spots(self) -> list[Spot]:
        """Return the buttons of the head."""
        return self._spots

    def _carry_above(self) -> str:
        """Return what the lines above leave open; the run just above is read for it, not all of them."""
        above = self._above
        if above is None:
            return ""
        if above._carry is None:  # noqa: SLF001 -- another box of the same block
            above._carry = highlight_code(above.piece.language, above.piece.source)[1]  # noqa: SLF001 -- as above
        return above._carry  # noqa: SLF001 -- as above

    def _frame_height(self, look: TranscriptLook) -> float:
        return (look.px(HEAD) if self.piece.is_first else 0) + (look.px(_FOOT) if self.piece.is_last else 0)

    def _text_origin(self, look: TranscriptLook) -> QPointF:
        self._text_left = self._indent + look.px(PAD)
        return QPointF(self._text_left - self.card.scroll_x, self._top)

    def _head_spots(self, look: TranscriptLook, width: float) -> list[Spot]:
        side, key = look.px(_SPOT), self.card.key
        self._text_left = self._indent + look.px(PAD)
        top = (look.px(HEAD) - side) / 2
        wrap = tr("Do not wrap long lines") if self.card.wraps else tr("Wrap long lines")
        return [
            Spot(QRectF(width - 2 * side - look.px(8), top, side, side), Verb.WRAP_CODE, wrap, key),
            Spot(QRectF(width - side - look.px(4), top, side, side), Verb.COPY_CODE, tr("Copy code"), key),
        ]

    def _paint_card(self, painter: QPainter, look: TranscriptLook, area: QRectF) -> None:
        radius, piece = look.px(Radius.CARD), self.piece
        painter.save()
        painter.setClipRect(area, Qt.ClipOperation.IntersectClip)
        half = 0.5 / painter.device().devicePixelRatioF()
        above, below = (half if piece.is_first else -2 * radius), (-half if piece.is_last else 2 * radius)
        painter.setPen(look.hairline_pen())
        painter.setBrush(look.color("sunken"))
        card = QPainterPath()
        card.addRoundedRect(area.adjusted(half, above, -half, below), radius, radius)
        painter.drawPath(card)
        painter.restore()

    def _paint_head(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        language = self.piece.language
        name = _LANGUAGES.get(language.lower(), language.capitalize()) or tr("Text")
        painter.setPen(look.color("ink-3"))
        painter.setFont(look.meta.font)
        head = QRectF(self._indent + look.px(PAD), 0, self._width, look.px(HEAD))
        painter.drawText(head, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
        for spot, icon in zip(self._spots, ("wrap-text", "copy"), strict=True):
            is_on = icon == "wrap-text" and self.card.wraps
            paint_spot(painter, look, spot, icon=icon, pose=pose, color="accent-ink" if is_on else "ink-3")

    def _paint_bar(self, painter: QPainter, look: TranscriptLook, area: QRectF) -> None:
        """Draw how far the code is scrolled, at the foot."""
        card = self.card
        if not self.piece.is_last or card.wraps or card.natural <= card.room + 1:
            return
        track = area.width() - 2 * look.px(PAD)
        width = max(look.px(24), track * card.room / card.natural)
        left = area.left() + look.px(PAD) + (track - width) * card.scroll_x / max(1.0, card.natural - card.room)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("line"))
        painter.drawRoundedRect(QRectF(left, area.bottom() - look.px(_BAR + 3), width, look.px(_BAR)), 2, 2)
