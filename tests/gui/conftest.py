"""Tests of the window run without a display, against a gateway that is not there."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QCoreApplication, QEvent, SignalInstance
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import SignalBlocker

from app.core.api import SettingInfo, SettingValue
from app.gui.shell.appearance import WindowMemory, save_memory
from app.gui.shell.contract import Command, PageId, Shell
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.patience import PATIENCE_S

PATIENCE_MS = int(PATIENCE_S * 1000)


def pytest_configure(config: pytest.Config) -> None:
    """Let the offscreen platform say what it cannot do: it has no window manager and no keyboard to grab."""
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")


class PatientBot(QtBot):
    """Waits as long as every other test does."""

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS) -> None:  # noqa: N802 -- Qt's name
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(  # noqa: N802 -- Qt's name
        self,
        signal: SignalInstance,
        *,
        timeout: int = PATIENCE_MS,
        raising: bool | None = None,
        check_params_cb: Callable[..., bool] | None = None,
    ) -> SignalBlocker:
        return super().waitSignal(signal, timeout=timeout, raising=raising, check_params_cb=check_params_cb)


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    return PatientBot(request)


class QuietShell(Shell):
    """A shell that keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.undos: list[Callable[[], object] | None] = []
        self.offers: list[Command] = []
        self.copied_texts: list[str] = []
        self.pages: list[PageId] = []
        self.confirmations: list[tuple[str, str, Command]] = []

    def show_toast(self, sentence: str, undo: Callable[[], object] | None = None) -> None:
        self.messages.append(sentence)
        self.undos.append(undo)

    def show_offer(self, sentence: str, command: Command) -> None:
        self.messages.append(sentence)
        self.offers.append(command)

    def confirm(self, title: str, sentence: str, command: Command) -> None:
        self.confirmations.append((title, sentence, command))

    def show_page(self, page: PageId) -> None:
        self.pages.append(page)

    def copy_text(self, text: str, message: str = "Copied") -> None:
        del message
        self.copied_texts.append(text)

    def commands(self) -> list[Command]:
        return [command for source in self.sources for command in source()]


def delete_closed() -> None:
    """Delete what is to be deleted later, and what goes with it. Qt leaves it to the next event loop that runs."""
    for _ in range(2):
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def remaining_windows() -> list[QWidget]:
    """Return the top-level widgets that are left when everything that can go has gone."""
    delete_closed()
    if QApplication.topLevelWidgets():
        gc.collect()
    return QApplication.topLevelWidgets()


@pytest.fixture(autouse=True)
def clipboard_cleared() -> Iterator[None]:
    """Take off the clipboard what a test put there: Qt deletes that when Python has ended, and then crashes."""
    yield
    if isinstance(application := QApplication.instance(), QApplication):
        application.clipboard().clear()


@pytest.fixture(autouse=True)
def windows_deleted() -> Iterator[None]:
    """Fail a test whose widgets outlive it: every later change of style would go over them too.

    If only cycles hold them, the garbage collector may come by in the middle of such a change and delete them under
    Qt's feet, which then crashes.
    """
    yield
    widgets_left = [repr(widget) for widget in remaining_windows()] if QApplication.instance() else []
    assert not widgets_left, "top-level widgets outlive the test"


def still_settings() -> list[SettingInfo]:
    forced_settings: dict[str, SettingValue] = {"window.theme": "light", "window.reduce_motion": True}
    return [
        data.with_value(row, forced_settings[row.name]) if row.name in forced_settings else row
        for row in data.default_settings()
    ]


@pytest.fixture
def theme(qtbot: QtBot) -> Iterator[Theme]:
    theme = Theme()
    theme.set_mode("light")
    theme.set_reduce_motion(True)
    yield theme
    theme.deleteLater()


@pytest.fixture
def api(qtbot: QtBot) -> Iterator[DemoApi]:
    api = DemoApi({**data.gateway_replies(), "GET /settings": still_settings()})
    yield api
    api.deleteLater()


@pytest.fixture
def shell(qtbot: QtBot) -> Iterator[QuietShell]:
    shell = QuietShell()
    shell.is_connected = True
    yield shell
    shell.deleteLater()


@pytest.fixture
def make_window(qtbot: QtBot, theme: Theme, api: DemoApi, tmp_path: Path) -> Callable[[PageId], MainWindow]:
    def make(page: PageId) -> MainWindow:
        file = tmp_path / "window.json"
        save_memory(file, WindowMemory(page=page.value, theme="light", reduce_motion=True))
        window = MainWindow(theme, api, file)
        qtbot.addWidget(window)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        window.mark_connected(data.STATUS)
        api.flush()
        return window

    return make
