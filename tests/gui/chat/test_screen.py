"""The page as a person uses it: keys, buttons, drafts, what is said when something fails."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.core.chats import AnswerDelta, AnswerDone, ChatPatch, NewTurn, Sampling
from app.core.errors import ErrorBody
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import IconButton
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.gui.chat.chat_page import (
    CONTROL,
    ENTER,
    FOLLOW,
    SHIFT,
    find_button,
    list_panels,
    press_key,
    turn_for,
    type_text,
)
from tests.gui.conftest import QuietShell


def test_return_sends_and_shift_return_begins_a_line(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_text(chat_screen, "One")
    press_key(chat_screen, ENTER, SHIFT)
    type_text(chat_screen, "two")
    press_key(chat_screen, ENTER)
    api.flush()
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="a2", content="One\ntwo")]
    assert chat_screen.conversation_view.composer.text == ""


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_not_sent(chat_screen: ChatScreen, api: DemoApi, text: str) -> None:
    chat_screen.conversation_view.composer.set_text(text)
    press_key(chat_screen, ENTER)
    assert api.bodies_of("POST", "/chats/c1/turns") == []


def test_typing_goes_on_while_an_answer_is_written_and_escape_stops_it(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_text(chat_screen, "Hello")
    press_key(chat_screen, ENTER)
    api.flush()
    api.send_event(FOLLOW, AnswerDelta(content="Hel", offset=0))
    type_text(chat_screen, "next")
    press_key(chat_screen, ENTER)
    assert chat_screen.conversation_view.composer.text == "next"
    assert chat_screen.conversation_view.composer._button.accessibleName() == "Stop the answer"
    press_key(chat_screen, Qt.Key.Key_Escape)
    api.flush()
    assert len(api.bodies_of("POST", "/chats/c1/answers/a9/stop")) == 1
    api.send_event(FOLLOW, AnswerDone(message=long_chat.make_answer(9, "Hel", status="stopped")))
    assert chat_screen.conversation_view.composer._button.accessibleName() == "Send"


def test_a_draft_waits_in_its_chat(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_text(chat_screen, "half a thought")
    chat_screen.model.open_chat("c2")
    api.flush()
    assert chat_screen.conversation_view.composer.text == ""
    chat_screen.model.open_chat("c1")
    api.flush()
    assert chat_screen.conversation_view.composer.text == "half a thought"


def test_editing_puts_the_question_into_the_composer_and_escape_takes_it_out(chat_screen: ChatScreen) -> None:
    type_text(chat_screen, "draft")
    chat_screen.conversation_view.transcript.action_requested.emit("edit", "q1", "")
    assert chat_screen.conversation_view.composer.text.startswith("Why does the borrow checker")
    press_key(chat_screen, Qt.Key.Key_Escape)
    assert chat_screen.conversation_view.composer.text == "draft"
    assert chat_screen.model.conversation.editing is None


def test_a_refused_question_is_put_back_with_the_reason_and_a_button(chat_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["POST /chats/c1/turns"] = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.")
    type_text(chat_screen, "Hello")
    press_key(chat_screen, ENTER)
    api.flush()
    assert chat_screen.conversation_view.composer.text == "Hello"
    (panel,) = list_panels(chat_screen)
    assert panel.accessibleName() == "Problem: The disk is full."
    api.replies["POST /chats/c1/turns"] = turn_for
    find_button(panel, "Try again").click()
    api.flush()
    assert list_panels(chat_screen) == []
    assert chat_screen.conversation_view.composer.text == ""
    assert chat_screen.model.conversation.is_busy


def test_the_composer_grows_to_forty_per_cent_of_the_page(qtbot: QtBot, screen: ChatScreen) -> None:
    composer = screen.conversation_view.composer
    low = composer.height()
    composer.set_text("a\nb\nc\nd")
    qtbot.waitUntil(lambda: composer.height() > low)
    middle = composer.height()
    composer.set_text("line\n" * 200)
    qtbot.waitUntil(lambda: composer.height() > middle)
    assert composer.height() <= screen.conversation_view.height() * 0.4 + 60


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("tool", ["_sampling_tool", "_system_tool"])
def test_no_panel_outgrows_the_smallest_window_at_twice_the_size(
    chat_screen: ChatScreen, theme: Theme, tool: str
) -> None:
    theme.set_percent(200)
    chat_screen.resize(968, 640)
    QApplication.processEvents()
    getattr(chat_screen.conversation_view, tool).click()
    for _ in range(5):
        QApplication.processEvents()
    assert (chat_screen.width(), chat_screen.height()) == (968, 640)


def test_the_system_prompt_is_kept_with_the_chat(chat_screen: ChatScreen, api: DemoApi) -> None:
    chat_screen.conversation_view._system_tool.click()
    QTest.keyClicks(chat_screen.conversation_view._system.field, "Be brief.")
    chat_screen.conversation_view._system_tool.click()
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(system_prompt="Be brief.")]
    assert chat_screen.conversation_view._system_tool.isChecked()


def test_a_prompt_being_typed_stays_with_its_chat(chat_screen: ChatScreen, api: DemoApi, shell: Shell) -> None:
    chat_screen.conversation_view._system_tool.click()
    QTest.keyClicks(chat_screen.conversation_view._system.field, "Be brief.")
    shell.chat_requested.emit("")
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(system_prompt="Be brief.")]
    assert chat_screen.model.conversation.system_prompt == ""
    assert chat_screen.conversation_view._system.field.toPlainText() == ""


def test_a_sampling_choice_counts_once_it_makes_sense(chat_screen: ChatScreen, api: DemoApi) -> None:
    chat_screen.conversation_view._sampling_tool.click()
    fields = chat_screen.conversation_view._sampling._fields
    fields["temperature"].setText("hot")
    fields["temperature"].editingFinished.emit()
    assert fields["temperature"].property("wrong") is True
    fields["temperature"].setText("0,4")
    fields["top_k"].setText("40")
    fields["temperature"].editingFinished.emit()
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(sampling=Sampling(temperature=0.4, top_k=40))]


def test_commands_are_offered_to_the_palette(chat_screen: ChatScreen, shell: QuietShell) -> None:
    titles = [command.title for command in shell.commands()]
    assert titles == [
        "Regenerate answer",
        "Regenerate with another model…",
        "Edit the last answer",
        "Delete the last answer",
        "Fork: new chat from here",
        "Read the last answer aloud",
        "Copy the last answer",
        "Find in this chat",
        "Rename this chat",
        "Copy this chat",
        "When the context is full…",
        "Export this chat…",
        "Delete this chat",
        "Search chats",
        "New folder",
        "Tags of this chat…",
        "Show archived chats",
        "Show the trash",
        "Import chats…",
        "Import a folder of chats…",
        "Export all chats…",
        "Choose a model for this chat",
        "Attach files",
        "Dictate",
        "System prompt",
        "Compare models",
        "Sampling",
        "Presets",
        "Show or hide the list of chats",
    ]


def test_a_chat_asked_for_elsewhere_begins_here(screen: ChatScreen, shell: Shell) -> None:
    shell.chat_requested.emit("guide")
    assert screen.model.model == "guide"
    assert screen.model.conversation.is_new


def test_no_plain_qt_button_is_on_the_page(screen: ChatScreen) -> None:
    assert screen.findChildren(QPushButton) == []


def test_a_larger_theme_reaches_everything(chat_screen: ChatScreen, theme: Theme) -> None:
    before = chat_screen.conversation_view.transcript.document.height
    theme.set_percent(200)
    QApplication.processEvents()
    assert chat_screen.conversation_view.transcript.document.height > 1.5 * before
    assert chat_screen.conversation_view.composer.field.font().pixelSize() == 30


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", ["System prompt", "Sampling"])
def test_escape_closes_what_is_open_above_the_composer(chat_screen: ChatScreen, name: str) -> None:
    tool = next(child for child in chat_screen.findChildren(IconButton) if child.accessibleName() == name)
    tool.click()
    panel = (
        chat_screen.conversation_view._system if name == "System prompt" else chat_screen.conversation_view._sampling
    )
    assert panel.isVisible()
    assert panel.field.hasFocus()
    QTest.keyClick(panel.field, Qt.Key.Key_Escape)
    assert not panel.isVisible()
    assert chat_screen.conversation_view.composer.field.hasFocus()


def test_a_wrong_sampling_value_is_said_in_words(chat_screen: ChatScreen) -> None:
    chat_screen.conversation_view.toggle_sampling()
    panel = chat_screen.conversation_view._sampling
    QTest.keyClicks(panel.field, "9")
    QTest.keyClick(panel.field, Qt.Key.Key_Tab)
    assert panel.quiet.text() == "Temperature takes a number from 0 to 5."
    panel.field.setText("1")
    panel.field.editingFinished.emit()
    assert panel.quiet.text() == "Leave a field empty to use the model's own value."


def test_typing_after_a_click_into_the_conversation_goes_into_the_composer(chat_screen: ChatScreen) -> None:
    transcript = chat_screen.conversation_view.transcript
    QTest.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(300, 200))
    transcript.setFocus()
    QTest.keyClicks(transcript, "H")
    field = chat_screen.conversation_view.composer.field
    assert (field.toPlainText(), field.hasFocus()) == ("H", True)
    transcript.setFocus()
    QTest.keyClick(transcript, Qt.Key.Key_B, CONTROL)
    assert field.toPlainText() == "H", "a shortcut is no letter"
    QApplication.clipboard().setText("ello")
    QTest.keyClick(transcript, Qt.Key.Key_V, CONTROL)
    assert field.toPlainText() == "Hello"


def test_an_answer_without_a_word_is_said_to_be_one(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_text(chat_screen, "Hello")
    press_key(chat_screen, ENTER)
    api.flush()
    api.send_event(FOLLOW, AnswerDone(message=long_chat.make_answer(9, "")))
    (trouble,) = [view.trouble for view in chat_screen.model.conversation.list_turns() if view.trouble]
    assert trouble.sentence == "The model wrote nothing."


def test_alt_up_leads_from_the_composer_to_the_last_message_and_its_actions(chat_screen: ChatScreen) -> None:
    field, transcript = chat_screen.conversation_view.composer.field, chat_screen.conversation_view.transcript
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert transcript.hasFocus()
    assert transcript.current == len(transcript.document.turns) - 1
    chat_screen.model.new_chat()
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert field.hasFocus(), "an empty chat has no message to go to"
