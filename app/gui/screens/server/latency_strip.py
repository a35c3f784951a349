"""The latency strip: time to first token and tokens per second of the last minutes, one mark for each answer."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.gui.screens.server.request_list import STRIP_S, LatencyPoint
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import hairline_pen

_HEIGHT = 72
_DOT = 3
_ROOM = 18
"""Below the words of a lane, so that its highest mark does not touch them."""


class LatencyStrip(QWidget):
    """Two lanes beside each other in height: TTFT above, tok/s below, each scaled to its own highest value."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._points: Sequence[LatencyPoint] = ()
        self._now = 0.0
        self.setAccessibleName("Answers of the last ten minutes")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def set_points(self, points: Sequence[LatencyPoint], now: float) -> None:
        """Show answers up to `now` (Unix seconds)."""
        self._points, self._now = points, now
        first, speed = self.lane_words()
        self.setAccessibleDescription(f"{len(points)} answers. {first}. {speed}.")
        self.setToolTip(f"{first}\n{speed}")
        self.update()

    def lane_words(self) -> tuple[str, str]:
        """Return what the two lanes say in words: the middle value of each."""
        first = _median_of([point.ttft_s for point in self._points])
        speed = _median_of([point.tokens_per_s for point in self._points])
        return (
            "No first token yet" if first is None else f"First token after {words.format_duration(first)}",
            "No speed yet" if speed is None else f"Writes {words.format_rate(speed)}",
        )

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return two lanes tall enough for a line of words and its marks."""
        return QSize(self._theme.px(240), 2 * self._theme.px(_HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw both lanes."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font("meta"))
        height = self._theme.px(_HEIGHT)
        first, speed = self.lane_words()
        values = [(point.at, point.ttft_s) for point in self._points]
        self._paint_lane(painter, QRectF(0, 0, self.width(), height), (first, "part-2"), values)
        values = [(point.at, point.tokens_per_s) for point in self._points]
        self._paint_lane(painter, QRectF(0, height, self.width(), height), (speed, "part-1"), values)

    def _paint_lane(
        self, painter: QPainter, area: QRectF, label: tuple[str, str], values: list[tuple[float, float | None]]
    ) -> None:
        text, color = label
        painter.setPen(self._theme.color("ink-2"))
        painter.drawText(area, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeading, text)
        floor = area.bottom() - self._theme.px(8)
        painter.setPen(hairline_pen(self._theme, "line"))
        painter.drawLine(QPointF(area.left(), floor), QPointF(area.right(), floor))
        points = [(at, value) for at, value in values if value is not None]
        highest = max((value for _, value in points), default=0.0)
        if highest <= 0:
            return
        dot, room = self._theme.px(_DOT), area.height() - self._theme.px(8 + _ROOM) - self._theme.px(_DOT)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color(color))
        for at, value in points:
            painter.drawEllipse(QPointF(self._x_of(at, area, dot), floor - room * value / highest), dot, dot)

    def _x_of(self, at: float, area: QRectF, dot: int) -> float:
        share = min(1.0, max(0.0, 1 - (self._now - at) / STRIP_S))
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            share = 1 - share
        return area.left() + dot + share * (area.width() - 2 * dot)


def _median_of(values: Sequence[float | None]) -> float | None:
    ordered = sorted(value for value in values if value is not None)
    return ordered[len(ordered) // 2] if ordered else None
