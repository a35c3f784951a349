"""Text set in lines: laid out once by Qt, then painted, measured and searched by place.

Lines have one height, but for those with a formula that needs more. A formula stands where the text has a blank as wide
as it is, and is painted over that.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QTextCharFormat, QTextLayout, QTextLine, QTextOption

from app.gui.markdown.highlight import InkRun
from app.gui.markdown.pieces import PLACEHOLDER, FormulaPlace, RichText, TextStyle
from app.gui.screens.chat.transcript.formula_picture import FormulaPicture
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.widgets.text import reads_from_right

Range = tuple[int, int]
_UNBOUNDED = 1_000_000.0
_TAB_LETTERS = 4


class LaidFormula(NamedTuple):
    """A formula and the position in the text that is kept for it."""

    start: int
    picture: FormulaPicture


class TextLines:
    """A laid out text. `natural` is the width it really takes, `height` the sum of its lines."""

    def __init__(  # noqa: PLR0913 -- a text and how it is set
        self,
        text: str,
        tone: Tone,
        formats: list[QTextLayout.FormatRange],
        *,
        width: float | None,
        shrinks: bool = False,
        formulas: Sequence[FormulaPlace] = (),
    ) -> None:
        self.tone = tone
        self._formulas = [
            LaidFormula(place.start, FormulaPicture(place.drawing, tone.font, width)) for place in formulas
        ]
        formats = [*formats, *(_blank_format(formula, tone) for formula in self._formulas)]
        self.layout = QTextLayout(text, tone.font)
        self.layout.setCacheEnabled(True)
        self.is_rtl = not text.isascii() and reads_from_right(text)
        self.layout.setTextOption(_text_option(tone, wraps=width is not None, is_rtl=self.is_rtl))
        self.layout.setFormats(formats)
        self._set_width(_UNBOUNDED if width is None else max(width, 1.0))
        if shrinks and width is not None and self.is_rtl:
            self._set_width(min(width, self.natural + 1))

    def _set_width(self, width: float) -> None:
        self.natural = 0.0
        y, tone = 0.0, self.tone
        ascent = tone.metrics.ascent()
        lead = (tone.line_height - tone.metrics.height()) / 2
        self._bottoms: list[float] = []
        self.layout.beginLayout()
        while (line := self.layout.createLine()).isValid():
            line.setLineWidth(width)
            above, below = self._overhang(line, lead + ascent)
            line.setPosition(QPointF(0, y + above + max(0.0, lead + ascent - line.ascent())))
            y += above + max(tone.line_height, ceil(line.height())) + below
            self._bottoms.append(y)
            self.natural = max(self.natural, line.naturalTextWidth())
        self.layout.endLayout()
        self.height = y

    def _overhang(self, line: QTextLine, baseline: float) -> tuple[float, float]:
        """Return how far the formulas of a line reach above and below what a line has."""
        pictures = [formula.picture for formula in self._formulas_in(line)]
        above = max((picture.ascent for picture in pictures), default=0.0) - baseline
        below = max((picture.descent for picture in pictures), default=0.0) - (self.tone.line_height - baseline)
        return ceil(max(0.0, above)), ceil(max(0.0, below))

    def _formulas_in(self, line: QTextLine) -> list[LaidFormula]:
        start, end = line.textStart(), line.textStart() + line.textLength()
        return [formula for formula in self._formulas if start <= formula.start < end]

    def draw_at(
        self,
        painter: QPainter,
        at: QPointF,
        look: TranscriptLook,
        selection: Range | None,
        marks: Sequence[tuple[int, int, bool]] = (),
    ) -> None:
        """Paint at a place, with marks (from, to, whether it is the one looked at) and a range as selected."""
        painter.setPen(self.tone.color)
        styles = (look.match_format, look.current_match_format)
        ranges = [format_range(start, end, styles[is_current]) for start, end, is_current in marks]
        if selection is not None:
            ranges.append(format_range(*selection, look.selection_format))
        self.layout.draw(painter, at, ranges)
        if self._formulas:
            self._draw_formulas(painter, at)

    def _draw_formulas(self, painter: QPainter, at: QPointF) -> None:
        for index in range(self.layout.lineCount()):
            line = self.layout.lineAt(index)
            for start, picture in self._formulas_in(line):
                left = min(_x_of(line, start), _x_of(line, start + 1))
                picture.paint_at(painter, at.x() + left, at.y() + line.y() + line.ascent(), self.tone.color)

    def top_at(self, position: int) -> float:
        """Return where the line of a position begins."""
        line = self.layout.lineForTextPosition(position)
        return line.y() if line.isValid() else 0.0

    def offset_at(self, x: float, y: float) -> int:
        """Return the position in the text nearest to a place."""
        line_index = 0
        for index in range(self.layout.lineCount()):
            line_index = index
            if y < self._bottoms[index]:
                break
        return self.layout.lineAt(line_index).xToCursor(x) if self.layout.lineCount() else 0

    def range_areas(self, start: int, end: int) -> list[QRectF]:
        """Return the rectangles a range of the text covers, one per line."""
        rectangles = []
        for index in range(self.layout.lineCount()):
            line = self.layout.lineAt(index)
            low = max(start, line.textStart())
            high = min(end, line.textStart() + line.textLength())
            if low < high:
                left, right = _x_of(line, low), _x_of(line, high)
                rectangles.append(QRectF(min(left, right), line.y(), abs(right - left), line.height()))
        return rectangles

    def first_baseline(self) -> float:
        """Return where the first line stands."""
        line = self.layout.lineAt(0)
        return line.y() + line.ascent()


def rich_formats(rich: RichText, tone: Tone, look: TranscriptLook) -> list[QTextLayout.FormatRange]:
    """Return the formats of styled text."""
    return [
        format_range(span.start, span.start + span.length, look.span_format(tone, span.style, is_link=bool(span.link)))
        for span in rich.spans
        if span.style or span.link
    ]


def ink_formats(runs: Iterable[InkRun], look: TranscriptLook) -> list[QTextLayout.FormatRange]:
    """Return the formats of coloured code."""
    return [format_range(run.start, run.start + run.length, look.inks[run.ink]) for run in runs]


def code_spans(rich: RichText) -> Sequence[Range]:
    """Return where code stands within a text, for the box behind it."""
    return [(span.start, span.start + span.length) for span in rich.spans if span.style & TextStyle.CODE]


def format_range(start: int, end: int, style: QTextCharFormat) -> QTextLayout.FormatRange:
    """Return a format for a range of a layout."""
    span = QTextLayout.FormatRange()
    span.start, span.length, span.format = start, max(0, end - start), style
    return span


def plain_width(rich: RichText, tone: Tone) -> float:
    """Return how wide a text is in one line."""
    width = tone.metrics.horizontalAdvance(rich.text)
    blank = tone.metrics.horizontalAdvance(PLACEHOLDER)
    return width + sum(FormulaPicture(formula.drawing, tone.font).width - blank for formula in rich.formulas)


def _blank_format(formula: LaidFormula, tone: Tone) -> QTextLayout.FormatRange:
    """Return the format that makes a blank as wide as the formula on it."""
    style, font = QTextCharFormat(), QFont(tone.font)
    blank = tone.metrics.horizontalAdvance(PLACEHOLDER)
    font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, formula.picture.width - blank)
    style.setFont(font)
    return format_range(formula.start, formula.start + 1, style)


def _x_of(line: QTextLine, position: int) -> float:
    cursor: object = line.cursorToX(position)
    place = cursor[0] if isinstance(cursor, tuple) else cursor  # PySide6 returns the position with the place
    return float(place) if isinstance(place, (int, float)) else 0.0


def _text_option(tone: Tone, *, wraps: bool, is_rtl: bool) -> QTextOption:
    option = QTextOption()
    mode = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere if wraps else QTextOption.WrapMode.ManualWrap
    option.setWrapMode(mode)
    option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
    if is_rtl and wraps:
        option.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute)
    option.setTabStopDistance(tone.metrics.horizontalAdvance(" ") * _TAB_LETTERS)
    return option
