"""The window closes and opens again, as whatever version lies in its place by then: after an update."""

import subprocess
import sys

from PySide6.QtCore import QObject

from app.client.discovery import Detached
from app.config.environment import HANDED_SERVICE
from app.config.programs import child_environment, window_command
from app.gui.shell.departure import Departure


class Reopening(QObject):
    """Whether that was asked for. The service goes on meanwhile."""

    def __init__(self, departure: Departure) -> None:
        super().__init__(departure)
        self._departure = departure
        self.is_asked = False
        self.service: int | None = None
        """The service that this window started: whoever follows ends it as this one would have."""

    def ask(self) -> None:
        """Leave, to come again."""
        self.is_asked = True
        self._departure.leave_service()

    def start(self) -> None:
        """Open the window, as a program of its own. Raises OSError."""
        handed = {HANDED_SERVICE: str(self.service or "")}  # empty: ours came from a window before us
        Detached(
            window_command(),
            stdin=subprocess.DEVNULL,
            env=child_environment({"PYINSTALLER_RESET_ENVIRONMENT": "1", **handed}),
            start_new_session=sys.platform != "win32",
        )
