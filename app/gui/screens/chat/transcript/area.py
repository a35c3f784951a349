"""The widget: scrolls a `Document`, paints what is visible, and keeps the reader's place while heights become known.

While an answer arrives nothing is done per token: the first one starts a timer, and when it fires everything that has
come is taken at once. The view follows the end only while the reader is at the end.
"""

from collections.abc import Sequence
from time import perf_counter

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDesktopServices,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from app.gui.screens.chat.buttons import RoundButton
from app.gui.screens.chat.transcript.box import Pose, Spot, Verb
from app.gui.screens.chat.transcript.document import Document
from app.gui.screens.chat.transcript.keys import Keys
from app.gui.screens.chat.transcript.lines import Range
from app.gui.screens.chat.transcript.look import Look
from app.gui.screens.chat.transcript.pointer import Pointer
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING, Radius

COLUMN = 760
_SIDE = 24
_FRAME_MS = 16
_LOAD = 3
"""A frame that took long is followed by a pause this many times as long: typing comes first."""
_MARGIN = 300
"""Unscaled pixels laid out above and below the view."""
_ROUNDS = 12
_NEAR_END = 8


class Transcript(QAbstractScrollArea):
    """A conversation. What cannot be done here is asked for with `acted`: verb, message, value."""

    acted = Signal(str, str, str)
    copied = Signal(str)
    """Text for the clipboard."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self.document = Document(Look(theme))
        self.sticks = True
        self.current: int | None = None
        """The turn chosen with the keys."""
        self._x = 0
        self._is_arranging = False
        self._dirty: set[str] = set()
        self._pointer = Pointer(self)
        self._keys = Keys(self)
        self._frame = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self._take_frame)
        self._pause_ms = _FRAME_MS
        self._to_end = RoundButton(theme, "arrow-down", "Jump to the latest message", action=self.jump_to_end)
        self._set_up()
        theme.changed.connect(self._restyle)

    def _set_up(self) -> None:
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setProperty("focusRing", False)  # noqa: FBT003 -- Qt's property
        self.setAccessibleName("Conversation")
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._to_end.setParent(self)
        self._to_end.hide()

    @property
    def offset(self) -> int:
        """How far the view is scrolled."""
        return self.verticalScrollBar().value()

    def show_turns(self, views: Sequence[TurnView], *, at_end: bool = False) -> None:
        """Show a conversation; `at_end` scrolls to its end."""
        anchor = self.document.anchor(self.offset)
        self.document.show(views)
        if self.current is not None and self.current >= len(views):
            self.current = None
        if at_end:
            self.sticks = True
        self.arrange(None if self.sticks else self.document.place_of(anchor))

    def pull(self, message: str) -> None:
        """Take what was appended to an answer, with the next frame."""
        self._dirty.add(message)
        if not self._frame.isActive():
            self._frame.start(self._pause_ms)

    def jump_to_end(self) -> None:
        """Go to the end and stay there."""
        self.sticks = True
        self.arrange()

    def scroll_to(self, y: float) -> None:
        """Scroll so that a place is at the top of the view."""
        self.sticks = False
        self.arrange(y)

    def arrange(self, y: float | None = None) -> None:
        """Lay out what is visible and set the scroll bar; `y` is the place to show at the top."""
        document, view = self.document, self.viewport().height()
        anchor = document.anchor(self.offset if y is None else y)
        margin = self.theme.px(_MARGIN)
        for _ in range(_ROUNDS):
            lowest = max(0.0, document.height - view)
            top = lowest if self.sticks else min(max(0.0, document.place_of(anchor)), lowest)
            if not document.lay(top - margin, top + view + margin):
                break
        self._set_bar(round(max(0.0, document.height - view)), round(top))
        self._to_end.setVisible(not self.sticks and document.height > view)
        self.viewport().update()

    def act(self, turn: int, spot: Spot) -> None:
        """Do what a spot says."""
        one = self.document.turns[turn]
        if spot.verb is Verb.OPEN_LINK:
            open_link(spot.value)
        elif spot.verb is Verb.COPY_CODE:
            self.copied.emit(one.code(spot.value))
        elif spot.verb in {Verb.WRAP_CODE, Verb.FOLD, Verb.SHOW_CAUSE}:
            self._change(turn, spot)
        else:
            self.acted.emit(spot.verb.value, one.view.message.id, spot.value)

    def copy_selection(self) -> bool:
        """Offer the selected text for the clipboard; return whether there is any."""
        text = self.document.selected_text()
        if text:
            self.copied.emit(text)
        return bool(text)

    def to_page(self, point: QPointF) -> QPointF:
        """Return the place in the document below a point of the viewport."""
        return QPointF(point.x() - self._x, point.y() + self.offset)

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: N802 -- Qt's name
        """Follow the scroll bar; notice whether the reader is at the end."""
        del dx, dy
        if self._is_arranging:
            return
        bar = self.verticalScrollBar()
        self.sticks = bar.value() >= bar.maximum() - _NEAR_END
        self.arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Take the new width, keeping the place."""
        super().resizeEvent(event)
        self._fit()
        self.arrange()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Paint the visible turns on the ground."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # a text's own direction decides, not the window's
        area = event.rect()
        painter.fillRect(area, self.document.look.color("ground"))
        painter.translate(self._x, -self.offset)
        top = float(area.top() + self.offset)
        self.document.paint(painter, top, top + area.height(), self._pose)
        self._paint_current(painter)
        if self.offset:
            painter.resetTransform()
            painter.setPen(self.document.look.hairline())
            painter.drawLine(0, 0, self.viewport().width(), 0)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._pointer.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._pointer.move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._pointer.release(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._pointer.double_click(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 -- Qt's name
        """Offer what can be done with the message."""
        self._keys.open_menu(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on; what is not ours scrolls."""
        if not self._keys.press(event):
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Choose the last visible message when the keyboard comes."""
        self._keys.arrive(event.reason())
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Choose nothing any more."""
        self._keys.leave(event.reason())
        super().focusOutEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 -- Qt's name
        """Scroll code sideways when the wheel or Shift says so."""
        if not self._pointer.wheel(event):
            super().wheelEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Show tips, and forget the pointer when it leaves."""
        self._pointer.watch(event)
        return super().viewportEvent(event)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a comfortable size."""
        return QSize(self.theme.px(COLUMN), self.theme.px(480))

    def _take_frame(self) -> None:
        started = perf_counter()
        changed = [self.document.pull(message) for message in self._dirty]
        self._dirty.clear()
        if any(changed):
            self.arrange()
        self._pause_ms = max(_FRAME_MS, round((perf_counter() - started) * 1000 * _LOAD))

    def _change(self, turn: int, spot: Spot) -> None:
        one = self.document.turns[turn]
        card = one.card(spot.value) if spot.verb is Verb.WRAP_CODE else None
        if card is not None:
            card.wraps, card.scrolled = not card.wraps, 0.0
            one.release()
        elif spot.verb is Verb.FOLD:
            one.toggle_fold()
        else:
            one.toggle_cause()
        self.document.clear_selection()
        self.document.touch(turn)
        self.sticks = False
        self.arrange()

    def _set_bar(self, lowest: int, value: int) -> None:
        self._is_arranging = True
        bar = self.verticalScrollBar()
        bar.setPageStep(max(1, self.viewport().height() - self.theme.px(48)))
        bar.setSingleStep(self.theme.px(48))
        bar.setRange(0, lowest)
        bar.setValue(value)
        self._is_arranging = False

    def _fit(self) -> None:
        width = self.viewport().width()
        column = min(self.theme.px(COLUMN), max(1, width - 2 * self.theme.px(_SIDE)))
        self._x = (width - column) // 2
        place = self.document.anchor(self.offset)
        self.document.resize(self.document.look, column)
        if not self.sticks:
            self.verticalScrollBar().setValue(round(self.document.place_of(place)))
        side = self._to_end.sizeHint()
        self._to_end.setGeometry(
            (self.width() - side.width()) // 2,
            self.height() - side.height() - self.theme.px(12),
            side.width(),
            side.height(),
        )

    def _restyle(self) -> None:
        column = min(self.theme.px(COLUMN), max(1, self.viewport().width() - 2 * self.theme.px(_SIDE)))
        place = self.document.anchor(self.offset)
        self.document.resize(Look(self.theme), column)
        self._fit()
        self.arrange(None if self.sticks else self.document.place_of(place))

    def _pose(self, turn: int, marked: Range | None) -> Pose:
        is_active = turn in {self._pointer.turn, self.current}
        lit = self._keys.spot if turn == self.current and self._keys.spot else None
        if turn == self._pointer.turn and self._pointer.spot is not None:
            lit = self._pointer.spot
        return Pose(marked, lit, is_active)

    def _paint_current(self, painter: QPainter) -> None:
        if self.current is None or not self.hasFocus():
            return
        turn, px = self.document.turns[self.current], self.theme.px
        top = self.document.top(self.current) + px(12)
        bottom = self.document.top(self.current) + turn.height
        painter.setPen(QPen(self.document.look.color("accent"), FOCUS_RING))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        column = self.viewport().width() - 2 * self._x
        area = QRectF(-px(12), top, column + 2 * px(12), bottom - top)
        painter.drawRoundedRect(area, px(Radius.CARD), px(Radius.CARD))


def open_link(link: str) -> None:
    """Open a web page in the browser; nothing but http and https."""
    url = QUrl(link)
    if url.scheme() in {"http", "https"}:
        QDesktopServices.openUrl(url)
