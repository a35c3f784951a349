"""What the gateway has to say to people that belongs to no page: an engine that gave way, memory that was made free."""

from PySide6.QtCore import QObject

from app.core.events import Event, Notice
from app.gui.shell.contract import Shell


class Told(QObject):
    """Says every notice in passing."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._shell = shell
        shell.happened.connect(self._take)

    def _take(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._shell.toast(f"{event.sentence} {event.hint}".strip())
