"""The bar above a conversation that finds words in it: how many places there are, the next and the one before."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from app.core.translation import tr
from app.gui.screens.chat.transcript.transcript import Transcript
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox
from app.gui.widgets.text import Label


class FindField(Field):
    """Where the words are typed."""

    step_requested = Signal(int)
    close_requested = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Go on with Return, back with Shift and Return, and leave with Escape."""
        is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.key() == Qt.Key.Key_Escape:
            self.close_requested.emit()
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F3}:
            self.step_requested.emit(-1 if is_back else 1)
        elif event.key() in {Qt.Key.Key_Up, Qt.Key.Key_Down}:
            self.step_requested.emit(-1 if event.key() == Qt.Key.Key_Up else 1)
        else:
            super().keyPressEvent(event)


class FindBar(QWidget):
    """Steers the finder of a transcript."""

    closed = Signal()

    def __init__(self, theme: Theme, transcript: Transcript) -> None:
        super().__init__()
        self._transcript, self._finder = transcript, transcript.finder
        line = HBox(theme, self, margins=(16, 4, 16, 4), gap=4)
        self.field = FindField(theme, tr("Find in this chat"), placeholder=tr("Find in this chat"), icon="search")
        self.field.textEdited.connect(self._find_typed)
        self.field.step_requested.connect(self.step)
        self.field.close_requested.connect(self.close_bar)
        self.count = Label(theme, "", role="meta", color="ink-2")
        line.addWidget(self.field, 1)
        line.addWidget(self.count)
        line.addWidget(IconButton(theme, "arrow-up", tr("Previous place"), action=lambda: self.step(-1), size=28))
        line.addWidget(IconButton(theme, "arrow-down", tr("Next place"), action=lambda: self.step(1), size=28))
        line.addWidget(IconButton(theme, "x", tr("Close find"), action=self.close_bar, size=28))
        self._finder.changed.connect(self._show_count)
        self._goal = ""
        self.hide()

    def open_bar(self) -> None:
        """Show it with what was looked for last, to be typed over."""
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self._find_typed(self.field.text())

    def show_hit(self, words: str, message: str) -> None:
        """Show where a message has any of the words a search was for; the whole message where its text has none."""
        self.show()
        self.field.setText(words)
        self._goal = message
        self._transcript.show_message(message)
        self._finder.find(words.split(), start=self._transcript.turn_of(message) or 0)

    def close_bar(self) -> None:
        """Mark nothing any more, and give the keyboard back."""
        self.hide()
        self._goal = ""
        self._finder.find(())
        self.closed.emit()

    def step(self, by: int) -> None:
        """Go to the next place, or the one before."""
        if self._finder.terms:
            self._goal = ""
            self._finder.step(by)
            self._transcript.show_match()
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.count.text()))
        else:
            self._find_typed(self.field.text())

    def _find_typed(self, text: str) -> None:
        self._goal = ""
        self._finder.find((text,))
        self._transcript.show_match()

    def _show_count(self) -> None:
        finder = self._finder
        place, total = f"{finder.current + 1:,}", f"{len(finder.matches):,}"
        if not finder.terms:
            self.count.setText("")
        elif finder.matches:
            self.count.setText(
                tr("{place} of {total} so far", place=place, total=total)
                if finder.is_looking
                else tr("{place} of {total}", place=place, total=total)
            )
        else:
            self.count.setText(tr("Looking…") if finder.is_looking else tr("Nothing found"))
        match = finder.match
        if self._goal and match is not None and match.turn == self._transcript.turn_of(self._goal):
            self._goal = ""
            self._transcript.show_match()
