"""The Models page with its lists read."""

import pytest
from pytestqt.qtbot import QtBot

from app.gui.net.remote_lists import Stores
from app.gui.screens.models.view import ModelsScreen
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ModelsScreen:
    screen = ModelsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 700)
    screen.show()
    api.flush()
    return screen
