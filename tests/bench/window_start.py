"""How long the window takes to be there: `python -m tests.bench.window_start START` prints one JSON object and ends.

START is the Unix time at which the process was asked for. The window is interactive when the event loop has turned once
after the first page was painted; it is linked when the gateway has answered. Memory is read some seconds later.
"""

import json
import sys
import time

import psutil
from PySide6.QtCore import QTimer

from app.gui.main import opened

SETTLE_MS = 3000
"""Lists have been read and painted by then."""


def main(argv: list[str]) -> int:
    """Open the window as a person does, note the times, and leave."""
    began = float(argv[1])
    program = opened(argv[:1])
    noted: dict[str, float] = {}

    def note(name: str) -> None:
        noted.setdefault(name, time.time() - began)

    def leave() -> None:
        noted["resident_bytes"] = float(psutil.Process().memory_info().rss)
        program.departure.end_unasked()

    program.window.grab()  # paints the first page, which no display asks for here
    QTimer.singleShot(0, lambda: note("interactive_s"))
    program.link.connected.connect(lambda _: note("linked_s"))
    program.link.connected.connect(lambda _: QTimer.singleShot(SETTLE_MS, leave))
    code = program.run()
    sys.stdout.write(json.dumps(noted) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
