"""The widget: scrolls a `TranscriptDocument`, paints what is visible, keeps the reader's place while heights settle.

While an answer arrives nothing is done per token: the first one starts a timer, and when it fires everything that has
come is taken at once. The view follows the end only while the reader is at the end.
"""

from collections.abc import Sequence
from time import perf_counter

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame

from app.core.translation import tr
from app.gui.screens.chat.transcript.box import PaintState
from app.gui.screens.chat.transcript.finder import TextMatch, TranscriptFinder
from app.gui.screens.chat.transcript.keyboard import KeyboardHandler
from app.gui.screens.chat.transcript.look import FindThumbnail, TranscriptLook, find_nothing
from app.gui.screens.chat.transcript.mouse import MouseHandler
from app.gui.screens.chat.transcript.scroll_area import TranscriptScrollArea
from app.gui.screens.chat.transcript.text_lines import Range
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING, Radius

COLUMN = 760
_FRAME_MS = 16
_LOAD = 3
"""A frame that took long is followed by a pause this many times as long: typing comes first."""
_NEAR_END = 8
_MATCH_MARGIN = 24
"""Unscaled pixels that stay between what was found and the edges of the view."""


class Transcript(TranscriptScrollArea):
    """A conversation. `text_typed`: letters that are meant for the composer."""

    text_typed = Signal(str)
    side = 24
    """Unscaled pixels that stay free beside the column."""
    is_centred = True
    """Whether the column is in the middle, where there is more room than it takes."""

    def __init__(self, theme: Theme, find_thumbnail: FindThumbnail = find_nothing) -> None:
        super().__init__(theme, find_thumbnail)
        self._dirty: set[str] = set()
        self._mouse = MouseHandler(self)
        self._keyboard = KeyboardHandler(self)
        self._frame = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self._take_frame)
        self._pause_ms = _FRAME_MS
        self.finder = TranscriptFinder(self.document, self)
        self.finder.changed.connect(self.viewport().update)
        self._set_up()
        theme.changed.connect(self._restyle)

    def _set_up(self) -> None:
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setProperty("focusRing", False)  # noqa: FBT003 -- Qt's property
        self.setAccessibleName(tr("Conversation"))
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def show_turns(self, views: Sequence[TurnView], *, at_end: bool = False) -> None:
        """Show a conversation; `at_end` scrolls to its end."""
        anchor = self.document.anchor_at(self.offset)
        self.document.show_views(views)
        if self.current is not None and self.current >= len(views):
            self.current = None
        self.finder.refresh()
        if at_end:
            self.sticks = True
        self.arrange(None if self.sticks else self.document.place_of(anchor))

    def show_match(self) -> None:
        """Scroll to the place of the finder where the reader is, unless it is in view."""
        match = self.finder.match
        if match is None:
            return
        view, place = self.viewport().height(), self._match_top(match)
        margin = self.theme.px(_MATCH_MARGIN)
        if not self.offset + margin <= place <= self.offset + view - 2 * margin:
            self.scroll_to(place - view / 3)
            self.scroll_to(self._match_top(match) - view / 3)  # now that what is around it is laid out

    def show_message(self, message: str) -> None:
        """Scroll to a message."""
        place = self.turn_of(message)
        if place is not None:
            self.scroll_to(self.document.turn_top(place))
            self.scroll_to(self.document.turn_top(place))  # now that what is above it is laid out

    def turn_of(self, message: str) -> int | None:
        """Return which turn a message is."""
        turns = enumerate(self.document.turns)
        return next((index for index, turn in turns if turn.view.message.id == message), None)

    def _match_top(self, match: TextMatch) -> float:
        turn = self.document.turns[match.turn]
        turn.build_boxes()
        self.document.update_height(match.turn)
        top = self.document.turn_top(match.turn) + turn.box_corner(match.box).y()
        return top + turn.boxes[match.box].top_at(match.start)

    def pull_answer(self, message: str) -> None:
        """Take what was appended to an answer, with the next frame."""
        self._dirty.add(message)
        if not self._frame.isActive():
            self._frame.start(self._pause_ms)

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: N802 -- Qt's name
        """Follow the scroll bar; notice whether the reader is at the end."""
        del dx, dy
        if self.is_arranging:
            return
        bar = self.verticalScrollBar()
        self.sticks = bar.value() >= bar.maximum() - _NEAR_END
        self.arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Take the new width, keeping the place."""
        super().resizeEvent(event)
        self._fit_width()
        self.arrange()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Paint the visible turns on the ground."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # a text's own direction decides, not the window's
        area = event.rect()
        painter.fillRect(area, self.document.look.color("ground"))
        painter.translate(self.column_left, -self.offset)
        top = float(area.top() + self.offset)
        self.document.paint(painter, top, top + area.height(), self._paint_state)
        self._paint_current(painter)
        if self.offset:
            painter.resetTransform()
            painter.setPen(self.document.look.hairline_pen())
            painter.drawLine(0, 0, self.viewport().width(), 0)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._mouse.handle_press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._mouse.handle_move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._mouse.handle_release(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on."""
        self._mouse.handle_double_click(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 -- Qt's name
        """Offer what can be done with the message."""
        self._keyboard.open_menu(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Hand it on; what is not ours is typed, or scrolls."""
        if self._keyboard.handle_key(event):
            return
        text = QGuiApplication.clipboard().text() if event.matches(QKeySequence.StandardKey.Paste) else event.text()
        is_typed = not _is_command(event.modifiers()) and text.isprintable() and text.strip()
        if is_typed or event.matches(QKeySequence.StandardKey.Paste):
            self.text_typed.emit(text)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Choose the last visible message when the keyboard comes."""
        self._keyboard.take_focus(event.reason())
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Choose nothing any more."""
        self._keyboard.lose_focus(event.reason())
        super().focusOutEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 -- Qt's name
        """Scroll code sideways when the wheel or Shift says so."""
        if not self._mouse.handle_wheel(event):
            super().wheelEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Show tips, and forget the pointer when it leaves."""
        self._mouse.handle_event(event)
        return super().viewportEvent(event)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a comfortable size."""
        return QSize(self.theme.px(COLUMN), self.theme.px(480))

    def _take_frame(self) -> None:
        start = perf_counter()
        changes = [self.document.pull_answer(message) for message in self._dirty]
        self._dirty.clear()
        if any(changes):
            self.arrange()
        self._pause_ms = max(_FRAME_MS, round((perf_counter() - start) * 1000 * _LOAD))

    def _fit_width(self) -> None:
        width = self.viewport().width()
        column = min(self.theme.px(COLUMN), max(1, width - 2 * self.theme.px(self.side)))
        self.column_left = (width - column) // 2 if self.is_centred else self.theme.px(self.side)
        place = self.document.anchor_at(self.offset)
        self.document.resize(self.document.look, column)
        if not self.sticks:
            self.verticalScrollBar().setValue(round(self.document.place_of(place)))
        side = self.to_end.sizeHint()
        self.to_end.setGeometry(
            (self.width() - side.width()) // 2,
            self.height() - side.height() - self.theme.px(12),
            side.width(),
            side.height(),
        )

    def _restyle(self) -> None:
        column = min(self.theme.px(COLUMN), max(1, self.viewport().width() - 2 * self.theme.px(self.side)))
        place = self.document.anchor_at(self.offset)
        self.document.resize(TranscriptLook(self.theme, self.find_thumbnail), column)
        self._fit_width()
        self.arrange(None if self.sticks else self.document.place_of(place))

    def _paint_state(self, turn: int, selection: Range | None) -> PaintState:
        is_active = turn in {self._mouse.turn, self.current}
        lit_spot = self._keyboard.spot if turn == self.current and self._keyboard.spot else None
        if turn == self._mouse.turn and self._mouse.spot is not None:
            lit_spot = self._mouse.spot
        return PaintState(selection, lit_spot, is_active)

    def ring_area(self, turn: int) -> QRectF:
        """Return what is outlined round a message, on the page."""
        entry, px = self.document.turns[turn], self.theme.px
        top = self.document.turn_top(turn) + entry.gap - px(8)
        column = self.viewport().width() - 2 * self.column_left
        return QRectF(-px(12), top, column + 2 * px(12), self.document.turn_top(turn) + entry.height - top)

    def _paint_current(self, painter: QPainter) -> None:
        if self.current is None or not self.hasFocus():
            return
        painter.setPen(QPen(self.document.look.color("accent"), FOCUS_RING))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        radius = self.theme.px(Radius.CARD)
        painter.drawRoundedRect(self.ring_area(self.current), radius, radius)


def _is_command(modifiers: Qt.KeyboardModifier) -> bool:
    """Tell whether a key with these is no letter; Control and Alt together are AltGr, which writes some."""
    has_control = bool(modifiers & Qt.KeyboardModifier.ControlModifier)
    return has_control != bool(modifiers & Qt.KeyboardModifier.AltModifier) or bool(
        modifiers & Qt.KeyboardModifier.MetaModifier
    )
