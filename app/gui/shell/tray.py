"""The icon in the system's tray: what runs and what it holds, a pause, the way back to the window, and out.

Many desktops have no tray, and some only later than the window after a log-in: it is looked for for two minutes. All
works without one. The menu is changed in place, since a menu that is made anew closes under the pointer.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.core.errors import ErrorBody
from app.gui.net.stores import Stores
from app.gui.shell.contract import Shell
from app.gui.shell.tray_icon import tray_icon
from app.gui.shell.tray_model import MOST_LINES, Sign, TrayLook, tray_look

SETTING = "window.tray"
_LOOK_AGAIN_MS, _LOOKS = 5000, 24
_SHOWN_MS = 8000
_OPENS = frozenset({QSystemTrayIcon.ActivationReason.Trigger, QSystemTrayIcon.ActivationReason.DoubleClick})


class Tray(QObject):
    """Keeps the icon there while the setting says so and the desktop has a place for it."""

    opened = Signal()
    """The window is wanted."""
    models_asked = Signal()
    """Somebody pressed one of the models."""
    quit_asked = Signal()

    def __init__(self, shell: Shell, stores: Stores) -> None:
        super().__init__(shell)
        self._shell, self._stores = shell, stores
        self._icon: QSystemTrayIcon | None = None
        self._shown: TrayLook | None = None
        self._sign: Sign | None = None
        self._after: Callable[[], object] = self.opened.emit
        self.menu = QMenu()
        self.destroyed.connect(self.menu.deleteLater)  # a menu's parent can only be a widget
        self.line = self._add("", self.opened.emit)
        self.models = [self._add("", self.models_asked.emit) for _ in range(MOST_LINES)]
        self.menu.addSeparator()
        self.pause = self._add("", stores.paused.toggle)
        self.menu.addSeparator()
        self.open = self._add("Open Roundhouse", self.opened.emit)
        self.quit = self._add("Quit Roundhouse", self.quit_asked.emit)
        self._looks_left = _LOOKS
        self._timer = QTimer(self, interval=_LOOK_AGAIN_MS)
        self._timer.timeout.connect(self._look_again)
        for changed in (stores.running.changed, stores.paused.changed, shell.connected):
            changed.connect(self._show)
        shell.lost.connect(self._lost)
        stores.preferences.changed.connect(self.settle)

    @property
    def is_there(self) -> bool:
        """Whether a person can see it, and so find the way back to a hidden window."""
        return self._icon is not None and self._is_wanted and QSystemTrayIcon.isSystemTrayAvailable()

    def tell(self, title: str, text: str, pressed: Callable[[], object] | None = None) -> bool:
        """Have the system show a message; return whether it can. Without the setting the icon is there just for it.

        `pressed` is what pressing the message does; otherwise it opens the window.
        """
        if not (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
            return False
        self._after = pressed or self.opened.emit
        icon = self._made()
        icon.show()
        icon.showMessage(title, text, tray_icon(Sign.IDLE), _SHOWN_MS)
        return True

    def settle(self) -> None:
        """Show the icon or take it away, as the setting says and the desktop can."""
        if not self._stores.preferences.is_known:
            return
        if not self._is_wanted:
            self._timer.stop()
            self.hide()
        elif QSystemTrayIcon.isSystemTrayAvailable():
            self._timer.stop()
            self._made().show()
        elif self._looks_left:
            self._timer.start()

    def hide(self) -> None:
        """Take the icon away: the program ends."""
        if self._icon is not None:
            self._icon.hide()

    @property
    def _is_wanted(self) -> bool:
        return self._stores.preferences.get(SETTING, False) is True

    def _look_again(self) -> None:
        self._looks_left -= 1
        if not self._looks_left:
            self._timer.stop()
        self.settle()

    def _made(self) -> QSystemTrayIcon:
        if self._icon is None:
            self._icon = QSystemTrayIcon(self)
            self._icon.setContextMenu(self.menu)
            self._icon.activated.connect(self._activated)
            self._icon.messageClicked.connect(self._message_clicked)
            self._show()
        return self._icon

    def _add(self, text: str, action: Callable[[], object]) -> QAction:
        made = self.menu.addAction(text)
        made.triggered.connect(lambda _checked=False: action())
        return made

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in _OPENS:
            self.opened.emit()

    def _message_clicked(self) -> None:
        if not self._is_wanted:
            self.hide()
        self._after()

    def _lost(self, _error: ErrorBody) -> None:
        self._show()

    def _show(self) -> None:
        stores = self._stores
        look = tray_look(
            is_connected=self._shell.is_connected, running=stores.running.active(), pause=stores.paused.state
        )
        self.pause.setText("Resume" if stores.paused.state.is_paused else "Pause: give all memory back")
        self.pause.setEnabled(self._shell.is_connected)
        self._list(look)
        if self._icon is not None and look != self._shown:
            self._icon.setToolTip(look.tip)
            self._shown = look
            if look.sign is not self._sign:
                self._icon.setIcon(tray_icon(look.sign))
                self._sign = look.sign

    def _list(self, look: TrayLook) -> None:
        self.line.setText(look.line)
        for at, action in enumerate(self.models):
            is_there = at < len(look.models)
            action.setVisible(is_there)
            if is_there:
                action.setText(f"    {look.models[at]}")
