"""Tests of the window run without a display, against a gateway that is not there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from pytestqt.qtbot import QtBot

from app.core.settings import SettingInfo, SettingValue
from app.gui.shell.contract import Command, Page, Shell
from app.gui.shell.memory import WindowMemory, remember
from app.gui.shell.window import Window
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi


def pytest_configure(config: pytest.Config) -> None:
    """Let the offscreen platform say what it cannot do: it has no window manager and no keyboard to grab."""
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")


class QuietShell(Shell):
    """A shell that keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.undos: list[Callable[[], object] | None] = []
        self.copied: list[str] = []
        self.pages: list[Page] = []
        self.asked: list[tuple[str, str, Command]] = []

    def toast(self, sentence: str, undo: Callable[[], object] | None = None) -> None:
        self.said.append(sentence)
        self.undos.append(undo)

    def confirm(self, title: str, sentence: str, deed: Command) -> None:
        self.asked.append((title, sentence, deed))

    def show_page(self, page: Page) -> None:
        self.pages.append(page)

    def copy(self, text: str, said: str = "Copied") -> None:
        del said
        self.copied.append(text)

    def commands(self) -> list[Command]:
        return [command for source in self.sources for command in source()]


def still_settings() -> list[SettingInfo]:
    forced: dict[str, SettingValue] = {"window.theme": "light", "window.reduce_motion": True}
    return [data.changed(row, forced[row.name]) if row.name in forced else row for row in data.settings()]


@pytest.fixture
def theme(qtbot: QtBot) -> Theme:
    theme = Theme()
    theme.set_mode("light")
    theme.set_reduce_motion(True)
    return theme


@pytest.fixture
def api(qtbot: QtBot) -> DemoApi:
    return DemoApi({**data.replies(), "GET /settings": still_settings()})


@pytest.fixture
def shell(qtbot: QtBot) -> QuietShell:
    shell = QuietShell()
    shell.is_connected = True
    return shell


@pytest.fixture
def make_window(qtbot: QtBot, theme: Theme, api: DemoApi, tmp_path: Path) -> Callable[[Page], Window]:
    def make(page: Page) -> Window:
        file = tmp_path / "window.json"
        remember(file, WindowMemory(page=page.value, theme="light", reduce_motion=True))
        window = Window(theme, api, file)
        qtbot.addWidget(window)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        window.connected(data.STATUS)
        api.flush()
        return window

    return make
