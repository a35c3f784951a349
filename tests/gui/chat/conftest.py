"""The chat page as it opens, and with a chat of two messages."""

import pytest
from pytestqt.qtbot import QtBot

from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.gui.chat.chat_page import turn_for


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> ChatScreen:
    api.replies |= long_chat.chat_replies()
    api.replies |= {
        "POST /chats": long_chat.make_chat([], title=""),
        "POST /chats/c1/turns": turn_for,
        "POST /chats/c1/answers/a9/stop": long_chat.make_answer(9, "Hel", status="stopped"),
    }
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1100, 720)
    with qtbot.waitActive(screen):
        screen.show()
        screen.activateWindow()
    api.flush()
    return screen


@pytest.fixture
def chat_screen(screen: ChatScreen, api: DemoApi) -> ChatScreen:
    screen.model.open_chat("c1")
    api.flush()
    return screen
