"""The icon in the system's tray: what runs and what it holds, a pause, the way back to the window, and out.

Many desktops have no tray, and some only later than the window after a log-in: it is looked for for two minutes. All
works without one. The menu is changed in place, since a menu that is made anew closes under the pointer.

The tray's icon, drawn for each sign: the panel's colour is not ours to know, so it brings its ground along.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell
from app.gui.shell.tray_model import MOST_LINES, TrayLook, TraySign, tray_look
from app.gui.theme.theme import render_icon
from app.gui.theme.tokens import DARK, LIGHT

SETTING = "window.tray"
_LOOK_AGAIN_MS, _LOOKS = 5000, 24
_SHOWN_MS = 8000
_OPENS = frozenset({QSystemTrayIcon.ActivationReason.Trigger, QSystemTrayIcon.ActivationReason.DoubleClick})


class Tray(QObject):
    """Keeps the icon there while the setting says so and the desktop has a place for it."""

    window_requested = Signal()
    """The window is wanted."""
    models_requested = Signal()
    """Somebody pressed one of the models."""
    quit_requested = Signal()

    def __init__(self, shell: Shell, stores: Stores) -> None:
        super().__init__(shell)
        self._shell, self._stores = shell, stores
        self._icon: QSystemTrayIcon | None = None
        self._shown_look: TrayLook | None = None
        self._sign: TraySign | None = None
        self._after: Callable[[], object] = self.window_requested.emit
        self.menu = QMenu()
        self.destroyed.connect(self.menu.deleteLater)  # a menu's parent can only be a widget
        self.status_action = self._add_action("", self.window_requested.emit)
        self.model_actions = [self._add_action("", self.models_requested.emit) for _ in range(MOST_LINES)]
        self.menu.addSeparator()
        self.profiles = ProfileMenu(self.menu, stores)
        self.pause_action = self._add_action("", stores.paused.toggle)
        self.menu.addSeparator()
        self.open_action = self._add_action(tr("Open Roundhouse"), self.window_requested.emit)
        self.quit_action = self._add_action(tr("Quit Roundhouse"), self.quit_requested.emit)
        self._looks_left = _LOOKS
        self._timer = QTimer(self, interval=_LOOK_AGAIN_MS)
        self._timer.timeout.connect(self._look_again)
        for signal in (stores.running.changed, stores.paused.changed, shell.connected):
            signal.connect(self._show_look)
        shell.disconnected.connect(self._show_disconnected)
        stores.preferences.changed.connect(self.apply_setting)

    @property
    def is_there(self) -> bool:
        """Whether a person can see it, and so find the way back to a hidden window."""
        return self._icon is not None and self._is_wanted and QSystemTrayIcon.isSystemTrayAvailable()

    def show_message(self, title: str, text: str, on_press: Callable[[], object] | None = None) -> bool:
        """Have the system show a message; return whether it can. Without the setting the icon is there just for it.

        `pressed` is what pressing the message does; otherwise it opens the window.
        """
        if not (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
            return False
        self._after = on_press or self.window_requested.emit
        icon = self._ensure_icon()
        icon.show()
        icon.showMessage(title, text, tray_icon(TraySign.IDLE), _SHOWN_MS)
        return True

    def apply_setting(self) -> None:
        """Show the icon or take it away, as the setting says and the desktop can."""
        if not self._stores.preferences.is_known:
            return
        if not self._is_wanted:
            self._timer.stop()
            self.hide_icon()
        elif QSystemTrayIcon.isSystemTrayAvailable():
            self._timer.stop()
            self._ensure_icon().show()
        elif self._looks_left:
            self._timer.start()

    def hide_icon(self) -> None:
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
        self.apply_setting()

    def _ensure_icon(self) -> QSystemTrayIcon:
        if self._icon is None:
            self._icon = QSystemTrayIcon(self)
            self._icon.setContextMenu(self.menu)
            self._icon.activated.connect(self._handle_activation)
            self._icon.messageClicked.connect(self._message_clicked)
            self._show_look()
        return self._icon

    def _add_action(self, text: str, action: Callable[[], object]) -> QAction:
        entry = self.menu.addAction(text)
        entry.triggered.connect(lambda _is_checked=False: action())
        return entry

    def _handle_activation(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in _OPENS:
            self.window_requested.emit()

    def _message_clicked(self) -> None:
        if not self._is_wanted:
            self.hide_icon()
        self._after()

    def _show_disconnected(self, _error: ErrorBody) -> None:
        self._show_look()

    def _show_look(self) -> None:
        stores = self._stores
        look = tray_look(
            is_connected=self._shell.is_connected, statuses=stores.running.active(), pause=stores.paused.state
        )
        self.pause_action.setText(tr("Resume") if stores.paused.state.is_paused else tr("Pause and free all memory"))
        self.pause_action.setEnabled(self._shell.is_connected)
        self._list_models(look)
        if self._icon is not None and look != self._shown_look:
            self._icon.setToolTip(look.tip)
            self._shown_look = look
            if look.sign is not self._sign:
                self._icon.setIcon(tray_icon(look.sign))
                self._sign = look.sign

    def _list_models(self, look: TrayLook) -> None:
        self.status_action.setText(look.line)
        for at, action in enumerate(self.model_actions):
            is_there = at < len(look.models)
            action.setVisible(is_there)
            if is_there:
                action.setText(f"    {look.models[at]}")


class ProfileMenu:
    """The profiles as a menu of the tray's: which is active, and a press to switch. Changed in place, as the rest."""

    def __init__(self, menu: QMenu, stores: Stores) -> None:
        self._store = stores.profiles
        self.menu = menu.addMenu(tr("Profile"))
        self.actions = [self._add_action(at) for at in range(MOST_LINES)]
        self.none_action = self.menu.addAction(tr("None"))
        self.none_action.setCheckable(True)
        self.none_action.triggered.connect(lambda _is_checked=False: self._store.use_profile(""))
        self._store.changed.connect(self.show_profiles)
        self.show_profiles()

    def show_profiles(self) -> None:
        """Show what is so now; without profiles there is no such menu."""
        state = self._store.state
        self.menu.menuAction().setVisible(bool(state.profiles))
        for at, action in enumerate(self.actions):
            is_there = at < len(state.profiles)
            action.setVisible(is_there)
            if is_there:
                action.setText(state.profiles[at].name)
                action.setChecked(state.profiles[at].name == state.active)
        self.none_action.setChecked(not state.active)

    def _add_action(self, at: int) -> QAction:
        action = self.menu.addAction("")
        action.setCheckable(True)
        action.triggered.connect(lambda _is_checked=False: self._use(at))
        return action

    def _use(self, at: int) -> None:
        profiles = self._store.state.profiles
        if at < len(profiles):
            self._store.use_profile(profiles[at].name)
        self.show_profiles()  # a press has checked what is not active yet


