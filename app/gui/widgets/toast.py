"""A sentence in passing at the foot of the window, with Undo where there is a way back."""

from bisect import bisect_right
from collections.abc import Callable

from PySide6.QtCore import QEasingCurve, QPoint, QPropertyAnimation, QRect, QTimer
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Motion, Radius
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.layout import HBox, Surface
from app.gui.widgets.text import Label

_SHOWN_MS = 6000
_WIDEST = 0.6
"""Share of the window's width that words may take before they go on in a second line."""
_NARROWEST = 80
"""Unscaled pixels of the words; a few of them side by side."""
_READABLE = 480
"""Unscaled pixels that they may take in any window, as far as its foot has them: large letters need the whole of it."""
_GAP = 8
"""Unscaled pixels that are left of the foot on both sides."""
_MOST_LINES = 3
"""It lies over the page: what is longer is cut, and whole in its tip."""


class Toast(Surface):
    """One at a time; the next replaces it. It waits for as long as the pointer or the keyboard is on it."""

    def __init__(self, theme: Theme, parent: QWidget, foot: Callable[[], QRect] | None = None) -> None:
        super().__init__(theme, fill="surface", outline="edge", radius=Radius.CARD)
        self._around, self._foot = parent, foot
        self._way_back: Callable[[], object] | None = None
        self._sentence = ""
        self.setParent(parent)
        line = HBox(theme, self, margins=(16, 8, 8, 8), gap=12)
        self._words = Label(theme, weight=500)
        line.addWidget(self._words)
        self._undo = Button(theme, tr("Undo"), icon="undo-2", action=self.undo_last)
        self._undo.setToolTip("Ctrl+Z")
        line.addWidget(self._undo)
        self._action = Button(theme, "", look=ButtonLook.PRIMARY)
        line.addWidget(self._action)
        line.addWidget(IconButton(theme, "x", tr("Dismiss"), action=self.hide, size=28))
        self._timer = QTimer(self, singleShot=True, interval=_SHOWN_MS)
        self._timer.timeout.connect(self._time_is_up)
        self._rise = QPropertyAnimation(self, b"pos", self)
        self._rise.setEasingCurve(QEasingCurve.Type.OutCubic)
        self.hide()

    def show_offer(self, sentence: str, words: str, action: Callable[[], object]) -> None:
        """Show a sentence with a button for what may be done next."""
        self.show_message(sentence)

        def perform() -> None:
            self.hide()
            action()

        self._action.set_text(words)
        self._action.set_action(perform)
        self._action.show()
        self.place_at_foot()

    def show_message(self, sentence: str, undo: Callable[[], object] | None = None) -> None:
        """Show a sentence for six seconds."""
        self._action.hide()
        self._sentence = sentence
        self._way_back = undo
        self._undo.setVisible(undo is not None)
        self.setAccessibleName(sentence)
        self.place_at_foot()
        self.show()
        self.raise_()
        self._timer.start()
        self._animate_rise()
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))

    def place_at_foot(self) -> None:
        """Stand above the middle of what the page keeps at its foot."""
        widest = max(int(self._around.width() * _WIDEST), self.theme.px(_READABLE))
        self._words.setText(self._sentence)
        self._words.setWordWrap(False)
        self._words.setFixedWidth(min(self._words.sizeHint().width(), widest))
        self._words.setWordWrap(True)
        excess = self.sizeHint().width() - self._foot_area().width() + 2 * self.theme.px(_GAP)
        if excess > 0:  # the buttons beside the words take their room first
            self._words.setFixedWidth(max(self.theme.px(_NARROWEST), self._words.width() - excess))
        self._shorten_words()
        self._words.setFixedHeight(self._words.heightForWidth(self._words.width()))
        self.adjustSize()
        self.move(self._goal_position())

    def _shorten_words(self) -> None:
        """Show as many words as there are lines for."""
        parts, most = self._sentence.split(" "), (_MOST_LINES + 0.5) * self._words.fontMetrics().lineSpacing()

        def measure_height(count: int) -> int:
            self._words.setText(self._sentence if count == len(parts) else f"{' '.join(parts[:count])} …")
            return self._words.heightForWidth(self._words.width())

        is_long = measure_height(len(parts)) > most
        if is_long:
            measure_height(max(1, bisect_right(range(len(parts)), most, key=measure_height) - 1))
        self._words.setToolTip(self._sentence if is_long else "")

    def undo_last(self) -> bool:
        """Undo what the sentence says; return whether there was anything to undo."""
        undo, self._way_back = self._way_back, None
        if undo is None or self.isHidden():
            return False
        self.hide()
        undo()
        return True

    def _goal_position(self) -> QPoint:
        foot = self._foot_area()
        gap = self.theme.px(8 if foot.height() else 24)
        return QPoint(foot.left() + (foot.width() - self.width()) // 2, foot.top() - self.height() - gap)

    def _foot_area(self) -> QRect:
        around = self._around.rect()
        return self._foot() if self._foot is not None else QRect(0, around.height(), around.width(), 0)

    def _animate_rise(self) -> None:
        duration = self.theme.duration(Motion.PAGE)
        if not duration:
            return
        self._rise.setDuration(duration)
        self._rise.setStartValue(self._goal_position() + QPoint(0, self.theme.px(16)))
        self._rise.setEndValue(self._goal_position())
        self._rise.start()

    def _time_is_up(self) -> None:
        focus_widget: QWidget | None = QApplication.focusWidget()
        if self.underMouse() or (focus_widget is not None and self.isAncestorOf(focus_widget)):
            self._timer.start()
            return
        self.hide()
