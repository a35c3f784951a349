"""A question over the whole window, for the few things that cannot be undone: what is asked, and a button per answer.

Nothing blocks: the answer comes when a button is pressed. Escape, or a press beside the sheet, is the answer of whoever
changes their mind. The keyboard stays within the sheet while it is open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAccessible, QAccessibleEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.text import Paragraph

_WIDTH = 440


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """One answer: what its button says, and what it does. The first of a question has the keyboard."""

    words: str
    run: Callable[[], object]
    look: ButtonLook = ButtonLook.PLAIN


class QuestionDialog(QWidget):
    """Lies over `window` while open. One at a time; another takes the place of the one before."""

    def __init__(self, theme: Theme, window: QWidget) -> None:
        super().__init__(window)
        self._theme, self._window = theme, window
        self._before: QWidget | None = None
        self.buttons: list[Button] = []
        self._sheet = Surface(theme, outline="edge", radius=Radius.COMPOSER)
        self._sheet.setParent(self)
        self._box = box = VBox(theme, self._sheet, margins=(24, 24, 24, 24), gap=8)
        self.title = Paragraph(theme, role="section")
        self.sentence = Paragraph(theme, color="ink-2")
        self.remembers = Toggle(theme, tr("Do not ask again"))
        self._remember_row = QWidget()
        line = HBox(theme, self._remember_row, margins=(0, 12, 0, 0), gap=12)
        line.addWidget(self.remembers)
        line.addWidget(Paragraph(theme, tr("Do not ask again. You can change this in Settings."), color="ink-2"), 1)
        for widget in (self.title, self.sentence, self._remember_row):
            box.addWidget(widget)
        self._answers = FlowLayout(theme, gap=8)
        place = QWidget()
        VBox(theme, place, margins=(0, 16, 0, 0), gap=0).addLayout(self._answers)
        box.addWidget(place)
        theme.changed.connect(self.fit_window)
        self.hide()

    def ask(self, title: str, sentence: str, replies: Sequence[QuestionReply], *, offers_memory: bool = False) -> None:
        """Show a question; with `offers_memory` a switch tells afterwards (`remembers`) whether to ask again."""
        if self.isHidden():
            self._before = self._window.focusWidget()
        self.title.setText(title)
        self.sentence.setText(sentence)
        self.remembers.setChecked(False)
        self._remember_row.setVisible(offers_memory)
        clear_layout(self._answers)
        self.buttons = [self._make_button(reply) for reply in replies]
        self.setAccessibleName(title)
        self.setAccessibleDescription(sentence)
        self.fit_window()
        self.show()
        self.raise_()
        self.buttons[0].setFocus(Qt.FocusReason.PopupFocusReason)
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))

    def dismiss(self) -> None:
        """Close without an answer, and give the focus back."""
        self.hide()
        if self._before is not None and self._before.isVisible():
            self._before.setFocus(Qt.FocusReason.PopupFocusReason)

    def fit_window(self) -> None:
        """Fit the window after it changed its size."""
        self.setGeometry(self._window.rect())
        width = min(self._theme.px(_WIDTH), self.width() - self._theme.px(48))
        self._sheet.setFixedWidth(width)
        self._box.activate()
        self._sheet.setFixedHeight(min(self._box.totalHeightForWidth(width), self.height()))
        self._sheet.move((self.width() - width) // 2, max(0, (self.height() - self._sheet.height()) // 3))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Let Escape change the mind."""
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
            return
        event.accept()  # nothing below is to hear of it

    def mousePressEvent(self, event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Close when something beside the sheet is pressed."""
        event.accept()
        self.dismiss()

    def focusNextPrevChild(self, forwards: bool) -> bool:  # noqa: FBT001, N802 -- Qt's name and signature
        """Keep Tab within the sheet."""
        stops: list[QWidget] = [*([self.remembers] if self.remembers.isVisible() else []), *self.buttons]
        focus_widget = self._window.focusWidget()
        at = next((number for number, stop in enumerate(stops) if stop is focus_widget), -1)
        step = 1 if forwards else -1
        stops[(at + step) % len(stops)].setFocus(
            Qt.FocusReason.TabFocusReason if forwards else Qt.FocusReason.BacktabFocusReason
        )
        return True

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Dim what is below."""
        del event
        QPainter(self).fillRect(self.rect(), self._theme.color("shadow"))

    def _make_button(self, reply: QuestionReply) -> Button:
        def give_answer() -> None:
            self.dismiss()
            reply.run()

        button = Button(self._theme, reply.words, look=reply.look, action=give_answer)
        self._answers.addWidget(button)
        return button
