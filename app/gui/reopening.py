"""The window closes and opens again, as whatever version lies in its place by then: after an update."""

import subprocess
import sys

from PySide6.QtCore import QObject

from app.client.discovery import Detached
from app.config.programs import child_environment, window_command
from app.gui.shell.departure import Departure


class Reopening(QObject):
    """Whether that was asked for. The service goes on meanwhile."""

    def __init__(self, departure: Departure) -> None:
        super().__init__(departure)
        self._departure = departure
        self.is_asked = False

    def ask(self) -> None:
        """Leave, to come again."""
        self.is_asked = True
        self._departure.leave_service()

    @staticmethod
    def start() -> None:
        """Open the window, as a program of its own. Raises OSError."""
        Detached(
            window_command(),
            stdin=subprocess.DEVNULL,
            env=child_environment({"PYINSTALLER_RESET_ENVIRONMENT": "1"}),
            start_new_session=sys.platform != "win32",
        )
