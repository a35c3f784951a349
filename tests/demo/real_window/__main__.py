"""Try the window as a person does: on a display of its own, with keys and mouse, and look at what came of it.

    python -m tests.demo.real_window [WORD…] [--pictures FOLDER] [--write]

A line for each row of `rows.ROWS`, or those with a WORD in their names; 1 if one did not come true. The models are run
by the real llama.cpp. Controls are found by what a screen reader gets, so a row fails if that is missing. `--write`
puts the table into docs/internals/chat-tried.md.

Needs `apt install xvfb openbox xdotool xclip dbus-daemon at-spi2-core libxcb-cursor0`.
"""

import argparse
import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from app.config.paths import default_paths
from tests.demo.real_window import display
from tests.demo.real_window.accessible import AccessibleTree
from tests.demo.real_window.models import COUNT, write_models
from tests.demo.real_window.rows import PEERS, ROWS, Row
from tests.demo.real_window.window import NotSeen, RealWindow

_PAGE = Path(__file__).parents[3] / "docs" / "internals" / "chat-tried.md"
_BEGIN, _END = "<!-- rows -->\n", "<!-- end of rows -->\n"


def main(argv: list[str] | None = None) -> int:
    """Open the window, try the rows, and close it. Returns the exit status."""
    arguments = _make_parser().parse_args(argv)
    if missing_names := display.missing_programs():
        sys.stderr.write(f"not installed: {', '.join(missing_names)}\n")
        return 2
    rows = [row for row in ROWS if not arguments.words or any(word in row.name for word in arguments.words)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pictures: Path = arguments.pictures or Path(folder) / "pictures"
        pictures.mkdir(parents=True, exist_ok=True)
        successes = _try_rows(rows, Path(folder), pictures)
    if arguments.write:
        _write_page(successes)
    return int(len(successes) < len(rows))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.demo.real_window", description="Try the window for real.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="try only the rows with one of these in their names")
    parser.add_argument("--pictures", type=Path, help="where pictures of the window go")
    parser.add_argument("--write", action="store_true", help="write the table into the documentation")
    return parser


def _try_rows(rows: list[Row], folder: Path, pictures: Path) -> set[str]:
    """Try rows in one window after the other; return the names of those that came true."""
    home = folder / "person"
    home.mkdir()
    os.environ.update({"ROUNDHOUSE_HOME": str(folder / "roundhouse"), "HOME": str(home)})
    write_models(default_paths().models)
    successes: set[str] = set()
    with display.open_display(folder) as address:
        window = RealWindow(AccessibleTree(address), pictures)
        try:
            window.open()
            window.wait_for(lambda: len(window.models()) >= COUNT, "the models")
            for row in rows:
                if _try_row(row, window):
                    successes.add(row.name)
        finally:
            window.close()
            window.tree.close()
    return successes


def _try_row(row: Row, window: RealWindow) -> bool:
    begin = time.monotonic()
    try:
        row.try_it(window)
    except (NotSeen, AssertionError, LookupError) as failure:
        _report("NO", row, begin, f"\n    {type(failure).__name__}: {failure}")
        window.take_picture(f"failed-{row.name}")
        window.press("Escape", "Escape", "Escape")
        return False
    _report("yes", row, begin)
    return True


def _report(word: str, row: Row, begin: float, more: str = "") -> None:
    sys.stdout.write(f"{word:4}{row.name}: {row.how} ({time.monotonic() - begin:.0f} s){more}\n")
    sys.stdout.flush()


def _write_page(successes: set[str]) -> None:
    """Put the table, with the day, between its marks."""
    text = _PAGE.read_text(encoding="utf-8")
    head, rest = text.split(_BEGIN)
    tail = rest.split(_END)[1]
    lines = [
        f"Tried on {date.today().isoformat()}.\n",  # noqa: DTZ011 -- the day it was where it was tried
        f"| | how it was tried here | Roundhouse | {' | '.join(PEERS)} |",
        "|---|---|---" + "|---" * len(PEERS) + "|",
    ]
    for row in ROWS:
        came_true = "yes" if row.name in successes else "no"
        lines.append(f"| {row.title} | {row.how} | {came_true} | {' | '.join(row.peers)} |")
    _PAGE.write_text(head + _BEGIN + "\n".join(lines) + "\n" + _END + tail, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
