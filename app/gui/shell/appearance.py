"""Appearance, size and motion: a change shows at once and is then kept as a setting, by the gateway that owns them.

What the window remembers between runs: size and place, page, looks. A small file beside the settings.

The looks are a copy of the settings, so that the window can be drawn rightly before the gateway has answered.
"""

import logging
from pathlib import Path
from typing import cast

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.core.api import SettingValue
from app.gui.net.remote_lists import PreferenceStore
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Mode, Theme

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
        staged_file = file.with_suffix(".new")
        staged_file.write_bytes(msgspec.json.encode(memory))
        staged_file.replace(file)
    except OSError as error:
        _log.warning("The window's state could not be kept: %s", error)


_KEEP_AFTER_MS = 400
"""A held key steps many times; only where it ends is kept."""


class Appearance(QObject):
    """Moves the theme and the settings together."""

    changed = Signal()

    def __init__(self, theme: Theme, preferences: PreferenceStore, shell: Shell) -> None:
        super().__init__(shell)
        self._theme, self._preferences = theme, preferences
        self._timer = QTimer(self, singleShot=True, interval=_KEEP_AFTER_MS)
        self._timer.timeout.connect(self._keep_scale)
        preferences.changed.connect(self._follow_settings)

    def restore_from(self, memory: WindowMemory) -> None:
        """Show what was shown last."""
        self._apply_values(memory.theme, memory.scale, reduce=memory.reduce_motion)

    def save_to(self, memory: WindowMemory) -> None:
        """Write the present looks into `memory`."""
        memory.theme, memory.scale = self._theme.mode, self._theme.percent
        memory.reduce_motion = not self._theme.duration(1)

    def change_scale(self, percent: int) -> None:
        """Make everything larger or smaller."""
        self._theme.set_percent(self._theme.percent + percent)
        self._timer.start()

    def save_pending(self) -> None:
        """Keep at once what waits to be kept: the window closes."""
        if self._timer.isActive():
            self._timer.stop()
            self._keep_scale()

    def reset_scale(self) -> None:
        """Show everything at 100 %."""
        self.change_scale(100 - self._theme.percent)

    def choose_mode(self, mode: Mode) -> None:
        """Follow the system, or keep to light or dark."""
        self._theme.set_mode(mode)
        self._preferences.change("window.theme", mode)

    def _keep_scale(self) -> None:
        self._preferences.change("window.scale", self._theme.percent)

    def _follow_settings(self) -> None:
        if not self._preferences.is_known or self._timer.isActive():
            return
        value = self._preferences.get
        self._apply_values(
            value("window.theme", self._theme.mode),
            value("window.scale", self._theme.percent),
            reduce=value("window.reduce_motion", False) is True,  # noqa: FBT003 -- the default, whatever its type
        )

    def _apply_values(self, mode: SettingValue, percent: SettingValue, *, reduce: bool) -> None:
        self._theme.set_reduce_motion(reduce)
        if isinstance(percent, int) and percent != self._theme.percent:
            self._theme.set_percent(percent)
        if mode in {"system", "light", "dark"} and mode != self._theme.mode:
            self._theme.set_mode(cast("Mode", mode))
