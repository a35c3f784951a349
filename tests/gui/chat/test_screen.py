"""The page as a person uses it: keys, buttons, drafts, what is said when something fails."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.core.chats import AnswerDelta, AnswerDone, ChatPatch, ChatShelf, ChatSummary, NewChat, NewTurn, Sampling, Turn
from app.core.errors import ErrorBody
from app.core.events import EngineChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.model_picker import ModelLine, quiet_words
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Command, PageId, Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, IconButton
from app.gui.widgets.panels import ErrorPanel
from tests.demo import data, long_chat
from tests.demo.api import DemoApi


class Quiet(Protocol):
    """The shell of these tests: it keeps what it was asked."""

    messages: list[str]
    undos: list[Callable[[], object] | None]
    pages: list[PageId]

    def commands(self) -> list[Command]: ...


REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.")
FOLLOW = "/chats/c1/answers/a9?offset=0"
ENTER, SHIFT, CONTROL = Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier


def turn_for(body: object) -> Turn:
    assert isinstance(body, NewTurn)
    question = long_chat.replace_fields(long_chat.make_question(9, body.content or "", body.parent))
    return Turn(question=question, answer=long_chat.make_answer(9, "", timings=None, status="generating"))


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


def type_(screen: ChatScreen, text: str) -> None:
    QTest.keyClicks(screen.conversation_view.composer.field, text)


def key(screen: ChatScreen, code: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(screen.conversation_view.composer.field, code, modifier)


def panels(screen: ChatScreen) -> list[ErrorPanel]:
    return [panel for panel in screen.findChildren(ErrorPanel) if panel.isVisible()]


def button(parent: QWidget, words: str) -> Button:
    return next(child for child in parent.findChildren(Button) if child.text() == words and child.isVisible())


def test_return_sends_and_shift_return_begins_a_line(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_(chat_screen, "One")
    key(chat_screen, ENTER, SHIFT)
    type_(chat_screen, "two")
    key(chat_screen, ENTER)
    api.flush()
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent="a2", content="One\ntwo")]
    assert chat_screen.conversation_view.composer.text == ""


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_not_sent(chat_screen: ChatScreen, api: DemoApi, text: str) -> None:
    chat_screen.conversation_view.composer.set_text(text)
    key(chat_screen, ENTER)
    assert api.bodies_of("POST", "/chats/c1/turns") == []


def test_typing_goes_on_while_an_answer_is_written_and_escape_stops_it(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_(chat_screen, "Hello")
    key(chat_screen, ENTER)
    api.flush()
    api.send_event(FOLLOW, AnswerDelta(content="Hel", offset=0))
    type_(chat_screen, "next")
    key(chat_screen, ENTER)
    assert chat_screen.conversation_view.composer.text == "next"
    assert chat_screen.conversation_view.composer._button.accessibleName() == "Stop the answer"
    key(chat_screen, Qt.Key.Key_Escape)
    api.flush()
    assert len(api.bodies_of("POST", "/chats/c1/answers/a9/stop")) == 1
    api.send_event(FOLLOW, AnswerDone(message=long_chat.make_answer(9, "Hel", status="stopped")))
    assert chat_screen.conversation_view.composer._button.accessibleName() == "Send"


def test_the_first_question_opens_the_chat_in_the_list(screen: ChatScreen, api: DemoApi) -> None:
    screen.model.new_chat("guide")
    screen._choose_model("guide")
    type_(screen, "Hello")
    key(screen, ENTER)
    api.flush()
    assert api.bodies_of("POST", "/chats") == [NewChat(model="guide")]
    assert screen.pane.list_view.currentIndex().data() == "Rust borrow checker and temporaries"


def test_a_draft_waits_in_its_chat(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_(chat_screen, "half a thought")
    chat_screen.model.open_chat("c2")
    api.flush()
    assert chat_screen.conversation_view.composer.text == ""
    chat_screen.model.open_chat("c1")
    api.flush()
    assert chat_screen.conversation_view.composer.text == "half a thought"


def test_editing_puts_the_question_into_the_composer_and_escape_takes_it_out(chat_screen: ChatScreen) -> None:
    type_(chat_screen, "draft")
    chat_screen.conversation_view.transcript.action_requested.emit("edit", "q1", "")
    assert chat_screen.conversation_view.composer.text.startswith("Why does the borrow checker")
    key(chat_screen, Qt.Key.Key_Escape)
    assert chat_screen.conversation_view.composer.text == "draft"
    assert chat_screen.model.conversation.editing is None


def test_a_refused_question_is_put_back_with_the_reason_and_a_button(chat_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["POST /chats/c1/turns"] = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.")
    type_(chat_screen, "Hello")
    key(chat_screen, ENTER)
    api.flush()
    assert chat_screen.conversation_view.composer.text == "Hello"
    (panel,) = panels(chat_screen)
    assert panel.accessibleName() == "Problem: The disk is full."
    api.replies["POST /chats/c1/turns"] = turn_for
    button(panel, "Try again").click()
    api.flush()
    assert panels(chat_screen) == []
    assert chat_screen.conversation_view.composer.text == ""
    assert chat_screen.model.conversation.is_busy


def test_a_model_that_failed_says_so_above_the_composer_and_can_be_loaded_again(
    screen: ChatScreen, api: DemoApi, shell: Shell
) -> None:
    shell.event_received.emit(EngineChanged(status=data.FAILED))
    screen.model.new_chat(data.FAILED.model)
    (panel,) = panels(screen)
    button(panel, "Load again").click()
    api.flush()
    assert [body for verb, path, body in api.calls if (verb, path) == ("POST", "/load")]
    assert data.FAILED.failure is not None
    assert data.FAILED.failure.sentence in panel.accessibleName()


def test_the_composer_grows_to_forty_per_cent_of_the_page(qtbot: QtBot, screen: ChatScreen) -> None:
    composer = screen.conversation_view.composer
    low = composer.height()
    composer.set_text("a\nb\nc\nd")
    qtbot.waitUntil(lambda: composer.height() > low)
    middle = composer.height()
    composer.set_text("line\n" * 200)
    qtbot.waitUntil(lambda: composer.height() > middle)
    assert composer.height() <= screen.conversation_view.height() * 0.4 + 60


def test_the_search_is_a_key_away(screen: ChatScreen) -> None:
    QTest.keyClick(screen, Qt.Key.Key_F, CONTROL)
    assert screen.pane.search.hasFocus()
    QTest.keyClicks(screen.pane.search, "borrow")
    assert screen.model.chat_list.query == "borrow"
    QTest.keyClick(screen.pane.search, Qt.Key.Key_Escape)
    assert screen.model.chat_list.query == ""


def test_the_list_makes_room_in_a_narrow_window_and_comes_when_asked_for(screen: ChatScreen, theme: Theme) -> None:
    theme.set_percent(200)
    screen.resize(960, 640)
    QApplication.processEvents()
    assert not screen.pane.isVisible()
    assert screen.width() == 960
    QTest.keyClick(screen, Qt.Key.Key_F, CONTROL)
    assert screen.pane.isVisible()
    screen.header.fold.click()
    assert not screen.pane.isVisible()


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


def test_f2_renames_the_open_chat(qtbot: QtBot, chat_screen: ChatScreen, api: DemoApi) -> None:
    QTest.keyClick(chat_screen, Qt.Key.Key_F2)
    editor = QApplication.focusWidget()
    assert editor is not None
    assert editor.accessibleName() == "Title of the chat"
    QTest.keyClick(editor, Qt.Key.Key_A, CONTROL)
    QTest.keyClicks(editor, "Lifetimes")
    QTest.keyClick(editor, ENTER)
    qtbot.waitUntil(lambda: api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(title="Lifetimes")])
    assert chat_screen.model.conversation.id == "c1"


def test_delete_in_the_list_can_be_undone(chat_screen: ChatScreen, api: DemoApi, shell: Quiet) -> None:
    chat_screen.pane.list_view.setFocus()
    QTest.keyClick(chat_screen.pane.list_view, Qt.Key.Key_Delete)
    api.flush()
    assert chat_screen.model.conversation.is_new
    assert shell.messages == ["“Rust borrow checker and temporaries” was deleted."]
    assert shell.undos[0] is not None
    shell.undos[0]()
    api.flush()
    assert api.bodies_of("POST", "/chats/c1/restore") == [None]


def test_a_chat_is_opened_with_the_keys(screen: ChatScreen, api: DemoApi) -> None:
    screen.pane.list_view.setFocus()
    listing = screen.pane.list_view
    listing.setCurrentIndex(listing._rows.row_of("c1"))
    QApplication.processEvents()
    QTest.keyClick(listing, Qt.Key.Key_Down)
    assert listing.currentIndex().row() == 2
    QTest.keyClick(listing, ENTER)
    api.flush()
    assert screen.model.conversation.id == "c2"


def test_the_picker_shows_every_model_and_escape_leaves_it(screen: ChatScreen) -> None:
    screen.header.chip.click()
    lines = [line for line in screen.picker.findChildren(ModelLine) if line.isVisible()]
    assert [line.info.name for line in lines] == [info.name for info in screen.model.chat_models()]
    names = {line.info.name: line.accessibleName() for line in lines}
    assert names["gpt-oss-20b-mxfp4"] == "gpt-oss 20B, MXFP4 · 11.3 GiB · Reading weights 63 %"
    assert names["guide"] == "Guide, built-in tiny help model · 11.0 MiB"
    assert not next(line for line in lines if line.info.problem).isEnabled()
    QTest.keyClick(lines[0], Qt.Key.Key_Escape)
    assert not screen.picker.isVisible()


def test_a_model_is_chosen_with_the_keys(screen: ChatScreen) -> None:
    screen.header.chip.click()
    focused = QApplication.focusWidget()
    assert isinstance(focused, ModelLine)
    QTest.keyClick(focused, ENTER)
    assert screen.model.conversation.model == focused.info.name
    assert not screen.picker.isVisible()


def test_pressing_elsewhere_closes_the_picker(screen: ChatScreen) -> None:
    screen.header.chip.click()
    QTest.mouseClick(screen.conversation_view, Qt.MouseButton.LeftButton, pos=QPoint(600, 300))
    assert not screen.picker.isVisible()


def test_a_suggestion_asks_the_guide(screen: ChatScreen, api: DemoApi) -> None:
    screen.conversation_view.empty.question_chosen.emit("What do Q4 and Q8 mean?")
    api.flush()
    assert api.bodies_of("POST", "/chats") == [NewChat(model="guide")]
    assert api.bodies_of("POST", "/chats/c1/turns") == [NewTurn(parent=None, content="What do Q4 and Q8 mean?")]


def test_without_a_model_the_page_leads_to_the_models(screen: ChatScreen, api: DemoApi, shell: Quiet) -> None:
    api.replies["GET /models"] = []
    screen.model.library.read()
    api.flush()
    button(screen.conversation_view.empty, "Add a model").click()
    assert shell.pages == [PageId.MODELS]


def drop(screen: ChatScreen, file: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(file))])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    screen.dropEvent(event)


def test_a_dropped_model_is_offered_and_run(screen: ChatScreen, api: DemoApi, tmp_path: Path) -> None:
    api.replies["POST /models"] = data.MODELS[1]
    drop(screen, tmp_path / "notes.txt")
    assert not screen.conversation_view._offer.isVisible()
    drop(screen, tmp_path / "new.GGUF")
    assert api.bodies_of("POST", "/models") == []
    button(screen.conversation_view._offer, "Run it").click()
    api.flush()
    assert len(api.bodies_of("POST", "/models")) == 1
    assert screen.model.conversation.model == data.MODELS[1].name


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


def test_undo_of_a_deletion_opens_the_chat_again(chat_screen: ChatScreen, api: DemoApi, shell: Quiet) -> None:
    chat = chat_screen.model.conversation.id
    chat_screen.model.delete_chat(chat)
    api.flush()
    assert chat_screen.model.conversation.is_new
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert chat_screen.model.conversation.id == chat


def test_a_chat_in_the_trash_is_not_opened(chat_screen: ChatScreen, api: DemoApi, shell: Quiet) -> None:
    chat_screen.model.chat_list.show_shelf(ChatShelf.TRASH)
    api.flush()
    chat_screen.pane.list_view.chat_requested.emit("c2")
    assert "Restore the chat" in shell.messages[-1]
    assert chat_screen.model.conversation.id == "c1"
    assert chat_screen.pane.back.isVisible() or not chat_screen.isVisible()
    chat_screen.pane.back.click()
    assert chat_screen.model.chat_list.shelf is ChatShelf.CURRENT


def test_commands_are_offered_to_the_palette(chat_screen: ChatScreen, shell: Quiet) -> None:
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


def test_the_list_names_no_chat_when_a_search_finds_none(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /chats"] = []
    screen.model.chat_list.query = "nothing"
    screen.model.chat_list.fetch_chats()
    api.flush()
    assert screen.pane._nothing.text() == "No chats match your search."
    assert screen.pane._nothing.isVisible()


def test_no_plain_qt_button_is_on_the_page(screen: ChatScreen) -> None:
    assert screen.findChildren(QPushButton) == []


def test_a_larger_theme_reaches_everything(chat_screen: ChatScreen, theme: Theme) -> None:
    before = chat_screen.conversation_view.transcript.document.height
    theme.set_percent(200)
    QApplication.processEvents()
    assert chat_screen.conversation_view.transcript.document.height > 1.5 * before
    assert chat_screen.conversation_view.composer.field.font().pixelSize() == 30


def test_a_title_that_arrives_later_shows_in_the_list(chat_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /chats"] = [replace(chat, title="A better title") for chat in long_chat.make_summaries()[:1]]
    chat_screen.model.chat_list.fetch_chats()
    api.flush()
    assert chat_screen.pane.list_view.currentIndex().data() == "A better title"


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


def test_down_from_the_search_is_on_a_chat_at_once(screen: ChatScreen, api: DemoApi) -> None:
    QTest.keyClick(screen.pane.search, Qt.Key.Key_Down)
    listing = screen.pane.list_view
    assert listing.currentIndex().row() == 1
    QTest.keyClick(listing, Qt.Key.Key_Down)
    screen.pane.show_state("")
    assert listing.currentIndex().row() == 2, "a list that is read again leaves the keyboard where it is"
    QTest.keyClick(listing, ENTER)
    assert screen.model.conversation.id == "c2"


def test_the_picker_begins_at_the_chosen_model(screen: ChatScreen) -> None:
    names = [info.name for info in screen.model.chat_models() if not info.problem]
    screen._choose_model(names[-1])
    screen.header.chip.click()
    focused = QApplication.focusWidget()
    assert isinstance(focused, ModelLine)
    assert focused.info.name == names[-1]


def test_until_the_models_are_read_their_place_is_held(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> None:
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    empty = screen.conversation_view.empty
    assert empty._skeleton.isVisible()
    assert not empty._title.isVisible()
    assert screen.model.make_chip(0.0).words == "Reading the models…"
    api.replies["GET /models"] = REFUSED
    api.flush()
    assert not empty._skeleton.isVisible()
    assert REFUSED.sentence in empty._quiet.text()
    api.replies["GET /models"] = [data.MODELS[0]]
    screen.model.library.read()
    api.flush()
    assert not empty._skeleton.isVisible()
    assert empty._title.isVisible()


def test_a_search_does_not_change_who_answers(screen: ChatScreen, api: DemoApi) -> None:
    before = screen.model.model, screen.conversation_view.empty._title.text()
    api.replies["GET /chats"] = []
    screen.model.chat_list.query = "zebra"
    screen.model.chat_list.fetch_chats()
    api.flush()
    assert (screen.model.model, screen.conversation_view.empty._title.text()) == before


def test_the_empty_page_and_the_chip_name_the_same_model(screen: ChatScreen, api: DemoApi) -> None:
    other = replace(long_chat.make_summaries()[0], model="gpt-oss-20b-mxfp4")
    api.replies["GET /chats"] = [other]
    screen.model.chat_list.fetch_chats()
    api.flush()
    assert screen.conversation_view.empty._title.text() == "Ask gpt-oss 20B"
    assert screen.header.chip.accessibleName().startswith("Model: gpt-oss 20B")


def test_after_a_deletion_the_keyboard_is_on_the_next_chat(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["DELETE /chats/c2"] = None
    listing = screen.pane.list_view
    QTest.keyClick(screen.pane.search, Qt.Key.Key_Down)
    QTest.keyClick(listing, Qt.Key.Key_Down)
    QTest.keyClick(listing, Qt.Key.Key_Delete)
    assert screen.model.chat_list.find_chat("c2") is None
    chosen = listing._row_at(listing.currentIndex())
    assert isinstance(chosen, ChatSummary)
    assert chosen.id == "c3"


def test_where_an_attached_model_runs_is_said_before_anything_is_sent(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /models"] = [*data.MODELS, replace(data.FAR_MODEL, attached="http://ada:secret@box:8000/v1")]
    screen.model.library.read()
    api.flush()
    screen.model.new_chat(data.FAR_MODEL.name)
    words = screen.conversation_view.empty._quiet.text()
    assert words.startswith("It runs at box:8000: what you write to it is sent there.")
    screen.model.new_chat(long_chat.MODEL)
    assert screen.conversation_view.empty._quiet.text().startswith("It runs on this computer")


def test_no_size_is_made_up_for_an_attached_model() -> None:
    assert quiet_words(data.FAR_MODEL, None) == "attached: box:8000"


def test_add_a_model_shows_what_there_is_to_add(screen: ChatScreen, shell: Shell, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["GET /models"] = data.MODELS[:1]
    screen.model.library.read()
    api.flush()
    with qtbot.waitSignal(shell.task_requested) as task:
        button(screen.conversation_view.empty, "Add a model").click()
    assert task.args == [Task.DISCOVER]


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


def test_a_model_that_is_gone_offers_the_others_and_no_command(chat_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["POST /chats/c1/turns"] = ErrorBody(
        code="model_not_found",
        sentence="There is no model qwen3.",
        hint="Did you mean qwen3-8b? To let another model answer: `roundhouse alias qwen3 MODEL`.",
    )
    type_(chat_screen, "Hello")
    key(chat_screen, ENTER)
    api.flush()
    (panel,) = panels(chat_screen)
    assert panel._hint.text() == "Did you mean qwen3-8b?"
    button(panel, "Choose a model").click()
    assert chat_screen.picker.isVisible()


def test_an_answer_without_a_word_is_said_to_be_one(chat_screen: ChatScreen, api: DemoApi) -> None:
    type_(chat_screen, "Hello")
    key(chat_screen, ENTER)
    api.flush()
    api.send_event(FOLLOW, AnswerDone(message=long_chat.make_answer(9, "")))
    (trouble,) = [view.trouble for view in chat_screen.model.conversation.list_turns() if view.trouble]
    assert trouble.sentence == "The model wrote nothing."


def test_no_chat_is_marked_while_a_new_chat_shows(chat_screen: ChatScreen, api: DemoApi) -> None:
    listing = chat_screen.pane.list_view
    assert listing.selectionModel().hasSelection()
    chat_screen.model.new_chat()
    api.flush()
    assert not listing.selectionModel().hasSelection()
    assert not listing.currentIndex().isValid()


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
