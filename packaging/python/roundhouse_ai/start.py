"""What every executable of the frozen application does: run a module of ours, or what it is named for.

Our programs start each other as `python -P -m module arguments`, and the frozen ones understand the same, so that no
caller has to know how it was packed. The executables differ in name and in whether they have a terminal.
"""

import runpy
import sys
from pathlib import Path

WINDOW, COMMAND = "app.gui", "app.cli.main"


def main() -> None:
    """Run what the arguments or our own name say."""
    if sys.argv[1:3] == ["-P", "-m"] and len(sys.argv) > 3:  # noqa: PLR2004 -- and a module
        _become(sys.argv[3], sys.argv[4:])
    elif Path(sys.argv[0]).stem == "roundhouse-window":
        _become(WINDOW, sys.argv[1:])
    else:
        _become(COMMAND, sys.argv[1:])


def _become(module: str, arguments: list[str]) -> None:
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
