"""Text set in lines of one height: laid out once by Qt, then painted, measured and searched by place."""

from collections.abc import Iterable, Sequence
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QTextCharFormat, QTextLayout, QTextLine, QTextOption

from app.gui.markdown.highlight import InkRun
from app.gui.markdown.pieces import RichText, TextStyle
from app.gui.screens.chat.transcript.look import Tone, TranscriptLook
from app.gui.widgets.text import reads_from_right

Range = tuple[int, int]
_UNBOUNDED = 1_000_000.0
_TAB_LETTERS = 4


class TextLines:
    """A laid out text. `natural` is the width it really takes, `height` the sum of its lines."""

    def __init__(
        self,
        text: str,
        tone: Tone,
        formats: list[QTextLayout.FormatRange],
        *,
        width: float | None,
        shrinks: bool = False,
    ) -> None:
        self.tone = tone
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
        self.layout.beginLayout()
        while (line := self.layout.createLine()).isValid():
            line.setLineWidth(width)
            line.setPosition(QPointF(0, y + max(0.0, lead + ascent - line.ascent())))
            y += max(tone.line_height, ceil(line.height()))
            self.natural = max(self.natural, line.naturalTextWidth())
        self.layout.endLayout()
        self.height = y

    def draw_at(self, painter: QPainter, at: QPointF, look: TranscriptLook, selection: Range | None) -> None:
        """Paint at a place, with a range marked as selected."""
        painter.setPen(self.tone.color)
        self.layout.draw(painter, at, [] if selection is None else [format_range(*selection, look.selection_format)])

    def offset_at(self, x: float, y: float) -> int:
        """Return the position in the text nearest to a place."""
        line_index = 0
        for index in range(self.layout.lineCount()):
            line = self.layout.lineAt(index)
            line_index = index
            if y < line.y() + line.height():
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
