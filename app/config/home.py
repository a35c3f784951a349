"""Where other programs of this person keep their settings: the folders of each platform, and what the shell moved.

Only read, never made: `app.connect` decides which of them it may write.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAMED = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "LLM_USER_PATH", "LLAMA_CACHE", "OLLAMA_MODELS"),
    *("LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
)
"""Variables by which a tool, or every tool of a system, is told where its own folder is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The folders of one person. `system` is "linux", "macos" or "windows"."""

    system: str
    folder: Path
    config: Path
    """`XDG_CONFIG_HOME`, or ~/.config: command-line tools use it on every system."""
    support: Path
    """Where desktop programs keep settings: ~/.config, ~/Library/Application Support, or %APPDATA%."""
    search: tuple[Path, ...] = ()
    """The folders of `PATH`."""
    variable_folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders that a variable names, by the variable."""


def this_home(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Home:
    """Return the folders of the person this process runs as, on `platform` (a `sys.platform`)."""
    source = os.environ if environ is None else environ
    system = {"win32": "windows", "darwin": "macos"}.get(platform, "linux")
    home = source.get("USERPROFILE" if system == "windows" else "HOME")
    folder = Path(home) if home else Path.home()
    config = _absolute_path(source.get("XDG_CONFIG_HOME")) or folder / ".config"
    support = {
        "linux": config,
        "macos": folder / "Library" / "Application Support",
        "windows": _absolute_path(source.get("APPDATA")) or folder / "AppData" / "Roaming",
    }[system]
    return Home(
        system=system,
        folder=folder,
        config=config,
        support=support,
        search=tuple(Path(part) for part in source.get("PATH", "").split(os.pathsep) if part),
        variable_folders={name: Path(source[name]).expanduser() for name in _NAMED if source.get(name)},
    )


def _absolute_path(text: str | None) -> Path | None:
    """Return the folder `text` names; a relative one is void, as the XDG specification says."""
    return Path(text) if text and Path(text).is_absolute() else None
