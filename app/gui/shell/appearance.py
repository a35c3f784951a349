"""Appearance, size and motion: a change shows at once and is then kept as a setting, by the gateway that owns them."""

from typing import cast

from PySide6.QtCore import QObject, QTimer, Signal

from app.core.settings import SettingValue
from app.gui.net.remote_lists import PreferenceStore
from app.gui.shell.contract import Shell
from app.gui.shell.window_memory import WindowMemory
from app.gui.theme.theme import Mode, Theme

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
