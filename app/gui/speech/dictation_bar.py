"""The line above the composer while something is dictated: how long, where it goes, and the buttons that end it."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from app.core.translation import tr
from app.gui.speech.dictation import Dictation, DictationState, dictation_words
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import IconButton
from app.gui.widgets.layout import HBox
from app.gui.widgets.text import ElidedLabel


class DictationBar(QWidget):
    """Shows a `Dictation`, and is hidden while there is none. Escape on its buttons cancels."""

    def __init__(self, theme: Theme, dictation: Dictation) -> None:
        super().__init__()
        self._dictation, self._state = dictation, DictationState.IDLE
        line = HBox(theme, self, margins=(0, 0, 8, 0), gap=8)
        self.words = ElidedLabel(theme, role="meta", color="ink-2")
        self.stop_button = IconButton(theme, "check", tr("Stop and insert"), action=dictation.stop)
        line.addWidget(self.words, 1)
        line.addWidget(self.stop_button)
        line.addWidget(IconButton(theme, "x", tr("Cancel dictation"), action=dictation.cancel))
        dictation.changed.connect(self._show_state)
        self.hide()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Cancel by Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self._dictation.cancel()
        else:
            super().keyPressEvent(event)

    def _show_state(self) -> None:
        state = self._dictation.state
        self.words.setText(dictation_words(self._dictation))
        self.stop_button.setVisible(state is DictationState.RECORDING)
        self.setVisible(state is not DictationState.IDLE)
        if state is not self._state and state is not DictationState.IDLE:  # not with each second
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.words.text()))
        self._state = state
