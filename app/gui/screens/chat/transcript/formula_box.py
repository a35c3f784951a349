"""A formula that stands by itself, in the middle of the column; one that is too wide is made smaller."""

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from app.gui.markdown.pieces import PLACEHOLDER, MarkdownPiece
from app.gui.screens.chat.transcript.box import Box, PaintState
from app.gui.screens.chat.transcript.formula_picture import FormulaPicture
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.screens.chat.transcript.text_box import indent_of, paint_quote
from app.markdown.formulas import FormulaDrawing

_PAD = 4


class FormulaBox(Box):
    """One drawn formula. It is selected as a whole, and copied as it was written."""

    gap = 12
    text = PLACEHOLDER

    def __init__(self, piece: MarkdownPiece, formula_drawing: FormulaDrawing, tone: Tone | None = None) -> None:
        super().__init__()
        self.piece, self._drawing, self._tone = piece, formula_drawing, tone
        self._picture: FormulaPicture | None = None
        self._x = 0.0

    def guess_height(self, look: TranscriptLook, width: float) -> float:
        """Return the height it has if it is not too wide."""
        return self._make_picture(look, width).height + 2 * look.px(_PAD)

    def lay_out(self, look: TranscriptLook, width: float) -> None:
        """Take the middle of the column."""
        picture, indent = self._make_picture(look, width), indent_of(self.piece, look)
        self._picture = picture
        self._x = indent + (width - indent - picture.width) / 2
        self.height, self.natural = picture.height + 2 * look.px(_PAD), width

    def paint(self, painter: QPainter, look: TranscriptLook, pose: PaintState) -> None:
        """Draw the formula, on the colour of a selection if it is selected."""
        picture = self._picture
        if picture is None:
            return
        if self.piece.quote:
            paint_quote(painter, look, self, self.piece)
        if pose.selection is not None:
            painter.fillRect(QRectF(self._x, 0, picture.width, self.height), look.selection_format.background())
        color = (self._tone or look.answer).color
        picture.paint_at(painter, self._x, look.px(_PAD) + picture.ascent, color)

    def offset_at(self, point: QPointF) -> int:
        """Return whether the place is before or behind the middle."""
        middle = self._x + (self._picture.width / 2 if self._picture is not None else 0)
        return int(point.x() > middle)

    def copy_text(self, start: int, end: int) -> str:
        """Return the formula with its delimiters."""
        return self.piece.source if end > start else ""

    def _make_picture(self, look: TranscriptLook, width: float) -> FormulaPicture:
        room = max(1.0, width - indent_of(self.piece, look))
        return FormulaPicture(self._drawing, (self._tone or look.answer).font, room)
