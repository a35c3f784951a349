"""Folders and tags in the window: the tree, what a new chat gets, moving with menu and mouse, the card, deletion."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.chats import Chat, ChatFolderPatch, ChatPatch, ChatShelf, NewChat, NewChatFolder, NewTurn
from app.core.events import ChatFoldersChanged
from app.gui.screens.chat.chat_folders import PAGE
from app.gui.screens.chat.chat_rows import CHAT_TYPE, FolderRow, MoreRow, id_of
from app.gui.screens.chat.folder_panels import folder_words
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.widgets.question import QuestionDialog
from tests.demo import folders, long_chat
from tests.demo.api import DemoApi


@pytest.fixture
def folder_screen(screen: ChatScreen, api: DemoApi) -> ChatScreen:
    api.replies |= folders.folder_replies()
    screen.model.chat_list.folders.store.read()
    screen.model.chat_list.folders.tags.read()
    api.flush()
    return screen


def ids(screen: ChatScreen) -> list[str]:
    return [id_of(row) for row in screen.pane.list_view._rows.rows if id_of(row)]


def choose(screen: ChatScreen, row: str) -> None:
    view = screen.pane.list_view
    view.setFocus()
    view.setCurrentIndex(view._rows.row_of(row))


def press(screen: ChatScreen, api: DemoApi, key: Qt.Key) -> None:
    QTest.keyClick(screen.pane.list_view, key)
    api.flush()


def test_folders_stand_above_the_chats_that_are_in_none(folder_screen: ChatScreen, api: DemoApi) -> None:
    assert ids(folder_screen)[:3] == ["f1", "f2", "f3"]
    assert f"/chats?limit={PAGE}&query=&folder=" in {path for _, path, _ in api.calls}
    folder_screen.model.chat_list.show_shelf(ChatShelf.ARCHIVED)
    api.flush()
    assert "f1" not in ids(folder_screen)


def test_a_folder_opens_and_closes_from_the_keyboard(folder_screen: ChatScreen, api: DemoApi) -> None:
    choose(folder_screen, "f1")
    press(folder_screen, api, Qt.Key.Key_Right)
    assert ids(folder_screen)[:4] == ["f1", "c1", "c2", "f2"]
    press(folder_screen, api, Qt.Key.Key_Right)
    assert ids(folder_screen)[:2] == ["f1", "c1"]
    press(folder_screen, api, Qt.Key.Key_Left)
    assert ids(folder_screen)[:2] == ["f1", "f2"]
    press(folder_screen, api, Qt.Key.Key_Space)
    press(folder_screen, api, Qt.Key.Key_Return)
    assert ids(folder_screen)[:2] == ["f1", "f2"]


@pytest.mark.slow
def test_a_large_folder_shows_more_when_asked(folder_screen: ChatScreen, api: DemoApi) -> None:
    first = [replace(long_chat.make_summaries()[0], id=f"x{number}", folder="f1") for number in range(PAGE)]
    api.replies[f"GET /chats?limit={PAGE}&folder=f1"] = first
    before = first[-1].updated_at
    api.replies[f"GET /chats?limit={PAGE}&folder=f1&before={before!r}"] = [replace(first[0], id="last")]
    choose(folder_screen, "f1")
    press(folder_screen, api, Qt.Key.Key_Right)
    view = folder_screen.pane.list_view
    row = next(at for at, item in enumerate(view._rows.rows) if isinstance(item, MoreRow))
    view.setCurrentIndex(view._rows.index(row))
    press(folder_screen, api, Qt.Key.Key_Return)
    assert "last" in ids(folder_screen)
    assert not any(isinstance(item, MoreRow) for item in view._rows.rows)


@pytest.mark.slow
def test_a_screen_reader_hears_what_a_folder_is(folder_screen: ChatScreen) -> None:
    rows = folder_screen.pane.list_view._rows
    index = rows.row_of("f1")
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Engine sheds"
    assert index.data(Qt.ItemDataRole.AccessibleDescriptionRole) == "closed folder, 2 chats"
    tagged_row = next(row for row in rows.rows if getattr(row, "tags", None))
    description = rows.row_of(id_of(tagged_row)).data(Qt.ItemDataRole.AccessibleDescriptionRole)
    assert description == "#boilers #1911"


@pytest.mark.slow
def test_a_new_chat_gets_what_its_folder_has_and_says_so(folder_screen: ChatScreen, api: DemoApi) -> None:
    view = folder_screen.pane.list_view
    view.folder_chat_requested.emit("f1")
    conversation, sheds = folder_screen.model.conversation, folders.SHEDS
    assert (conversation.folder, conversation.system_prompt) == ("f1", sheds.system_prompt)
    assert [file.name for file in folder_screen.model.files.items] == [file.name for file in sheds.files]
    words = "In “Engine sheds”, with its model, its system prompt and 2 of its files"
    assert folder_words(folder_screen.model) == words
    assert folder_screen.conversation_view.folder_line.accessibleName() == words
    folder_screen.model.files.remove(folder_screen.model.files.items[0])
    assert "1 of its files" in folder_words(folder_screen.model)
    new_chat = Chat(
        **{**{name: getattr(long_chat.make_sample_chat(), name) for name in Chat.__struct_fields__}, "folder": "f1"}
    )
    api.replies["POST /chats"] = new_chat
    folder_screen.model.send_question("Why?")
    api.flush()
    new = NewChat(model=long_chat.MODEL, system_prompt=sheds.system_prompt, folder="f1")
    assert api.bodies_of("POST", "/chats") == [new]
    turn = NewTurn(content="Why?", attachments=[sheds.files[1].id], has_folder_files=True)
    assert api.bodies_of("POST", f"/chats/{new_chat.id}/turns") == [turn]


@pytest.mark.slow
def test_a_new_chat_outside_lets_go_of_what_the_folder_gave(folder_screen: ChatScreen, api: DemoApi) -> None:
    folder_screen.model.new_chat(folder="f1")
    folder_screen.model.new_chat()
    api.flush()
    assert (folder_screen.model.conversation.folder, folder_screen.model.conversation.system_prompt) == ("", "")
    assert folder_screen.model.files.items == []
    assert not [path for verb, path, _ in api.calls if verb == "DELETE"]


def test_a_chat_is_moved_by_menu_and_by_mouse_with_undo(folder_screen: ChatScreen, api: DemoApi) -> None:
    undos: list[object] = []
    folder_screen.model.chat_list.toast_requested.connect(lambda _, undo: undos.append(undo))
    api.replies["PATCH /chats/c3"] = long_chat.make_sample_chat()
    data = QMimeData()
    data.setData(CHAT_TYPE, b"c3")
    view = folder_screen.pane.list_view
    index = view._rows.row_of("c3")
    assert bytes(view._rows.mimeData([index]).data(CHAT_TYPE).data()) == b"c3"
    view.move_dropped(data, view._folder_at(view.visualRect(view._rows.row_of("f2")).center()))
    assert "c3" not in ids(folder_screen)
    assert api.bodies_of("PATCH", "/chats/c3") == [ChatPatch(folder="f2")]
    assert callable(undos[0])
    undos[0]()
    assert api.bodies_of("PATCH", "/chats/c3")[-1] == ChatPatch(folder="")


@pytest.mark.slow
def test_a_drop_beside_folders_takes_a_chat_out(folder_screen: ChatScreen, api: DemoApi) -> None:
    choose(folder_screen, "f1")
    press(folder_screen, api, Qt.Key.Key_Right)
    view = folder_screen.pane.list_view
    assert view._folder_at(view.visualRect(view._rows.row_of("c1")).center()) == "f1"
    assert view._folder_at(view.visualRect(view._rows.row_of("c4")).center()) == ""
    data = QMimeData()
    data.setData(CHAT_TYPE, b"c1")
    view.move_dropped(data, "")
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(folder="")]


@pytest.mark.slow
def test_a_new_folder_is_named_in_its_row(folder_screen: ChatScreen, api: DemoApi) -> None:
    folder_screen._add_folder()
    api.flush()
    view = folder_screen.pane.list_view
    assert api.bodies_of("POST", "/chats/folders") == [NewChatFolder(name="New folder")]
    assert isinstance(view._row_at(view.currentIndex()), FolderRow)
    assert view.state() is view.State.EditingState


@pytest.mark.slow
def test_the_card_changes_a_folder_as_soon_as_it_is_said(folder_screen: ChatScreen, api: DemoApi) -> None:
    folder_screen.conversation_view.show_folder("f1")
    panel = folder_screen.conversation_view.folder_panel
    assert not panel.isHidden()
    assert (panel.field.text(), panel.prompt.toPlainText()) == ("Engine sheds", folders.SHEDS.system_prompt)
    panel.prompt.setPlainText("Answer in feet.")
    panel.submit_prompt()
    panel.submit_prompt()
    panel.settings.files.remove(panel.settings.files.items[0])
    api.flush()
    assert api.bodies_of("PATCH", "/chats/folders/f1") == [
        ChatFolderPatch(system_prompt="Answer in feet."),
        ChatFolderPatch(files=[folders.SHEDS.files[1].id]),
    ]


def question_of(screen: ChatScreen) -> QuestionDialog:
    return screen.window().findChildren(QuestionDialog)[-1]


@pytest.mark.slow
def test_a_folder_with_chats_is_deleted_only_with_an_answer(folder_screen: ChatScreen, api: DemoApi) -> None:
    choose(folder_screen, "f1")
    press(folder_screen, api, Qt.Key.Key_Delete)
    assert not [path for verb, path, _ in api.calls if verb == "DELETE"]
    question = question_of(folder_screen)
    assert question.buttons[0].accessibleName() == "Keep the chats"
    question.buttons[-1].click()
    assert not [path for verb, path, _ in api.calls if verb == "DELETE"]
    press(folder_screen, api, Qt.Key.Key_Delete)
    question_of(folder_screen).buttons[0].click()
    assert [path for verb, path, _ in api.calls if verb == "DELETE"] == ["/chats/folders/f1"]
    question_of(folder_screen).hide()


@pytest.mark.slow
def test_an_empty_folder_goes_at_once(folder_screen: ChatScreen, api: DemoApi) -> None:
    folder_screen._ask_to_delete_folder("f2")
    assert [path for verb, path, _ in api.calls if verb == "DELETE"] == ["/chats/folders/f2"]


@pytest.mark.slow
def test_tags_are_typed_and_chosen(folder_screen: ChatScreen, api: DemoApi) -> None:
    api.replies["PATCH /chats/c3"] = long_chat.make_sample_chat()
    folder_screen.conversation_view.show_tags("c3")
    panel = folder_screen.conversation_view.tags_panel
    assert panel.field.text() == "boilers, 1911"
    panel._toggle("work", is_on=True)
    panel.field.setText("boilers, #new one ,")
    QTest.keyClick(panel.field, Qt.Key.Key_Return)
    assert panel.isHidden()
    bodies = api.bodies_of("PATCH", "/chats/c3")
    assert bodies == [ChatPatch(tags=["boilers", "1911", "work"]), ChatPatch(tags=["boilers", "new one"])]


@pytest.mark.slow
def test_the_list_shows_the_chats_of_one_tag_and_all_again(folder_screen: ChatScreen, api: DemoApi) -> None:
    api.replies[f"GET /chats?limit={PAGE}&query=&tag=work"] = [long_chat.make_summaries()[1]]
    command = next(command for command in folder_screen._list_commands() if command.title == "Show chats with #work")
    command.run()
    api.flush()
    assert ids(folder_screen) == ["c2"]
    folder_screen.pane.back.click()
    api.flush()
    assert ids(folder_screen)[0] == "f1"


@pytest.mark.slow
def test_the_palette_moves_the_open_chat(folder_screen: ChatScreen, api: DemoApi) -> None:
    folder_screen.model.open_chat("c1")
    api.flush()
    titles = [command.title for command in folder_screen._list_commands()]
    assert "Move this chat to Yards" in titles
    assert "Take this chat out of its folder" in titles
    assert "New chat in Engine sheds" in titles


@pytest.mark.slow
def test_a_folder_that_is_gone_elsewhere_is_gone_here(folder_screen: ChatScreen, api: DemoApi, shell: Shell) -> None:
    choose(folder_screen, "f1")
    press(folder_screen, api, Qt.Key.Key_Right)
    api.replies["GET /chats/folders"] = []
    shell.event_received.emit(ChatFoldersChanged())
    api.flush()
    assert "f1" not in ids(folder_screen)


def test_folders_cost_one_request_a_change(qtbot: QtBot, folder_screen: ChatScreen, api: DemoApi, shell: Shell) -> None:
    del qtbot
    api.calls.clear()
    for _ in range(3):
        shell.event_received.emit(ChatFoldersChanged())
    api.flush()
    assert [path for _, path, _ in api.calls if "folders" in path or "tags" in path] == [
        "/chats/folders",
        "/chats/tags",
    ]
    assert folder_screen.model.chat_list.folders.items
