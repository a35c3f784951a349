"""The window at log-in: the one file, or on Windows the one value, by which each system opens programs by itself.

Linux is tried (a desktop reads the entry as any other); macOS and Windows were never run.
"""

import plistlib
import sys
from collections.abc import Sequence
from pathlib import Path

from app.config.home import Home
from app.config.programs import window_command
from app.core.errors import StorageFault

LABEL = "ai.roundhouse.window"
_RUN_KEY, _VALUE = r"Software\Microsoft\Windows\CurrentVersion\Run", "Roundhouse"
_ENTRY = """\
[Desktop Entry]
Type=Application
Name=Roundhouse
Comment=Run AI models on this computer
Exec={argv}
Icon=roundhouse
Terminal=false
X-GNOME-Autostart-enabled=true
"""
_QUOTED = '"`$\\'
"""What must be escaped inside quotes (specifications.freedesktop.org/desktop-entry-spec, "The Exec key")."""


def autostart_file(home: Home) -> Path | None:
    """Return the file that opens the window at log-in; None on Windows, which keeps a value in the registry."""
    if home.system == "windows":
        return None
    if home.system == "macos":
        return home.folder / "Library/LaunchAgents" / f"{LABEL}.plist"
    return home.config / "autostart/roundhouse.desktop"


def set_autostart(home: Home, *, is_enabled: bool) -> None:
    """Have the window open at log-in, or not. Blocks. Raises StorageFault."""
    file = autostart_file(home)
    try:
        if file is None:
            _note_in_registry(window_command(), is_enabled=is_enabled)
        elif is_enabled:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(
                format_window_agent(window_command())
                if home.system == "macos"
                else format_desktop_entry(window_command())
            )
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageFault(
            f"Opening at log-in cannot be changed: {error.strerror or error}.", hint="Check who owns that folder."
        ) from error


def format_desktop_entry(argv: Sequence[str]) -> bytes:
    """Return an autostart entry. https://specifications.freedesktop.org/autostart-spec/."""
    return _ENTRY.format(argv=" ".join(_quote_exec_word(part) for part in argv)).encode()


def format_window_agent(argv: Sequence[str]) -> bytes:
    """Return a property list for launchd; see launchd.plist(5)."""
    return plistlib.dumps({"Label": LABEL, "ProgramArguments": list(argv), "RunAtLoad": True})


def _quote_exec_word(part: str) -> str:
    """Quote one argument twice over: as the Exec key has it, and then as every string of the file."""
    quoted = "".join(f"\\{letter}" if letter in _QUOTED else letter for letter in part.replace("%", "%%"))
    return f'"{quoted}"'.replace("\\", "\\\\")


def _note_in_registry(argv: Sequence[str], *, is_enabled: bool) -> None:
    if sys.platform != "win32":
        return
    import subprocess  # noqa: PLC0415 -- Windows only, as the next
    import winreg  # noqa: PLC0415 -- as above

    with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _RUN_KEY, 0, winreg.KEY_SET_VALUE) as key:
        if is_enabled:
            winreg.SetValueEx(key, _VALUE, 0, winreg.REG_SZ, subprocess.list2cmdline(argv))
        else:
            try:
                winreg.DeleteValue(key, _VALUE)
            except FileNotFoundError:
                return
