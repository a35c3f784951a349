"""What the tests of the chat page do with it: type, press keys, and look for panels and buttons."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.core.chats import NewTurn, Turn
from app.gui.screens.chat.view import ChatScreen
from app.gui.widgets.buttons import Button
from app.gui.widgets.panels import ErrorPanel
from tests.demo import long_chat

FOLLOW = "/chats/c1/answers/a9?offset=0"
ENTER, SHIFT, CONTROL = Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier


def turn_for(body: object) -> Turn:
    assert isinstance(body, NewTurn)
    question = long_chat.replace_fields(long_chat.make_question(9, body.content or "", body.parent))
    return Turn(question=question, answer=long_chat.make_answer(9, "", timings=None, status="generating"))


def type_text(screen: ChatScreen, text: str) -> None:
    QTest.keyClicks(screen.conversation_view.composer.field, text)


def press_key(screen: ChatScreen, code: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(screen.conversation_view.composer.field, code, modifier)


def list_panels(screen: ChatScreen) -> list[ErrorPanel]:
    return [panel for panel in screen.findChildren(ErrorPanel) if panel.isVisible()]


def find_button(parent: QWidget, words: str) -> Button:
    return next(child for child in parent.findChildren(Button) if child.text() == words and child.isVisible())
