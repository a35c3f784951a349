"""Boxes whose margins and gaps grow with the theme's scale, and the surfaces things lie on."""

from PySide6.QtCore import QCoreApplication, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QSplitterHandle,
    QWidget,
)

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius

Margins = tuple[int, int, int, int]
_HANDLE_PX = 5


class _ThemeBox(QBoxLayout):
    def __init__(
        self, direction: QBoxLayout.Direction, theme: Theme, parent: QWidget | None, margins: Margins, gap: int
    ) -> None:
        super().__init__(direction)
        if parent is not None:
            parent.setLayout(self)
        self._theme, self._margins, self._gap = theme, margins, gap
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        left, top, right, bottom = (self._theme.px(margin) for margin in self._margins)
        self.setContentsMargins(left, top, right, bottom)
        self.setSpacing(self._theme.px(self._gap))


class VBox(_ThemeBox):
    """Things below each other. Margins (left, top, right, bottom) and gap are unscaled pixels."""

    def __init__(
        self, theme: Theme, parent: QWidget | None = None, *, margins: Margins = (0, 0, 0, 0), gap: int = 8
    ) -> None:
        super().__init__(QBoxLayout.Direction.TopToBottom, theme, parent, margins, gap)


class HBox(_ThemeBox):
    """Things beside each other, mirrored where people read from the right. Margins and gap are unscaled pixels."""

    def __init__(
        self, theme: Theme, parent: QWidget | None = None, *, margins: Margins = (0, 0, 0, 0), gap: int = 8
    ) -> None:
        super().__init__(QBoxLayout.Direction.LeftToRight, theme, parent, margins, gap)


def clear_layout(layout: QLayout) -> None:
    """Take everything out of a layout and delete it."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()


class Surface(QWidget):
    """A rounded sheet with a hairline round it; `fill` and `outline` are colours of the table, or empty."""

    def __init__(
        self, theme: Theme, *, fill: str = "surface", outline: str = "line", radius: int = Radius.CARD
    ) -> None:
        super().__init__()
        self.theme = theme
        self.fill, self.outline, self.radius = fill, outline, radius
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Paint the sheet."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(self.theme.color(self.fill) if self.fill else Qt.BrushStyle.NoBrush)
        painter.setPen(hairline_pen(self.theme, self.outline) if self.outline else Qt.PenStyle.NoPen)
        radius = self.theme.px(self.radius)
        painter.drawRoundedRect(outline_area(self), radius, radius)


class Hairline(QWidget):
    """A line of one device pixel."""

    def __init__(self, theme: Theme, *, is_vertical: bool = False) -> None:
        super().__init__()
        self._theme = theme
        self._is_vertical = is_vertical
        if is_vertical:
            self.setFixedWidth(1)
        else:
            self.setFixedHeight(1)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Paint the line."""
        del event
        painter = QPainter(self)
        painter.setPen(hairline_pen(self._theme, "line"))
        if self._is_vertical:
            painter.drawLine(0, 0, 0, self.height())
        else:
            painter.drawLine(0, 0, self.width(), 0)


class Scroller(QScrollArea):
    """A vertical scroll area that shows `content` at its own width."""

    def __init__(self, content: QWidget, name: str) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(name)
        self.viewport().setAutoFillBackground(False)
        content.setAutoFillBackground(False)
        self.setWidget(content)
        content.setAutoFillBackground(False)


class WidthLimiter(QWidget):
    """Keeps one widget in the middle of the width, no wider than `limit` unscaled pixels."""

    def __init__(self, theme: Theme, content: QWidget, limit: int) -> None:
        super().__init__()
        self._theme, self._content, self._limit = theme, content, limit
        row = HBox(theme, self, gap=0)
        row.addStretch(1)
        row.addWidget(content, 1000)
        row.addStretch(1)
        content.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._content.setMaximumWidth(self._theme.px(self._limit))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return no height where the text wraps: a scroll area would keep the height of the narrowest layout."""
        hint = super().minimumSizeHint()
        layout = self.layout()
        wraps = layout is not None and layout.hasHeightForWidth()
        return QSize(hint.width(), 0) if wraps else hint


class _SplitHandle(QSplitterHandle):
    def __init__(self, theme: Theme, parent: QSplitter) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._theme = theme
        self.setAccessibleName(tr("Divider"))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        del event
        painter = QPainter(self)
        painter.setPen(hairline_pen(self._theme, "line"))
        middle = self.width() // 2
        painter.drawLine(middle, 0, middle, self.height())


class SplitView(QSplitter):
    """Two panes with a hairline between them that can be dragged; the right one takes what is left."""

    def __init__(self, theme: Theme, left: QWidget, right: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._theme = theme
        self.setHandleWidth(_HANDLE_PX)
        self.setChildrenCollapsible(False)
        self.addWidget(left)
        self.addWidget(right)
        self.setStretchFactor(1, 1)
        theme.changed.connect(self.update)

    def createHandle(self) -> QSplitterHandle:  # noqa: N802 -- Qt's name
        """Return our own divider."""
        return _SplitHandle(self._theme, self)


def hairline_pen(theme: Theme, color: str) -> QPen:
    """Return a pen of one device pixel: width 0 is cosmetic."""
    return QPen(theme.color(color), 0)


def outline_area(widget: QWidget) -> QRectF:
    """Return a widget's area, drawn in by half a device pixel so that an outline stays sharp."""
    half = 0.5 / widget.devicePixelRatioF()
    return QRectF(widget.rect()).adjusted(half, half, -half, -half)


_LAYOUT_ROUNDS = 4
"""A height that changes deep inside goes outwards one widget a round; a list in a list in a page takes three."""


def settle_layouts(widget: QWidget) -> None:
    """Show what a widget was just filled with, and lay it and what it lies in out, now.

    Qt shows the widgets of a layout in a later turn of the event loop and lays them out in further ones; between those
    a list inside a list is drawn with its rows squeezed into no height.
    """
    for part in widget.findChildren(QWidget):
        if part.isHidden() and not part.testAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide):
            part.show()
    for _ in range(_LAYOUT_ROUNDS):
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
