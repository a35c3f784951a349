"""How to start our own programs, from a checkout and, later, from a frozen application.

Every place that starts a child of ours asks here, so that freezing changes one function.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

UV_VARIABLE = "ROUNDHOUSE_UV"
"""Names the uv to use, where the one that comes with Roundhouse will not do."""


def command(module: str, *arguments: str) -> list[str]:
    """Return the argv that runs `module` (e.g. "app.gateway") with this interpreter.

    `-P` keeps the folder we are started in off the import path: people's projects often have a folder called `app`.
    """
    return [own_program(), "-P", "-m", module, *arguments]


def own_program() -> str:
    """Return what runs our modules: this interpreter, or the frozen application's command, which understands the same.

    The window's executable would do as well, but a list of processes should not show three windows.
    """
    if not getattr(sys, "frozen", False):
        return sys.executable
    running = Path(sys.executable)
    return str(running.with_name("roundhouse" + running.suffix))


def window_command() -> list[str]:
    """Return the argv that opens the window: frozen, the executable a desktop starts, which needs no terminal."""
    if not getattr(sys, "frozen", False):
        return command("app.gui")
    running = Path(sys.executable)
    return [str(running.with_name("roundhouse-window" + running.suffix))]


def how_to_remove() -> str:
    """Return how the program itself is removed, in a sentence: the way it came."""
    running = Path(sys.executable)
    if not getattr(sys, "frozen", False):
        return "The program itself is this checkout or environment; remove that folder."
    if sys.platform == "linux" and running.is_relative_to("/usr"):
        return "The program itself is a package: `sudo apt remove roundhouse`, or in the software centre."
    if sys.platform == "win32":
        return "The program itself is removed in Settings, under installed apps."
    return f"The program itself is {_bundle(running)}; remove that."


def _bundle(running: Path) -> Path:
    """Return what a person sees of a frozen application: on macOS the .app around it, else its folder."""
    return next((folder for folder in running.parents if folder.suffix == ".app"), running.parent)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for a child of ours, with `extra` on top."""
    return {**os.environ, **(extra or {})}


def become(module: str, *, extra: Mapping[str, str] | None = None) -> NoReturn:
    """Turn this process into another program of ours; the caller's terminal sees its exit code.

    On Windows, where exec would hand the prompt back at once, wait for it as a child instead.
    """
    argv, environment = command(module), child_environment(extra)
    if sys.platform == "win32":
        sys.exit(subprocess.call(argv, env=environment))
    os.execve(argv[0], argv, environment)  # noqa: S606 -- our own program, argv as a list


def uv_program() -> Path | None:
    """Return the uv that builds engines' environments; None when there is none.

    In order: the one `ROUNDHOUSE_UV` names, the one that was installed or frozen with us, a checkout's own, the one on
    PATH.
    """
    name = "uv.exe" if sys.platform == "win32" else "uv"
    named = os.environ.get(UV_VARIABLE)
    root = Path(__file__).resolve().parents[2]
    beside = (Path(sys.executable).parent / name, root / name, root / ".uv" / "bin" / name)
    on_path = shutil.which("uv")
    candidates = [Path(named)] if named else [*beside, *([Path(on_path)] if on_path else [])]
    return next((path for path in candidates if path.is_file()), None)
