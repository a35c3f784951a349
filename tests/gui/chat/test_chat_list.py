"""The list of chats beside the conversation: opened with keys, searched, renamed, deleted and brought back."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch, ChatShelf, ChatSummary, NewChat
from app.gui.screens.chat.view import ChatScreen
from app.gui.theme.theme import Theme
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.gui.chat.chat_page import CONTROL, ENTER, press_key, type_text
from tests.gui.conftest import QuietShell


def test_the_first_question_opens_the_chat_in_the_list(screen: ChatScreen, api: DemoApi) -> None:
    screen.model.new_chat("guide")
    screen._choose_model("guide")
    type_text(screen, "Hello")
    press_key(screen, ENTER)
    api.flush()
    assert api.bodies_of("POST", "/chats") == [NewChat(model="guide")]
    assert screen.pane.list_view.currentIndex().data() == "Rust borrow checker and temporaries"


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


@pytest.mark.slow
def test_delete_in_the_list_can_be_undone(chat_screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
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


@pytest.mark.slow
def test_undo_of_a_deletion_opens_the_chat_again(chat_screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    chat = chat_screen.model.conversation.id
    chat_screen.model.delete_chat(chat)
    api.flush()
    assert chat_screen.model.conversation.is_new
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert chat_screen.model.conversation.id == chat


@pytest.mark.slow
def test_a_chat_in_the_trash_is_not_opened(chat_screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    chat_screen.model.chat_list.show_shelf(ChatShelf.TRASH)
    api.flush()
    chat_screen.pane.list_view.chat_requested.emit("c2")
    assert "Restore the chat" in shell.messages[-1]
    assert chat_screen.model.conversation.id == "c1"
    assert chat_screen.pane.back.isVisible() or not chat_screen.isVisible()
    chat_screen.pane.back.click()
    assert chat_screen.model.chat_list.shelf is ChatShelf.CURRENT


def test_the_list_names_no_chat_when_a_search_finds_none(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /chats"] = []
    screen.model.chat_list.query = "nothing"
    screen.model.chat_list.fetch_chats()
    api.flush()
    assert screen.pane._nothing.text() == "No chats match your search."
    assert screen.pane._nothing.isVisible()


def test_a_title_that_arrives_later_shows_in_the_list(chat_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["GET /chats"] = [replace(chat, title="A better title") for chat in long_chat.make_summaries()[:1]]
    chat_screen.model.chat_list.fetch_chats()
    api.flush()
    assert chat_screen.pane.list_view.currentIndex().data() == "A better title"


def test_down_from_the_search_is_on_a_chat_at_once(screen: ChatScreen, api: DemoApi) -> None:
    QTest.keyClick(screen.pane.search, Qt.Key.Key_Down)
    listing = screen.pane.list_view
    assert listing.currentIndex().row() == 1
    QTest.keyClick(listing, Qt.Key.Key_Down)
    screen.pane.show_state("")
    assert listing.currentIndex().row() == 2, "a list that is read again leaves the keyboard where it is"
    QTest.keyClick(listing, ENTER)
    assert screen.model.conversation.id == "c2"


def test_after_a_deletion_the_keyboard_is_on_the_next_chat(screen: ChatScreen, api: DemoApi) -> None:
    api.replies["DELETE /chats/c2"] = None
    listing = screen.pane.list_view
    QTest.keyClick(screen.pane.search, Qt.Key.Key_Down)
    QTest.keyClick(listing, Qt.Key.Key_Down)
    QTest.keyClick(listing, Qt.Key.Key_Delete)
    assert screen.model.chat_list.find_chat("c2") is None
    chosen_row = listing._row_at(listing.currentIndex())
    assert isinstance(chosen_row, ChatSummary)
    assert chosen_row.id == "c3"


def test_no_chat_is_marked_while_a_new_chat_shows(chat_screen: ChatScreen, api: DemoApi) -> None:
    listing = chat_screen.pane.list_view
    assert listing.selectionModel().hasSelection()
    chat_screen.model.new_chat()
    api.flush()
    assert not listing.selectionModel().hasSelection()
    assert not listing.currentIndex().isValid()
