"""In another language, no button and no command of the window stays English."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.translation import use_language
from app.gui.shell.appearance import WindowMemory, save_memory
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Pressable
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.pseudo_language import PseudoLanguage

NAMES = {"", "curl", "Python"}


@pytest.fixture(autouse=True)
def pseudo() -> Iterator[None]:
    before = use_language(PseudoLanguage())
    yield
    use_language(before)


def show_page(page: PageId, folder: Path, qtbot: QtBot) -> MainWindow:
    memory = folder / "window.json"
    save_memory(memory, WindowMemory(page=page.value))
    api = DemoApi(dict(data.gateway_replies()))
    window = MainWindow(Theme(), api, memory)
    qtbot.addWidget(window)
    window.show()
    window.mark_connected(data.STATUS)
    api.flush()
    QApplication.processEvents()
    return window


@pytest.mark.slow
@pytest.mark.parametrize("page", PageId)
def test_every_button_is_translated(page: PageId, tmp_path: Path, qtbot: QtBot) -> None:
    window = show_page(page, tmp_path, qtbot)
    buttons = window.findChildren(Pressable)
    plain = {button.accessibleName() for button in buttons if "[" not in button.accessibleName()}
    assert len(buttons) > 7
    assert plain <= NAMES


def test_every_command_is_translated(tmp_path: Path, qtbot: QtBot) -> None:
    window = show_page(PageId.CHAT, tmp_path, qtbot)
    titles = [command.title for command in window._all_commands()]
    assert len(titles) > 40
    assert [title for title in titles if "[" not in title] == []


@pytest.mark.slow
def test_settings_are_called_in_the_window_s_language(tmp_path: Path, qtbot: QtBot) -> None:
    window = show_page(PageId.SETTINGS, tmp_path, qtbot)
    settings = window.stores.preferences.items
    assert settings
    assert all(info.title.startswith("[") for info in settings)
