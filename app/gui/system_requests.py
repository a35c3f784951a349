"""What the system asks of a running application by events instead of arguments: to open files and links, and to quit.

macOS hands over a double-clicked file and a followed link this way, also those it started the program for. They are
taken like what a later start hands over. A request to quit (from the Dock) would otherwise only close the window.
"""

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication


class SystemRequests(QObject):
    """What was asked. Until `begin` it is kept: the first events come before there is a window."""

    opened = Signal(list)
    """Paths and addresses (`str`), as a program's arguments would be."""
    quit_asked = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._early: list[str] | None = []

    def begin(self) -> None:
        """Tell what came so far, and from now on everything at once."""
        early, self._early = self._early, None
        if early:
            self.opened.emit(early)

    def take(self, event: QEvent) -> bool:
        """Take an event of the application; return whether it was for us."""
        if isinstance(event, QFileOpenEvent):
            self._open(event.file() or bytes(event.url().toEncoded().data()).decode("ascii"))
        elif event.type() is QEvent.Type.Quit and self._early is None:
            self.quit_asked.emit()
        else:
            return False
        return True

    def _open(self, argument: str) -> None:
        if argument and self._early is None:
            self.opened.emit([argument])
        elif argument and self._early is not None:
            self._early.append(argument)


class Application(QApplication):
    """The application, which passes on what the system asks. A filter would be asked about every event there is."""

    def __init__(self, argv: list[str]) -> None:
        self.requests = SystemRequests()  # first: events come while the application is being made
        super().__init__(argv)

    def event(self, event: QEvent) -> bool:
        """Take what is asked of the application itself."""
        return self.requests.take(event) or super().event(event)
