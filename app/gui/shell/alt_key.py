"""Alt pressed and let go with nothing in between: what shows the menu bar.

Keys that a control takes never reach the window, so everything is watched, but only for as long as Alt is held.
"""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication

_KEYS = frozenset({QEvent.Type.KeyPress, QEvent.Type.ShortcutOverride})
_OTHERS = frozenset({QEvent.Type.MouseButtonPress, QEvent.Type.Wheel, QEvent.Type.WindowDeactivate})


class AltKeyWatcher(QObject):
    """Tells whether Alt stayed alone. The window says when it goes down and up."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._is_alone = False

    def start_watching(self) -> None:
        """Begin to watch: Alt is down."""
        application = QApplication.instance()
        if application is not None and not self._is_alone:
            self._is_alone = True
            application.installEventFilter(self)

    def stop_watching(self) -> bool:
        """End watching; return whether nothing else happened."""
        was_alone, self._is_alone = self._is_alone, False
        application = QApplication.instance()
        if application is not None:
            application.removeEventFilter(self)
        return was_alone

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Notice anything else that is pressed."""
        is_other_key = (
            event.type() in _KEYS
            and isinstance(event, QKeyEvent)
            and event.key() not in {Qt.Key.Key_Alt, Qt.Key.Key_Meta}
        )
        if is_other_key or event.type() in _OTHERS:
            self.stop_watching()
        return super().eventFilter(watched, event)
