"""A bar of parts, drawn to scale: who has how much of a whole, where a limit lies, and what is beyond it.

A thin bar for one figure, to be compared with those of other rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, VBox, clear_layout, hairline_pen
from app.gui.widgets.text import ElidedLabel, Label

_BAR = 28
_BRACKET = 10
_OVERHANG = 4
_SWATCH = 9
_METER = 4


@dataclass(frozen=True, slots=True)
class BarPart:
    """One piece of a bar: what it is, how much, and its colour in the table."""

    name: str
    amount: float
    color: str


class PartsBar(QWidget):
    """A bar divided among parts; what is left is the empty track.

    `reach` draws a bracket below the bar from its start: as far as something may go. `limit` is a mark across the
    bar; what lies beyond it is hatched as too much.
    """

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme, self._name = theme, name
        self._parts: Sequence[BarPart] = ()
        self._total = 1.0
        self._reach: float | None = None
        self._limit: float | None = None
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def set_parts(self, parts: Sequence[BarPart], total: float, words: str) -> None:
        """Show `parts` of `total`; `words` is the same for a screen reader."""
        self._parts, self._total = parts, max(total, 1.0)
        self.setAccessibleName(f"{self._name}: {words}")
        self.update()

    def set_marks(self, *, reach: float | None = None, limit: float | None = None) -> None:
        """Mark how far something may go, and where it is too much; in the unit of the parts."""
        if (reach is None) != (self._reach is None):
            self.updateGeometry()
        self._reach, self._limit = reach, limit
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a bar tall enough to read, with room for the bracket if there is one."""
        below = _BRACKET if self._reach is not None else 0
        return QSize(self._theme.px(240), self._theme.px(_BAR + below))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the parts side by side in one rounded track, then the marks."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            painter.translate(self.width(), 0)
            painter.scale(-1, 1)
        area = QRectF(0, 0, self.width(), self._theme.px(_BAR)).adjusted(0.5, 0.5, -0.5, -0.5)
        track = QPainterPath()
        track.addRoundedRect(area, self._theme.px(Radius.CONTROL), self._theme.px(Radius.CONTROL))
        painter.fillPath(track, self._theme.color("sunken"))
        painter.save()
        painter.setClipPath(track)
        self._paint_parts(painter, area)
        self._paint_excess(painter, area)
        painter.restore()
        painter.setPen(hairline_pen(self._theme, "edge"))
        painter.drawPath(track)
        self._paint_marks(painter, area)

    def _paint_parts(self, painter: QPainter, area: QRectF) -> None:
        painted_share, gap = 0.0, self._theme.px(1)
        for part in self._parts:
            width = area.width() * part.amount / self._total
            seam = gap if width > 3 * gap else 0
            piece = QRectF(area.left() + painted_share, area.top(), max(0.0, width - seam), area.height())
            painter.fillRect(piece, self._theme.color(part.color))
            painted_share += width

    def _paint_excess(self, painter: QPainter, area: QRectF) -> None:
        taken_amount = sum(part.amount for part in self._parts)
        if self._limit is None or taken_amount <= self._limit:
            return
        left, right = (self._x_at(area, amount) for amount in (self._limit, min(taken_amount, self._total)))
        beyond = QRectF(left, area.top(), right - left, area.height())
        painter.fillRect(beyond, self._theme.color("bad-soft"))
        painter.fillRect(beyond, QBrush(self._theme.color("bad"), Qt.BrushStyle.BDiagPattern))

    def _paint_marks(self, painter: QPainter, area: QRectF) -> None:
        if self._limit is not None and self._limit < self._total:
            painter.setPen(QPen(self._theme.color("ink"), self._theme.px(2)))
            at = self._x_at(area, self._limit)
            painter.drawLine(QPointF(at, area.top()), QPointF(at, area.bottom()))
        if self._reach is None:
            return
        painter.setPen(QPen(self._theme.color("ink-3"), self._theme.px(1.5)))
        top, foot = area.bottom() + self._theme.px(_OVERHANG), self.height() - self._theme.px(1)
        end = self._x_at(area, min(self._reach, self._total))
        start = area.left() + self._theme.px(1)
        painter.drawPolyline([QPointF(start, top), QPointF(start, foot), QPointF(end, foot), QPointF(end, top)])

    def _x_at(self, area: QRectF, amount: float) -> float:
        return area.left() + area.width() * amount / self._total


