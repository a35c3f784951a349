"""The window closes and opens again, as whatever version lies in its place by then: after an update."""

import subprocess
import sys

from PySide6.QtCore import QObject

from app.client.discovery import BackgroundProcess
from app.config.environment import HANDED_SERVICE
from app.config.programs import child_environment, window_command
from app.gui.shell.quit_flow import QuitFlow


class WindowReopener(QObject):
    """Whether that was asked for. The service goes on meanwhile."""

    def __init__(self, quit_flow: QuitFlow) -> None:
        super().__init__(quit_flow)
        self._quit_flow = quit_flow
        self.is_requested = False
        self.service: int | None = None
        """The service that this window started: whoever follows ends it as this one would have."""

    def request_reopen(self) -> None:
        """Leave, to come again."""
        self.is_requested = True
        self._quit_flow.leave_service()

    def start_window(self) -> None:
        """Open the window, as a program of its own. Raises OSError."""
        service_environment = {HANDED_SERVICE: str(self.service or "")}  # empty: ours came from a window before us
        BackgroundProcess(
            window_command(),
            stdin=subprocess.DEVNULL,
            env=child_environment({"PYINSTALLER_RESET_ENVIRONMENT": "1", **service_environment}),
            start_new_session=sys.platform != "win32",
        )
