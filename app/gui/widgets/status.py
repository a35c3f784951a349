"""Small signs of how things are: a dot, a bar that fills, rows that hold a place while data comes."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import ROW_HEIGHT, Radius
from app.gui.widgets.layout import hairline_pen, outline_area

_BAR = 6
_SKELETON_WIDTHS = (0.42, 0.56, 0.36, 0.5, 0.44)


class Dot(QWidget):
    """A status dot. Colour never stands alone: `show_state` sets the words too."""

    def __init__(self, theme: Theme, size: int = 8) -> None:
        super().__init__()
        self._theme, self._size, self._color = theme, size, "ink-3"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_state(self, color: str, words: str) -> None:
        """Take a colour of the table, and the words it stands for."""
        self._color = color
        self.setAccessibleName(words)
        self.setToolTip(words)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return its square."""
        return QSize(self._theme.px(self._size), self._theme.px(self._size))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the dot."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color(self._color))
        painter.drawEllipse(self.rect())


class ProgressBar(QWidget):
    """A bar that fills. Without a fraction it is a quiet full track: nothing spins."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme, self._name = theme, name
        self._fraction: float | None = None
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def set_fraction(self, fraction: float | None) -> None:
        """Fill to `fraction`, 0 to 1; None when nobody knows."""
        self._fraction = None if fraction is None else min(1.0, max(0.0, fraction))
        words = tr("in progress") if self._fraction is None else f"{self._fraction:.0%}"
        self.setAccessibleName(f"{self._name}: {words}")
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a thin bar."""
        return QSize(self._theme.px(120), self._theme.px(_BAR))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw track and filling."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        radius = self.height() / 2
        area = QRectF(self.rect())
        painter.setBrush(self._theme.color("line" if self._fraction is not None else "accent-soft"))
        painter.drawRoundedRect(area, radius, radius)
        if self._fraction:
            filled_width = max(area.height(), area.width() * self._fraction)
            left = area.width() - filled_width if self.layoutDirection() == Qt.LayoutDirection.RightToLeft else 0.0
            painter.setBrush(self._theme.color("accent"))
            painter.drawRoundedRect(QRectF(left, 0, filled_width, area.height()), radius, radius)


class Skeleton(QWidget):
    """Rows that hold the place of what is being read, on a card if the rows will be. They do not move."""

    def __init__(self, theme: Theme, rows: int = 4, *, is_card: bool = False) -> None:
        super().__init__()
        self._theme, self._rows, self._is_card = theme, rows, is_card
        self.setAccessibleName(tr("Loading"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the size the rows will have."""
        return QSize(self._theme.px(320), self._theme.px(ROW_HEIGHT) * self._rows)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw two soft bars per row."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        px = self._theme.px
        if self._is_card:
            painter.setPen(hairline_pen(self._theme, "line"))
            painter.setBrush(self._theme.color("surface"))
            painter.drawRoundedRect(outline_area(self), px(Radius.CARD), px(Radius.CARD))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("line"))
        for row in range(self._rows):
            top = row * px(ROW_HEIGHT)
            share = _SKELETON_WIDTHS[row % len(_SKELETON_WIDTHS)]
            for offset, height, width in ((14, 10, share * 0.6), (32, 8, share)):
                length = self.width() * width
                is_rtl = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
                bar = QRectF(self.width() - px(16) - length if is_rtl else px(16), top + px(offset), length, px(height))
                painter.drawRoundedRect(bar, px(4), px(4))
