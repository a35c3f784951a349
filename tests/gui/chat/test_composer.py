"""The composer's field: as high as what is typed, quick with any text, and it says what the model cannot take."""

from time import process_time

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.events import EngineChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.composer import ComposerField
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.stylesheet import make_stylesheet
from app.gui.theme.theme import Theme
from app.gui.widgets.prompt_field import PromptField
from tests.demo import data, long_chat
from tests.demo.api import DemoApi

PARAGRAPH = "One long paragraph of words that goes on and on. " * 60


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> ChatScreen:
    api.replies |= long_chat.chat_replies()
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1100, 720)
    screen.show()
    api.flush()
    QApplication.processEvents()
    return screen


def paste(screen: ChatScreen, text: str) -> None:
    clip = QMimeData()
    clip.setText(text)
    screen.conversation_view.composer.field.insertFromMimeData(clip)
    QApplication.processEvents()


def test_the_field_is_low_again_after_a_long_paragraph_was_sent(qtbot: QtBot, screen: ChatScreen) -> None:
    field = screen.conversation_view.composer.field
    low = field.height()
    paste(screen, PARAGRAPH)
    qtbot.waitUntil(lambda: field.height() > 5 * low)
    QTest.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: field.height() == low)


@pytest.mark.slow
def test_a_draft_that_is_put_back_has_its_height(qtbot: QtBot, screen: ChatScreen) -> None:
    field = screen.conversation_view.composer.field
    low = field.height()
    screen.conversation_view.composer.set_text(PARAGRAPH)
    qtbot.waitUntil(lambda: field.height() > 5 * low)


@pytest.mark.slow
def test_an_endless_word_costs_no_more_than_words(screen: ChatScreen) -> None:
    def seconds_for(text: str) -> float:
        start = process_time()
        paste(screen, text)
        QTest.keyClick(screen.conversation_view.composer.field, Qt.Key.Key_A)
        QApplication.processEvents()
        taken_s = process_time() - start
        screen.conversation_view.composer.field.clear()
        QApplication.processEvents()
        return taken_s

    words = seconds_for("word " * 20_000)
    assert seconds_for("a" * 100_000) < 4 * words, "by words it takes more than ten times as long"


@pytest.mark.slow
def test_lines_are_broken_between_words_again_afterwards(screen: ChatScreen) -> None:
    field = screen.conversation_view.composer.field
    usual = field.wordWrapMode()
    paste(screen, "a" * 5000)
    assert field.wordWrapMode() is not usual
    field.clear()
    assert field.wordWrapMode() is usual


def test_what_is_typed_counts_before_the_first_answer(screen: ChatScreen, shell: Shell) -> None:
    screen.model.new_chat(data.READY.model)
    shell.event_received.emit(EngineChanged(status=data.READY))
    assert screen.header.meter.isHidden()
    paste(screen, "word " * 400)
    assert not screen.header.meter.isHidden()
    assert screen.header.meter.accessibleName().startswith("Context used: ≈ ")
    screen.conversation_view.composer.field.clear()
    assert screen.header.meter.isHidden()


@pytest.mark.slow
def test_more_than_the_model_takes_is_said_while_typing(screen: ChatScreen, shell: Shell) -> None:
    screen.model.new_chat(data.READY.model)
    shell.event_received.emit(EngineChanged(status=data.READY))
    context = data.READY.context
    assert context is not None
    hint = screen.conversation_view.composer._hint
    paste(screen, "word " * context)
    assert hint.text().startswith("About ")
    screen.conversation_view.composer.set_text("short")
    assert hint.text() == "≈ 2 tokens"


def test_the_placeholder_grows_with_the_text_when_the_scale_changes(
    theme: Theme, qtbot: QtBot, qapp: QApplication
) -> None:
    """Qt draws it in the viewport's font, which a style sheet of the application keeps from following the field's."""
    before = qapp.styleSheet()
    qapp.setStyleSheet(make_stylesheet(theme))
    fields = [ComposerField(theme), PromptField(theme, "Prompt", height=60)]
    try:
        for field in fields:
            qtbot.addWidget(field)
            field.show()
        QApplication.processEvents()
        theme.set_percent(200)
        QApplication.processEvents()
        for field in fields:
            assert field.viewport().font().pixelSize() == field.font().pixelSize()
        assert fields[0].font() == theme.font("chat")
    finally:
        theme.set_percent(100)
        qapp.setStyleSheet(before)
