"""Draws a plot of benchmarks: lines and points with their intervals, axes from zero, the same in words, a legend."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.benchmark.plots import BarPlot, BenchmarkPlot, PlotPoint, PlotSeries, axis_ticks, count_ticks, format_tick
from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import PARTS
from app.gui.widgets.bars import Legend, Meter
from app.gui.widgets.layout import Surface, VBox, hairline_pen
from app.gui.widgets.text import Paragraph

_WIDTH, _HEIGHT = 300, 200
_BAR_WIDTH = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 20, 36
_STYLES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.DashDotLine)
"""Lines are told apart without their colours too."""
_DOT = 3


class PlotCard(Surface):
    """A plot under its title, with its legend."""

    def __init__(self, theme: Theme, plot: BenchmarkPlot) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(20, 16, 20, 16), gap=8)
        box.addWidget(Paragraph(theme, plot.title, weight=500))
        box.addWidget(PlotView(theme, plot))
        legend = Legend(theme)
        legend.set_entries([(_colour(index), series.name) for index, series in enumerate(plot.series)])
        box.addWidget(legend)


class BarPlotCard(Surface):
    """A bar for each value, under its name."""

    def __init__(self, theme: Theme, plot: BarPlot) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(20, 16, 20, 16), gap=8)
        box.addWidget(Paragraph(theme, plot.title, weight=500))
        most = max(value for _, value, _ in plot.bars)
        for name, value, text in plot.bars:
            meter = Meter(theme, name, width=_BAR_WIDTH)
            meter.show_level(value / most if most else 0.0, text)
            box.addWidget(meter)


class PlotView(QWidget):
    """The drawing."""

    def __init__(self, theme: Theme, plot: BenchmarkPlot) -> None:
        super().__init__()
        self._theme, self._plot = theme, plot
        points = [point for series in plot.series for point in series.points]
        self._x_ticks = count_ticks(max(point.x for point in points))
        self._y_ticks = axis_ticks(max(point.high or point.y for point in points))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(plot.title)
        self.setAccessibleDescription(describe_series(plot.series))
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room to read the axes."""
        return QSize(self._theme.px(_WIDTH), self._theme.px(_HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw axes, then every series."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_axes(painter)
        for index, series in enumerate(self._plot.series):
            self._paint_series(painter, series, index)

    def _place(self, x: float, y: float) -> QPointF:
        px = self._theme.px
        width, height = self.width() - px(_LEFT + _RIGHT), self.height() - px(_TOP + _BOTTOM)
        return QPointF(
            px(_LEFT) + x / self._x_ticks[-1] * width, self.height() - px(_BOTTOM) - y / self._y_ticks[-1] * height
        )

    def _paint_axes(self, painter: QPainter) -> None:
        px = self._theme.px
        painter.setFont(self._theme.font("meta"))
        line = self.fontMetrics().height()
        for tick in self._y_ticks:
            start, end = self._place(0, tick), self._place(self._x_ticks[-1], tick)
            painter.setPen(hairline_pen(self._theme, "line"))
            painter.drawLine(start, end)
            painter.setPen(self._theme.color("ink-2"))
            area = QRectF(0, start.y() - line / 2, px(_LEFT - 6), line)
            painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, format_tick(tick))
        for tick in self._x_ticks:
            place = self._place(tick, 0)
            area = QRectF(place.x() - px(24), place.y() + px(2), px(48), px(16))
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, format_tick(tick))
        below = QRectF(0, self.height() - px(18), self.width() - px(_RIGHT), px(18))
        painter.drawText(below, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._plot.x_name)
        painter.drawText(QRectF(0, 0, self.width(), px(16)), Qt.AlignmentFlag.AlignLeft, self._plot.y_name)

    def _paint_series(self, painter: QPainter, series: PlotSeries, index: int) -> None:
        colour, px = self._theme.color(_colour(index)), self._theme.px
        points = sorted(series.points, key=lambda point: point.x)
        if series.is_line:
            painter.setPen(QPen(colour, px(2), _STYLES[index % len(_STYLES)]))
            painter.drawPolyline(QPolygonF([self._place(point.x, point.y) for point in points]))
        painter.setPen(QPen(colour, px(1)))
        painter.setBrush(colour)
        for point in points:
            if point.low is not None and point.high is not None:
                painter.drawLine(self._place(point.x, point.low), self._place(point.x, point.high))
            painter.drawEllipse(self._place(point.x, point.y), px(_DOT), px(_DOT))
        painter.setBrush(Qt.BrushStyle.NoBrush)


def describe_series(series: Sequence[PlotSeries]) -> str:
    """Return the points in words, for a screen reader."""
    return ". ".join(
        tr("{name}: {points}", name=part.name, points=", ".join(map(_describe_point, part.points[:20])))
        for part in series
    )


def _describe_point(point: PlotPoint) -> str:
    return tr("{value:.1f} at {place:g}", value=point.y, place=point.x)


def _colour(index: int) -> str:
    return PARTS[index % len(PARTS)]
