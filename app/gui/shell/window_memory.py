"""What the window remembers between runs: size and place, page, looks. A small file beside the settings.

The looks are a copy of the settings, so that the window can be drawn rightly before the gateway has answered.
"""

import logging
from pathlib import Path

import msgspec

_log = logging.getLogger(__name__)


class WindowMemory(msgspec.Struct, kw_only=True):
    """The state of the window. `geometry` is Qt's own form in base 64."""

    geometry: str = ""
    page: str = "chat"
    theme: str = "system"
    scale: int = 100
    reduce_motion: bool = False
    knows_tray: bool = False
    """Whether it was said that a closed window is still there, in the tray."""


def load_memory(file: Path) -> WindowMemory:
    """Return what was remembered; what cannot be read is forgotten."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=WindowMemory)
    except FileNotFoundError:
        return WindowMemory()
    except (OSError, msgspec.MsgspecError) as error:
        _log.info("The window starts afresh: %s", error)
        return WindowMemory()


def save_memory(file: Path, memory: WindowMemory) -> None:
    """Write it down. Failing costs only the memory, so it is logged and no more."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = file.with_suffix(".new")
        staged.write_bytes(msgspec.json.encode(memory))
        staged.replace(file)
    except OSError as error:
        _log.warning("The window's state could not be kept: %s", error)