SIZES = (16, 22, 24, 32, 44, 48, 64)
"""Panels ask for these, in pixels of the screen."""
_GROUNDS = {TraySign.OFF: LIGHT["edge"], TraySign.PAUSED: LIGHT["edge"]}
_MARKS = {TraySign.READY: DARK["ok"], TraySign.COMING: DARK["warn"], TraySign.FAILED: DARK["bad"]}
_CORNER, _GLYPH, _MARK, _RIM, _BAR, _TALL = 0.22, 0.72, 0.2, 0.07, 0.16, 0.5
"""Shares of the side: the ground's corner, the drawing, the mark's radius, what keeps it apart, the bars of a pause."""


def tray_icon(sign: TraySign) -> QIcon:
    """Return the icon in every size a panel may want."""
    icon = QIcon()
    for size in SIZES:
        icon.addPixmap(_draw_icon(sign, size))
    return icon


def _draw_icon(sign: TraySign, size: int) -> QPixmap:
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(_GROUNDS.get(sign, LIGHT["accent"])))
    painter.drawRoundedRect(QRectF(0, 0, size, size), size * _CORNER, size * _CORNER)
    if sign is TraySign.PAUSED:
        _draw_bars(painter, size)
    else:
        glyph = round(size * _GLYPH)
        at = (size - glyph) // 2
        painter.drawPixmap(at, at, render_icon("train-front", QColor(LIGHT["on-accent"]), glyph, 1.0))
    if sign in _MARKS:
        _draw_mark(painter, size, QColor(_MARKS[sign]))
    painter.end()
    return picture


def _draw_bars(painter: QPainter, size: int) -> None:
    """Draw the sign of a pause on whole pixels: outlines as thin as the other icons' vanish in a panel."""
    width, height = max(2, round(size * _BAR)), round(size * _TALL)
    top, gap = (size - height) // 2, max(1, width // 2)
    for left in (size // 2 - gap - width, size // 2 + gap):
        painter.fillRect(left, top, width, height, QColor(LIGHT["on-accent"]))


def _draw_mark(painter: QPainter, size: int, color: QColor) -> None:
    """Put a dot into the corner, with nothing of the icon right beside it."""
    radius = size * _MARK
    middle = QPointF(size - radius, size - radius)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
    painter.drawEllipse(middle, radius + size * _RIM, radius + size * _RIM)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
    painter.setBrush(color)
    painter.drawEllipse(middle, radius, radius)
