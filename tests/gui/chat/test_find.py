"""Finding words in the open chat, and a search hit that leads to its message."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.chats import Chat, Message, Role
from app.gui.screens.chat.find_bar import FindBar
from app.gui.screens.chat.transcript.finder import MOST_MATCHES
from app.gui.screens.chat.view import ChatScreen
from tests.demo import long_chat
from tests.demo.api import DemoApi

ANSWERS = {
    3: "The **boiler** plate and a `boiler` tube; a Boi**ler** in two parts.",
    17: "| part | note |\n|:--|--:|\n| boiler 🎉 boiler | x |\n\n```python\nboiler = 1\n```",
    33: "No steam here.",
}


def make_chat(count: int = 40) -> Chat:
    """Return a chat whose answers are as above, the others long and of no matter."""
    messages: list[Message] = []
    for number in range(count):
        role = Role.ASSISTANT if number % 2 else Role.USER
        content = ANSWERS.get(number, f"Message {number}. " + "Nothing of the kind. " * 40)
        parent = messages[-1].id if messages else None
        messages.append(Message(id=f"m{number}", chat="c1", parent=parent, role=role, content=content))
    beside = Message(id="other", chat="c1", parent="m2", role=Role.ASSISTANT, content="A whistle.")
    return replace(long_chat.make_sample_chat(), messages=[*messages, beside], head=f"m{count - 1}")


@pytest.fixture
def chat_screen(screen: ChatScreen, api: DemoApi) -> ChatScreen:
    api.replies["GET /chats/c1"] = make_chat()
    screen.model.open_chat("c1")
    api.flush()
    return screen


@pytest.fixture
def bar(chat_screen: ChatScreen) -> FindBar:
    chat_screen._find()
    return chat_screen.conversation_view.find_bar


def find(bar: FindBar, qtbot: QtBot, text: str) -> None:
    bar.field.setText(text)
    bar._find_typed(text)
    qtbot.waitUntil(lambda: not bar._finder.is_looking)


def is_in_view(screen: ChatScreen) -> bool:
    transcript = screen.conversation_view.transcript
    match = transcript.finder.match
    assert match is not None
    place = transcript._match_top(match)
    return transcript.offset <= place < transcript.offset + transcript.viewport().height()


def test_words_are_counted_shown_and_gone_through(chat_screen: ChatScreen, bar: FindBar, qtbot: QtBot) -> None:
    find(bar, qtbot, "BOILER")
    assert bar.count.text() == "1 of 6"
    assert is_in_view(chat_screen)
    turns = []
    for _ in range(6):
        match = bar._finder.match
        assert match is not None
        turns.append(match.turn)
        QTest.keyClick(bar.field, Qt.Key.Key_Return)
        assert is_in_view(chat_screen)
    assert turns == [3, 3, 3, 17, 17, 17]
    assert bar.count.text() == "1 of 6"
    QTest.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "6 of 6"


def test_places_are_marked_and_the_present_one_differently(chat_screen: ChatScreen, bar: FindBar, qtbot: QtBot) -> None:
    find(bar, qtbot, "boiler")
    marks = [mark for box in chat_screen.conversation_view.transcript.document.marks.values() for mark in box]
    assert len(marks) == 6
    assert sum(mark.is_current for mark in marks) == 1
    chat_screen.conversation_view.transcript.grab()  # they are painted in text, tables and code
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not chat_screen.conversation_view.transcript.document.marks
    assert bar.isHidden()


def test_positions_count_as_qt_counts(chat_screen: ChatScreen, bar: FindBar, qtbot: QtBot) -> None:
    find(bar, qtbot, "boiler")
    after = bar._finder.matches[4]
    text = chat_screen.conversation_view.transcript.document.turns[17].boxes[after.box].text
    assert after.end - after.start == len("boiler")
    assert text.encode("utf-16-le")[2 * after.start : 2 * after.end].decode("utf-16-le") == "boiler"


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("text", ["zebra", "b.iler", "[", "(", "\\"])
def test_what_is_not_there_is_said(bar: FindBar, qtbot: QtBot, text: str) -> None:
    find(bar, qtbot, text)
    assert bar.count.text() == "Nothing found"
    bar.step(1)
    find(bar, qtbot, " ")
    assert bar.count.text() == ""


@pytest.mark.slow
def test_a_common_letter_is_bounded(bar: FindBar, qtbot: QtBot) -> None:
    find(bar, qtbot, "n")
    assert 0 < len(bar._finder.matches) <= MOST_MATCHES + 1000


def test_a_search_hit_leads_to_its_message_and_marks_it(screen: ChatScreen, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["GET /chats/c1"] = make_chat()
    hit = replace(long_chat.make_search_results()[0], hit="m17")
    api.replies["GET /chats"] = [hit]
    screen.model.chat_list.query = "tube boiler"
    screen.model.chat_list.fetch_chats()
    api.flush()
    screen._open_chat("c1")
    api.flush()
    bar = screen.conversation_view.find_bar
    qtbot.waitUntil(lambda: not bar._finder.is_looking)
    assert not bar.isHidden()
    match = bar._finder.match
    assert match is not None
    assert match.turn == 17
    assert is_in_view(screen)


def test_a_hit_on_another_branch_shows_that_branch(chat_screen: ChatScreen, api: DemoApi) -> None:
    chat_screen.model.open_chat("c1", "other")
    api.flush()
    assert chat_screen.model.conversation.message_path()[-1].id == "other"


@pytest.mark.slow
def test_a_hit_that_is_not_in_the_text_shows_its_message(chat_screen: ChatScreen, qtbot: QtBot) -> None:
    chat_screen.model.chat_list.query = "words of a file"
    chat_screen.model.conversation.show_message("m33")
    transcript = chat_screen.conversation_view.transcript
    qtbot.waitUntil(lambda: not transcript.finder.is_looking)
    top = transcript.document.turn_top(33)
    assert transcript.offset <= top <= transcript.offset + transcript.viewport().height()


def test_without_a_chat_find_searches_all(screen: ChatScreen) -> None:
    screen._find()
    assert screen.conversation_view.find_bar.isHidden()


@pytest.mark.slow
def test_another_chat_ends_finding(chat_screen: ChatScreen, bar: FindBar, qtbot: QtBot) -> None:
    find(bar, qtbot, "boiler")
    chat_screen.model.new_chat()
    assert bar.isHidden()
    assert not chat_screen.conversation_view.transcript.finder.terms
