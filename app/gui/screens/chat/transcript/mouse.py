"""The mouse in the transcript: what it is over, selecting with it, pressing spots, scrolling code sideways."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, Qt, QTextBoundaryFinder, QTimer
from PySide6.QtGui import QHelpEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip

from app.gui.markdown.pieces import wide_cut, wide_length
from app.gui.screens.chat.transcript.document import Place
from app.gui.screens.chat.transcript.scroll_area import TranscriptScrollArea

if TYPE_CHECKING:
    from app.gui.screens.chat.transcript.box import Spot

_SCROLL_MS = 30
_THIRD_CLICK_MS = 400


class MouseHandler:
    """State of the mouse over one transcript."""

    def __init__(self, area: TranscriptScrollArea) -> None:
        self.turn: int | None = None
        self.spot: Spot | None = None
        self._area = area
        self._pressed_spot: tuple[int, Spot] | None = None
        self._is_selecting = False
        self._last = QPointF()
        self._scroll = QTimer(area, interval=_SCROLL_MS)
        self._scroll.timeout.connect(self._scroll_on)
        self._third = QTimer(area, singleShot=True, interval=_THIRD_CLICK_MS)

    def handle_press(self, event: QMouseEvent) -> None:
        """Begin to press a spot or to select."""
        if event.button() is not Qt.MouseButton.LeftButton or not self._area.document.turns:
            return
        page = self._area.to_page(event.position())
        self._pressed_spot = self._area.document.spot_at(page.x(), page.y())
        place = self._area.document.position_at(page.x(), page.y())
        document = self._area.document
        if self._third.isActive():
            self._select_box(place)
            return
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and document.start is not None:
            document.select_range(document.start, place)
        else:
            document.select_range(place, place)
        self._is_selecting = True
        self._area.viewport().update()

    def handle_move(self, event: QMouseEvent) -> None:
        """Go on selecting, or light up what is below."""
        self._last = event.position()
        if self._is_selecting and event.buttons() & Qt.MouseButton.LeftButton:
            self._extend_selection()
            outside = not self._area.viewport().rect().contains(event.position().toPoint())
            if outside and not self._scroll.isActive():
                self._scroll.start()
            elif not outside:
                self._scroll.stop()
            return
        self._hover_at(event.position())

    def handle_release(self, event: QMouseEvent) -> None:
        """Press the spot the button went down on."""
        self._scroll.stop()
        was_selecting, self._is_selecting = self._is_selecting, False
        document = self._area.document
        pressed_spot, self._pressed_spot = self._pressed_spot, None
        if pressed_spot is None or (was_selecting and document.start != document.end):
            return
        page = self._area.to_page(event.position())
        if document.spot_at(page.x(), page.y()) == pressed_spot:
            self._area.perform_action(*pressed_spot)

    def handle_double_click(self, event: QMouseEvent) -> None:
        """Select the word."""
        if not self._area.document.turns:
            return
        page = self._area.to_page(event.position())
        place = self._area.document.position_at(page.x(), page.y())
        text = self._area.document.turns[place[0]].boxes[place[1]].text
        start, end = word_around(text, place[2])
        self._area.document.select_range((*place[:2], start), (*place[:2], end))
        self._third.start()
        self._area.viewport().update()

    def handle_wheel(self, event: QWheelEvent) -> bool:
        """Scroll code sideways; return whether that was meant."""
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta() / 2
        is_sideways = abs(delta.x()) > abs(delta.y())
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            is_sideways, step = True, delta.y() or delta.x()
        else:
            step = delta.x()
        card = self._area.document.card_at(self._area.to_page(event.position()).y()) if is_sideways else None
        if card is not None and card.scroll_by(-step):
            self._area.viewport().update()
        return is_sideways

    def handle_event(self, event: QEvent) -> None:
        """Show the tip of the spot below; forget everything when the pointer leaves."""
        if isinstance(event, QHelpEvent):
            if self.spot is not None:
                QToolTip.showText(event.globalPos(), self.spot.name, self._area.viewport())
        elif event.type() is QEvent.Type.Leave:
            self.turn, self.spot = None, None
            self._area.viewport().update()

    def _hover_at(self, point: QPointF) -> None:
        document = self._area.document
        page = self._area.to_page(point)
        hit = document.spot_at(page.x(), page.y())
        turn = document.turn_at(page.y()) if document.turns else None
        spot = hit[1] if hit else None
        if (turn, spot) == (self.turn, self.spot):
            return
        self.turn, self.spot = turn, spot
        shape = Qt.CursorShape.PointingHandCursor if spot else Qt.CursorShape.IBeamCursor
        self._area.viewport().setCursor(shape)
        self._area.viewport().update()

    def _extend_selection(self) -> None:
        document = self._area.document
        page = self._area.to_page(self._last)
        if document.start is not None and document.turns:
            document.select_range(document.start, document.position_at(page.x(), page.y()))
            self._area.viewport().update()

    def _scroll_on(self) -> None:
        y, height = self._last.y(), self._area.viewport().height()
        by = y if y < 0 else max(0.0, y - height)
        bar = self._area.verticalScrollBar()
        bar.setValue(bar.value() + round(by / 2))
        self._extend_selection()

    def _select_box(self, place: Place) -> None:
        text = self._area.document.turns[place[0]].boxes[place[1]].text
        self._area.document.select_range((*place[:2], 0), (*place[:2], wide_length(text)))
        self._area.viewport().update()


def word_around(text: str, at: int) -> tuple[int, int]:
    """Return where the word at a position begins and ends; positions are UTF-16 units."""
    finder = QTextBoundaryFinder(QTextBoundaryFinder.BoundaryType.Word, text)
    finder.setPosition(at)
    start = at if finder.isAtBoundary() and wide_cut(text, at, at + 1).strip() else finder.toPreviousBoundary()
    finder.setPosition(max(start, 0))
    end = finder.toNextBoundary()
    return max(start, 0), end if end >= 0 else wide_length(text)