class Meter(QWidget):
    """A thin bar with its name and value above it: how much of something there is, beside others of the same kind."""

    def __init__(self, theme: Theme, name: str, *, width: int = 116) -> None:
        super().__init__()
        self._theme, self._name, self._width = theme, name, width
        self._fraction, self._color = 0.0, "accent"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        box = VBox(theme, self, margins=(0, 0, 0, _METER + 4), gap=0)
        line = HBox(theme, gap=8)
        self._value = Label(theme, role="meta", weight=500)
        line.addWidget(Label(theme, name, role="meta", color="ink-2"))
        line.addStretch(1)
        line.addWidget(self._value)
        box.addLayout(line)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_level(self, fraction: float, value: str, *, color: str = "accent", tip: str = "") -> None:
        """Fill it to a share of its width, 0 to 1, under a value; `tip` says what that means."""
        self._fraction, self._color = min(max(fraction, 0.0), 1.0), color
        self._value.setText(value)
        self._value.set_color(color if color in {"warn", "bad"} else "ink")
        self.setAccessibleName(f"{self._name}: {value}")
        self.setAccessibleDescription(tip)
        self.setToolTip(tip)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the track and what is filled of it, from where reading begins."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        height, radius = self._theme.px(_METER), self._theme.px(_METER) / 2
        track = QRectF(0, self.height() - height, self.width(), height)
        painter.setBrush(self._theme.color("line"))
        painter.drawRoundedRect(track, radius, radius)
        if not self._fraction:
            return
        part = QRectF(track)
        part.setWidth(max(height, track.width() * self._fraction))
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            part.moveRight(track.right())
        painter.setBrush(self._theme.color(self._color))
        painter.drawRoundedRect(part, radius, radius)

    def _restyle(self) -> None:
        self.setFixedWidth(self._theme.px(self._width))


REACH, LIMIT, REST = "reach", "limit", "rest"
"""In place of a colour in a legend: the bracket, the mark across, and the track that is left."""


class Legend(QWidget):
    """What the colours and marks of a bar stand for, with their figures; it wraps like text."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._labels: dict[str, Label] = {}
        self._flow = FlowLayout(theme, self, gap=16, line_gap=6)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def set_entries(self, entries: Sequence[tuple[str, str]]) -> None:
        """Show (colour, words) pairs; entries of the same colours in the same order are updated in place."""
        keys = [f"{place} {color}" for place, (color, _) in enumerate(entries)]
        if keys != list(self._labels):
            clear_layout(self._flow)
            self._labels = {key: self._make_entry(color) for key, (color, _) in zip(keys, entries, strict=True)}
            self.updateGeometry()
        for label, (_, text) in zip(self._labels.values(), entries, strict=True):
            label.setText(text)

    def _make_entry(self, color: str) -> Label:
        entry = QWidget()
        line = HBox(self._theme, entry, gap=6)
        label = ElidedLabel(self._theme, role="meta", color="ink-2")
        line.addWidget(_Swatch(self._theme, color))
        line.addWidget(label)
        self._flow.addWidget(entry)
        return label


class _Swatch(QWidget):
    """The sign of a legend's entry, as the bar shows it."""

    def __init__(self, theme: Theme, color: str) -> None:
        super().__init__()
        self._theme, self._color = theme, color
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a small square."""
        return QSize(self._theme.px(_SWATCH), self._theme.px(_SWATCH))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the square, the bracket or the mark."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area, color = QRectF(self.rect()), self._theme.color
        if self._color == REACH:
            painter.setPen(QPen(color("ink-3"), self._theme.px(1.5)))
            top, foot = area.center().y() - 1, area.bottom() - 2
            painter.drawPolyline([QPointF(x, y) for x, y in ((1, top), (1, foot), (area.right() - 1, foot))])
            painter.drawLine(QPointF(area.right() - 1, foot), QPointF(area.right() - 1, top))
        elif self._color == LIMIT:
            painter.setPen(QPen(color("ink"), self._theme.px(2)))
            painter.drawLine(QPointF(area.center().x(), area.top()), QPointF(area.center().x(), area.bottom()))
        else:
            is_rest = self._color == REST
            painter.setPen(hairline_pen(self._theme, "edge") if is_rest else Qt.PenStyle.NoPen)
            painter.setBrush(color("sunken" if is_rest else self._color))
            painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), self._theme.px(2), self._theme.px(2))
