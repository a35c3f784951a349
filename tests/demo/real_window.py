"""Try the window as a person does: on a display of its own, with keys, and a look at what the service then has.

    python -m tests.demo.real_window

Needs Xvfb, xdotool and what Qt needs of X (`apt install xvfb xdotool libxcb-cursor0`). A line for each thing that was
tried; 1 if one did not come true.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.client.discovery import find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import default_paths
from app.config.programs import child_environment, module_command
from app.core.chats import Chat, ChatSummary, Message, MessageStatus, Role

_PATIENCE_S = 90.0
_DISPLAY = ":87"
_SIZE = "1280x800x24"
_QUESTION = "what is a quantised model"


class RealWindow:
    """A window on a display of its own, and the service that it started."""

    def __init__(self) -> None:
        self.id = ""
        self.client: GatewayClient | None = None

    def find(self) -> bool:
        """Wait until the window is there, and its service."""
        return self._wait(self._find_window) and self._wait(self._find_service)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        self._xdotool("windowfocus", "--sync", self.id, "key", "--delay", "60", *keys)

    def write(self, words: str) -> None:
        """Type words."""
        self._xdotool("windowfocus", "--sync", self.id, "type", "--delay", "30", words)

    def click_middle(self) -> None:
        """Click into the middle of the window, where the conversation is."""
        places = ("mousemove", "--window", self.id, "--polar", "0", "0")
        self._xdotool(*places, "click", "1")

    def chats(self) -> list[Chat]:
        """Return the chats with their messages, newest first."""
        assert self.client is not None
        return [self.client.get(f"/chats/{chat.id}", Chat) for chat in self.client.get("/chats", list[ChatSummary])]

    def answers(self) -> list[Message]:
        """Return the complete answers of the newest chat."""
        newest = next(iter(self.chats()), None)
        messages = newest.messages if newest is not None else []
        return [
            message
            for message in messages
            if message.role is Role.ASSISTANT and message.status is MessageStatus.COMPLETE
        ]

    def comes_true(self, condition: Callable[[], bool]) -> bool:
        """Wait for something that the service has to show."""
        return self._wait(condition)

    def _find_window(self) -> bool:
        try:
            self.id = self._xdotool("search", "--onlyvisible", "--name", "^Roundhouse$").split()[0]
        except subprocess.CalledProcessError:  # the display is not there yet, or nothing is on it
            return False
        return True

    def _find_service(self) -> bool:
        found = find_running_gateway(default_paths())
        self.client = GatewayClient(found, timeout_s=60) if found is not None else None
        return found is not None

    def _wait(self, condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.25)
        return False

    def _xdotool(self, *arguments: str) -> str:
        argv = [shutil.which("xdotool") or "xdotool", *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_PATIENCE_S).stdout


def ask(window: RealWindow) -> bool:
    """Ask with the keyboard; an answer comes, with its speed and the name of its model."""
    window.write(_QUESTION)
    window.press("Return")
    is_there = window.comes_true(lambda: len(window.answers()) == 1)
    return is_there and window.answers()[0].timings is not None and bool(window.answers()[0].model)


def regenerate(window: RealWindow) -> bool:
    """Choose the answer with Alt+Up and ask for it again: both versions are kept beside each other."""
    window.click_middle()
    window.press("alt+Up", "Right", "Return")
    return window.comes_true(lambda: len(window.answers()) == 2 and len({m.parent for m in window.answers()}) == 1)


def begin_another(window: RealWindow) -> bool:
    """Begin another chat with Ctrl+N and ask there."""
    window.press("ctrl+n")
    window.write("hello")
    window.press("Return")
    return window.comes_true(lambda: len(window.chats()) == 2 and len(window.answers()) == 1)


ROWS = (ask, regenerate, begin_another)
"""In this order: each goes on where the one before ended."""


def main() -> int:
    """Open the window, try all rows, and close it."""
    failures = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.update({"ROUNDHOUSE_HOME": str(Path(folder) / "home"), "DISPLAY": _DISPLAY})
        screen = subprocess.Popen([shutil.which("Xvfb") or "Xvfb", _DISPLAY, "-screen", "0", _SIZE])
        environment = child_environment({"QT_QPA_PLATFORM": "xcb"})
        program = subprocess.Popen(module_command("app.gui"), env=environment)
        window = RealWindow()
        try:
            if not window.find():
                sys.stdout.write("the window did not come\n")
                return 1
            for row in ROWS:
                is_true = row(window)
                failures += not is_true
                sys.stdout.write(f"{'yes' if is_true else 'NO ':4}{row.__doc__}\n")
                sys.stdout.flush()
        finally:
            if window.client is not None:
                window.client.post("/shutdown", None, object)
            program.terminate()
            program.wait(_PATIENCE_S)
            screen.terminate()
            screen.wait(_PATIENCE_S)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
