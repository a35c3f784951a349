"""Above the conversation: which model answers and how it is, how full its context is, and what else can be done."""

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.translation import tr
from app.gui.screens.chat.model import ContextUsage, ModelChipState
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROL_HEIGHT, ICON_SIZE, Radius
from app.gui.widgets.buttons import IconButton, Pressable
from app.gui.widgets.layout import HBox, outline_area

_DOT = 8
_RING = 16
_WIDEST = 420


class ModelChip(Pressable):
    """The model's name, which opens the picker; below it a bar while it loads."""

    def __init__(self, theme: Theme, action: Callable[[], object]) -> None:
        super().__init__(theme, tr("Model"))
        self._chip = ModelChipState(words="")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.set_action(action)

    def show_chip(self, chip: ModelChipState) -> None:
        """Show another model or another state."""
        if chip != self._chip:
            self._chip = chip
            words = tr("Model: {model}", model=chip.words)
            self.setAccessibleName(f"{words}, {chip.state}" if chip.state else words)
            self.setToolTip(chip.failure.sentence if chip.failure else tr("Choose a model"))
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for dot, words, state and arrow."""
        self.setFont(self.theme.font("body", 500))
        px = self.theme.px
        words = self.fontMetrics().horizontalAdvance(self._chip_words()) + px(_DOT + 24 + ICON_SIZE + 8)
        return QSize(min(words, px(_WIDEST)), px(CONTROL_HEIGHT + 2))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for a short name."""
        return QSize(self.theme.px(120), self.theme.px(CONTROL_HEIGHT + 2))

    def paint(self, painter: QPainter) -> None:
        """Draw the dot, the words, the arrow and the bar."""
        px, theme, area = self.theme.px, self.theme, outline_area(self)
        self.paint_wash(painter, area, px(Radius.CONTROL))
        is_mirrored = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color(self._chip.color))
        middle, dot = self.height() / 2, px(_DOT)
        left = self.width() - px(10) - dot if is_mirrored else px(10)
        painter.drawEllipse(QRectF(left, middle - dot / 2, dot, dot))
        arrow = px(ICON_SIZE)
        room = QRectF(self.rect()).adjusted(px(10) + dot + px(8), 0, -arrow - px(6), 0)
        if is_mirrored:
            room = QRectF(self.rect()).adjusted(arrow + px(6), 0, -px(10) - dot - px(8), 0)
        painter.setFont(theme.font("body", 500))
        painter.setPen(theme.color("ink"))
        text = painter.fontMetrics().elidedText(self._chip_words(), Qt.TextElideMode.ElideMiddle, int(room.width()) + 1)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, text)
        at = px(4) if is_mirrored else self.width() - arrow - px(4)
        self.paint_icon(painter, "chevron-down", "ink-3", QRectF(at, 0, arrow, self.height()))
        if self._chip.is_loading:
            self._paint_bar(painter, room)

    def _paint_bar(self, painter: QPainter, room: QRectF) -> None:
        height = self.theme.px(2)
        track = QRectF(room.left(), self.height() - height - 2, room.width(), height)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.theme.color("line"))
        painter.drawRect(track)
        painter.setBrush(self.theme.color("accent"))
        track.setWidth(track.width() * (self._chip.fraction or 0.0))
        painter.drawRect(track)

    def _chip_words(self) -> str:
        return f"{self._chip.words} · {self._chip.state}" if self._chip.state else self._chip.words


class ContextMeter(QWidget):
    """A small ring that fills with the context, and the words beside it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._meter: ContextUsage | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)
        self.hide()

    def show_meter(self, meter: ContextUsage | None) -> None:
        """Show how full the context is; None hides the meter."""
        self._meter = meter
        self.setVisible(meter is not None)
        if meter is not None:
            self.setAccessibleName(tr("Context used: {usage}", usage=meter.words))
            self.setToolTip(tr("Context used by this conversation"))
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for ring and words."""
        self.setFont(self._theme.font("meta"))
        px = self._theme.px
        words = self.fontMetrics().horizontalAdvance(self._meter.words if self._meter else "")
        return QSize(words + px(_RING + 16), px(CONTROL_HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the ring and the words."""
        del event
        if self._meter is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        px, theme = self._theme.px, self._theme
        side, pen = px(_RING), px(2.5)
        words = QRectF(self.rect())
        if self._meter.fraction is not None:
            is_mirrored = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
            left = self.width() - side - px(2) if is_mirrored else px(2)
            ring = QRectF(left, (self.height() - side) / 2, side, side).adjusted(pen / 2, pen / 2, -pen / 2, -pen / 2)
            painter.setPen(QPen(theme.color("line"), pen))
            painter.drawEllipse(ring)
            full = self._meter.fraction > 0.9  # noqa: PLR2004 -- little is left of the context from here on
            arc = QPen(theme.color("bad" if full else "accent"), pen)
            arc.setCapStyle(Qt.PenCapStyle.RoundCap)
            painter.setPen(arc)
            painter.drawArc(ring, 90 * 16, -round(360 * 16 * self._meter.fraction))
            words = QRectF(0 if is_mirrored else side + px(8), 0, self.width() - side - px(8), self.height())
        painter.setPen(theme.color("ink-2"))
        painter.setFont(theme.font("meta"))
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignHCenter, self._meter.words)


class ChatHeader(QWidget):
    """The line above the conversation."""

    def __init__(
        self, theme: Theme, *, pick: Callable[[], object], more: Callable[[], object], fold: Callable[[], object]
    ) -> None:
        super().__init__()
        line = HBox(theme, self, margins=(12, 8, 12, 8), gap=8)
        self.fold = IconButton(theme, "panel-left", tr("Show or hide the list of chats"), action=fold)
        line.addWidget(self.fold)
        self.chip = ModelChip(theme, pick)
        self.meter = ContextMeter(theme)
        self.more = IconButton(theme, "ellipsis", tr("More about this chat"), action=more)
        line.addWidget(self.chip)
        line.addStretch(1)
        line.addWidget(self.meter)
        line.addWidget(self.more)
