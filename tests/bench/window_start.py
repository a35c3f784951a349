"""How long the window takes to be there: `python -m tests.bench.window_start START` prints one JSON object and ends.

START is the Unix time at which the process was asked for. The window is interactive when the event loop has turned once
after the first page was painted; it is linked when the gateway has answered. Memory is read some seconds later.
"""

import json
import sys
import time

import psutil
from PySide6.QtCore import QTimer

from app.gui.main import open_window

SETTLE_MS = 3000
"""Lists have been read and painted by then."""


def main(argv: list[str]) -> int:
    """Open the window as a person does, note the times, and leave."""
    began = float(argv[1])
    program = open_window(argv[:1])
    times: dict[str, float] = {}

    def note_time(name: str) -> None:
        times.setdefault(name, time.time() - began)

    def leave_window() -> None:
        times["resident_bytes"] = float(psutil.Process().memory_info().rss)
        program.quit_flow.end_without_asking()

    program.window.grab()  # paints the first page, which no display asks for here
    QTimer.singleShot(0, lambda: note_time("interactive_s"))
    program.link.connected.connect(lambda _: note_time("linked_s"))
    program.link.connected.connect(lambda _: QTimer.singleShot(SETTLE_MS, leave_window))
    code = program.run()
    sys.stdout.write(json.dumps(times) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
