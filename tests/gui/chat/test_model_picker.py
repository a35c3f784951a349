"""Who answers: the picker, the chip and the empty page, and models that failed, are gone or were dropped here."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.chats import NewChat, NewTurn
from app.core.errors import ErrorBody
from app.core.events import EngineChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.model_picker import ModelLine, quiet_words
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId, Shell, Task
from app.gui.theme.theme import Theme
from tests.demo import data, long_chat
from tests.demo.api import DemoApi
from tests.gui.chat.chat_page import ENTER, find_button, list_panels, press_key, type_text
from tests.gui.conftest import QuietShell

REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.")


def test_a_model_that_failed_says_so_above_the_composer_and_can_be_loaded_again(
    screen: ChatScreen, api: DemoApi, shell: Shell
) -> None:
    shell.event_received.emit(EngineChanged(status=data.FAILED))
    screen.model.new_chat(data.FAILED.model)
    (panel,) = list_panels(screen)
    find_button(panel, "Load again").click()
    api.flush()
    assert [body for verb, path, body in api.calls if (verb, path) == ("POST", "/load")]
    assert data.FAILED.failure is not None
    assert data.FAILED.failure.sentence in panel.accessibleName()


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
    focus_widget = QApplication.focusWidget()
    assert isinstance(focus_widget, ModelLine)
    QTest.keyClick(focus_widget, ENTER)
    assert screen.model.conversation.model == focus_widget.info.name
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


def test_without_a_model_the_page_leads_to_the_models(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /models"] = []
    screen.model.library.read()
    api.flush()
    find_button(screen.conversation_view.empty, "Add a model").click()
    assert shell.pages == [PageId.MODELS]


def drop(screen: ChatScreen, file: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(file))])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    screen.dropEvent(event)


@pytest.mark.slow
def test_a_dropped_model_is_offered_and_run(screen: ChatScreen, api: DemoApi, tmp_path: Path) -> None:
    api.replies["POST /models"] = data.MODELS[1]
    drop(screen, tmp_path / "notes.txt")
    assert not screen.conversation_view._offer.isVisible()
    drop(screen, tmp_path / "new.GGUF")
    assert api.bodies_of("POST", "/models") == []
    find_button(screen.conversation_view._offer, "Run it").click()
    api.flush()
    assert len(api.bodies_of("POST", "/models")) == 1
    assert screen.model.conversation.model == data.MODELS[1].name


@pytest.mark.slow
def test_the_picker_begins_at_the_chosen_model(screen: ChatScreen) -> None:
    names = [info.name for info in screen.model.chat_models() if not info.problem]
    screen._choose_model(names[-1])
    screen.header.chip.click()
    focus_widget = QApplication.focusWidget()
    assert isinstance(focus_widget, ModelLine)
    assert focus_widget.info.name == names[-1]


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


@pytest.mark.slow
def test_a_search_does_not_change_who_answers(screen: ChatScreen, api: DemoApi) -> None:
    before = screen.model.model, screen.conversation_view.empty._title.text()
    api.replies["GET /chats"] = []
    screen.model.chat_list.query = "zebra"
    screen.model.chat_list.fetch_chats()
    api.flush()
    assert (screen.model.model, screen.conversation_view.empty._title.text()) == before


@pytest.mark.slow
def test_the_empty_page_and_the_chip_name_the_same_model(screen: ChatScreen, api: DemoApi) -> None:
    other = replace(long_chat.make_summaries()[0], model="gpt-oss-20b-mxfp4")
    api.replies["GET /chats"] = [other]
    screen.model.chat_list.fetch_chats()
    api.flush()
    assert screen.conversation_view.empty._title.text() == "Ask gpt-oss 20B"
    assert screen.header.chip.accessibleName().startswith("Model: gpt-oss 20B")


@pytest.mark.slow
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
        find_button(screen.conversation_view.empty, "Add a model").click()
    assert task.args == [Task.DISCOVER]


@pytest.mark.slow
def test_a_model_that_is_gone_offers_the_others_and_no_command(chat_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["POST /chats/c1/turns"] = ErrorBody(
        code="model_not_found",
        sentence="There is no model qwen3.",
        hint="Did you mean qwen3-8b? To let another model answer: `roundhouse alias qwen3 MODEL`.",
    )
    type_text(chat_screen, "Hello")
    press_key(chat_screen, ENTER)
    api.flush()
    (panel,) = list_panels(chat_screen)
    assert panel._hint.text() == "Did you mean qwen3-8b?"
    find_button(panel, "Choose a model").click()
    assert chat_screen.picker.isVisible()
