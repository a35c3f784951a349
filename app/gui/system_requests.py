"""What the system asks of a running application by events instead of arguments: to open files and links, and to quit.

macOS hands over a double-clicked file and a followed link this way, also those it started the program for. They are
taken like what a later start hands over. A request to quit (from the Dock) would otherwise only close the window.
"""

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication


class SystemRequests(QObject):
    """What was asked. Until `start_forwarding` it is kept: the first events come before there is a window."""

    arguments_received = Signal(list)
    """Paths and addresses (`str`), as a program's arguments would be."""
    quit_requested = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._early: list[str] | None = []

    def start_forwarding(self) -> None:
        """Tell what came so far, and from now on everything at once."""
        early, self._early = self._early, None
        if early:
            self.arguments_received.emit(early)

    def handle_event(self, event: QEvent) -> bool:
        """Take an event of the application; return whether it was for us."""
        if isinstance(event, QFileOpenEvent):
            self._open_argument(event.file() or bytes(event.url().toEncoded().data()).decode("ascii"))
        elif event.type() is QEvent.Type.Quit and self._early is None:
            self.quit_requested.emit()
        else:
            return False
        return True

    def _open_argument(self, argument: str) -> None:
        if argument and self._early is None:
            self.arguments_received.emit([argument])
        elif argument and self._early is not None:
            self._early.append(argument)


class DesktopApplication(QApplication):
    """The application, which passes on what the system asks. A filter would be asked about every event there is."""

    def __init__(self, argv: list[str]) -> None:
        self.requests = SystemRequests()  # first: events come while the application is being made
        super().__init__(argv)

    def event(self, event: QEvent) -> bool:
        """Take what is asked of the application itself."""
        return self.requests.handle_event(event) or super().event(event)
