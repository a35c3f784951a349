"""The frame: pages, palette, menu, size, memory, and the keys that reach them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.core.engines import EngineState, EngineStatus
from app.core.events import EngineChanged, SettingChanged
from app.gui.screens.chat.view import ChatScreen
from app.gui.screens.models.view import ModelsScreen
from app.gui.screens.settings.view import SettingsScreen
from app.gui.shell.appearance import WindowMemory, load_memory, save_memory
from app.gui.shell.command_palette import rank_commands, score_match
from app.gui.shell.contract import Command, PageId
from app.gui.shell.rail import engines_sign
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from tests.demo import data, long_chat
from tests.demo.api import DemoApi

Make = Callable[[PageId], MainWindow]
CTRL = Qt.KeyboardModifier.ControlModifier


def titles(query: str, *candidates: str) -> list[str]:
    return [command.title for command in rank_commands(query, [Command(title, lambda: None) for title in candidates])]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("", "Anything"),
        ("mod", "Models"),
        ("lq", "Load Qwen3 8B"),
        ("LOAD q", "Load Qwen3 8B"),
        ("so", "Also settings"),
    ],
)
def test_letters_in_order_fit(query: str, title: str) -> None:
    assert score_match(query, title) is not None


@pytest.mark.parametrize(("query", "title"), [("zz", "Models"), ("ledom", "Model"), ("models!", "Models")])
def test_letters_out_of_order_do_not(query: str, title: str) -> None:
    assert score_match(query, title) is None


def test_starts_of_words_count_more_than_letters_inside() -> None:
    assert titles("set", "Reset everything", "Settings", "Also set")[0] == "Settings"
    assert titles("lg", "Unload gpt", "Load Guide", "Follow long")[0] == "Load Guide"


def test_words_that_stand_there_as_typed_come_first() -> None:
    assert titles("chat with one", "Chat with Noise One", "Chat with One Short")[0] == "Chat with One Short"


def test_nothing_typed_keeps_the_order() -> None:
    assert titles("  ", "b", "a", "c") == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("states", "color"),
    [
        ([], "edge"),
        ([EngineState.STOPPED], "edge"),
        ([EngineState.READY], "ok"),
        ([EngineState.READY, EngineState.LOADING], "accent"),
        ([EngineState.FAILED], "bad"),
        ([EngineState.FAILED, EngineState.READY], "ok"),
    ],
)
def test_the_dot_says_how_the_engines_are(states: list[EngineState], color: str) -> None:
    statuses = [EngineStatus(model=state, engine="e", state=state) for state in states]
    assert engines_sign(statuses)[0] == color


def test_ctrl_and_a_number_show_a_page(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    for key, page in ((Qt.Key.Key_2, PageId.MODELS), (Qt.Key.Key_5, PageId.MACHINE), (Qt.Key.Key_7, PageId.SETTINGS)):
        QTest.keyClick(window, key, CTRL)
        assert window.pages.page is page
        assert window.rail.buttons[page].isChecked()


@pytest.mark.slow
def test_nothing_that_is_made_is_left_without_a_parent(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    for page in PageId:
        window.show_page(page)
        QApplication.processEvents()
    tops = [widget for widget in QApplication.topLevelWidgets() if widget.parentWidget() is None]
    assert set(tops) == {window, window.tray.menu}


def test_a_page_is_built_when_it_is_first_shown_and_kept(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    assert window.pages.find_page(PageId.MACHINE) is None
    window.show_page(PageId.MACHINE)
    built_page = window.pages.find_page(PageId.MACHINE)
    window.show_page(PageId.SERVER)
    window.show_page(PageId.MACHINE)
    assert window.pages.currentWidget() is built_page


@pytest.mark.slow
def test_pages_fade_unless_motion_is_reduced(make_window: Make, theme: Theme, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    before = len(window.pages.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly))
    window.show_page(PageId.MODELS)
    children = window.pages.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly)
    assert len(children) == before + 1, "only the new page"
    theme.set_reduce_motion(reduce=False)
    window.show_page(PageId.SERVER)
    veils = [child for child in window.pages.children() if type(child).__name__ == "_FadeOverlay"]
    assert len(veils) == 1
    qtbot.waitUntil(lambda: not [child for child in window.pages.children() if type(child).__name__ == "_FadeOverlay"])


def test_arrows_move_along_the_rail(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    buttons = window.rail.buttons
    buttons[PageId.SERVER].setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(buttons[PageId.SERVER], Qt.Key.Key_Down)
    assert buttons[PageId.CONNECT].hasFocus()
    QTest.keyClick(buttons[PageId.CONNECT], Qt.Key.Key_Return)
    assert window.pages.page is PageId.CONNECT


@pytest.mark.slow
def test_the_palette_finds_and_runs(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    QTest.keyClick(window, Qt.Key.Key_K, CTRL)
    palette = window.palette_view
    assert palette.isVisible()
    QTest.keyClicks(palette.field, "mach")
    assert palette.visible_commands()[0].title == "Machine"
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert window.pages.page is PageId.MACHINE


def test_the_palette_offers_the_chats_that_are_found(make_window: Make, qtbot: QtBot, api: DemoApi) -> None:
    window = make_window(PageId.CHAT)
    api.flush()
    window._open_palette()
    api.replies["GET /chats"] = long_chat.make_search_results()
    palette = window.palette_view
    palette.field.setText("borrow ch")
    qtbot.waitUntil(lambda: not palette._wait.isActive())
    api.flush()
    chat, of_file = palette.visible_commands()[-2:]
    assert (chat.title, chat.hint) == ("Rust borrow checker and temporaries", "Chat")
    assert of_file.hint == "The Rust programming language, third edition.pdf"
    assert "/chats?limit=8&query=borrow%20ch&has_titles_first=true" in {path for _, path, _ in api.calls}
    palette.field.setText("borrow check")
    assert "Chat" not in {command.hint for command in palette.visible_commands()}
    palette.close_then(chat.run)
    assert ("GET", "/chats/c1", None) in api.calls


@pytest.mark.slow
def test_the_palette_gives_the_focus_back(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    button = window.rail.buttons[PageId.MODELS]
    button.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(window, Qt.Key.Key_K, CTRL)
    QTest.keyClick(window.palette_view.field, Qt.Key.Key_Escape)
    assert button.hasFocus()


@pytest.mark.slow
def test_the_palette_offers_everything(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    window.shell.add_commands(lambda: [Command("Rename this chat", lambda: None)])
    offered_titles = {command.title for command in window._all_commands()}
    assert {
        "New chat",
        "Models",
        "Settings",
        "Dark appearance",
        "Larger text",
        "Copy the endpoint's address",
        "Unload Qwen3 8B",
        "Load Guide · tiny help model",
        "Chat with Guide · tiny help model",
        "Setting: Context",
        "Add a model file",
        "Detect this machine again",
        "Calibrate this machine",
        "Save a report on this machine",
        "Restart the service",
        "Undo",
        "Rename this chat",
        "Quit Roundhouse",
    } <= offered_titles
    assert "Chat with Nomic Embed Text v1.5" not in offered_titles
    assert "Load Mistral Small 3.2" not in offered_titles, "its file is broken"


@pytest.mark.slow
def test_a_model_is_unloaded_from_the_palette_and_comes_back_by_undo(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    command = next(command for command in window._all_commands() if command.title == "Unload Qwen3 8B")
    command.run()
    api.flush()
    assert window.toast.isVisible()
    window.toast._undo.click()
    assert [body.model for body in api.bodies_of("POST", "/load")] == ["qwen3-8b-q4_k_m"]  # type: ignore[attr-defined]  # LoadModel


@pytest.mark.slow
def test_the_endpoints_address_is_copied(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    QTest.keyClick(window, Qt.Key.Key_C, CTRL | Qt.KeyboardModifier.ShiftModifier)
    assert QGuiApplication.clipboard().text() == "http://127.0.0.1:11434/v1"


@pytest.mark.slow
def test_size_follows_the_keys_and_is_kept_once(make_window: Make, theme: Theme, api: DemoApi, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    for _ in range(3):
        QTest.keyClick(window, Qt.Key.Key_Plus, CTRL)
    QTest.keyClick(window, Qt.Key.Key_Minus, CTRL)
    assert theme.percent == 120
    qtbot.waitUntil(lambda: bool(api.bodies_of("PATCH", "/settings")))
    assert api.bodies_of("PATCH", "/settings") == [{"window.scale": 120}]
    QTest.keyClick(window, Qt.Key.Key_0, CTRL)
    assert theme.percent == 100


@pytest.mark.slow
def test_a_setting_changed_elsewhere_shows_here(make_window: Make, theme: Theme, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    rows = {row.name: row for row in data.default_settings()}
    dark = [data.with_value(row, "dark") if row.name == "window.theme" else row for row in rows.values()]
    api.replies["GET /settings"] = dark
    window.shell.broadcast_event(SettingChanged(name="window.theme"))
    api.flush()
    assert theme.is_dark


@pytest.mark.slow
def test_engine_events_move_the_dot(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    for model in ("qwen3-8b-q4_k_m", "gpt-oss-20b-mxfp4"):
        stopped_engine = EngineStatus(model=model, engine="llama.cpp", state=EngineState.STOPPED)
        window.shell.broadcast_event(EngineChanged(status=stopped_engine))
    assert window.rail.buttons[PageId.SERVER].accessibleDescription() == "no model loaded"


@pytest.mark.slow
def test_a_lost_gateway_is_said_above_the_page_with_a_button(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    window.show_disconnected(data.OFFLINE)
    assert window._trouble.isVisible()
    with qtbot.waitSignal(window.link_requested):
        window._trouble._button.click()
    window.mark_connected(data.STATUS)
    assert not window._trouble.isVisible()


@pytest.mark.slow
def test_alt_alone_shows_the_menu(make_window: Make, qtbot: QtBot) -> None:
    window = make_window(PageId.SERVER)
    bar = window.menuBar()
    assert not bar.isVisible()
    QTest.keyClick(window, Qt.Key.Key_Alt)
    assert bar.isVisible()
    QTest.keyPress(window, Qt.Key.Key_Alt)
    QTest.keyClick(window, Qt.Key.Key_X, Qt.KeyboardModifier.AltModifier)
    QTest.keyRelease(window, Qt.Key.Key_Alt)
    assert bar.isVisible(), "Alt with another key is not Alt alone"


@pytest.mark.slow
def test_alt_with_a_key_that_a_control_takes_is_not_alt_alone(make_window: Make) -> None:
    window = make_window(PageId.CHAT)
    page = window.pages.currentWidget()
    assert isinstance(page, ChatScreen)
    page.conversation_view.transcript.setFocus()
    QTest.keyPress(page.conversation_view.transcript, Qt.Key.Key_Alt)
    QTest.keyClick(page.conversation_view.transcript, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    QTest.keyRelease(page.conversation_view.transcript, Qt.Key.Key_Alt)
    assert not window.menuBar().isVisible()


@pytest.mark.slow
def test_ctrl_z_takes_back_what_the_toast_says(make_window: Make) -> None:
    window, undone_steps = make_window(PageId.CHAT), []
    window.toast.show_message("A chat was deleted.", lambda: undone_steps.append(1))
    focus_widget = QApplication.focusWidget()
    assert focus_widget is not None
    QTest.keyClick(focus_widget, Qt.Key.Key_Z, CTRL)
    assert undone_steps == [1]
    assert window.toast.isHidden()
    QTest.keyClick(focus_widget, Qt.Key.Key_Z, CTRL)
    assert undone_steps == [1]
    assert not window.toast.isHidden(), "it says that there is nothing to undo"


@pytest.mark.slow
def test_ctrl_z_belongs_to_the_field_while_it_has_something_to_take_back(make_window: Make) -> None:
    window, undone_steps = make_window(PageId.CHAT), []
    page = window.pages.currentWidget()
    assert isinstance(page, ChatScreen)
    field = page.conversation_view.composer.field
    QTest.keyClicks(field, "typed")
    window.toast.show_message("A chat was deleted.", lambda: undone_steps.append(1))
    QTest.keyClick(field, Qt.Key.Key_Z, CTRL)
    assert (field.toPlainText(), undone_steps) == ("", [])


@pytest.mark.slow
def test_a_toast_stands_above_the_composer(make_window: Make) -> None:
    window = make_window(PageId.CHAT)
    page = window.pages.currentWidget()
    assert isinstance(page, ChatScreen)
    window.toast.show_message("Done.")
    composer = page.conversation_view.composer.mapToGlobal(QPoint(0, 0))
    assert window.toast.mapToGlobal(QPoint(0, window.toast.height())).y() < composer.y()


@pytest.mark.slow
def test_the_palette_does_things_on_pages_that_were_not_shown(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    run = {command.title: command.run for command in window._all_commands()}
    run["Setting: Context"]()
    assert window.pages.page == "settings"
    run["Detect this machine again"]()
    api.flush()
    assert [path for _, path, _ in api.calls].count("/machine?fresh=1") == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelsScreen, "_ask_file", lambda _page: window.toast.show_message("asked"))
        run["Add a model file"]()
    assert window.pages.page is PageId.MODELS
    assert window.toast.accessibleName() == "asked"


@pytest.mark.slow
def test_what_the_palette_does_to_the_chat_shows_the_chat(make_window: Make) -> None:
    window = make_window(PageId.CHAT)
    window.show_page(PageId.MACHINE)
    run = {command.title: command.run for command in window._all_commands()}
    run["Sampling"]()
    assert window.pages.page is PageId.CHAT


@pytest.mark.slow
def test_going_to_a_setting_puts_the_keyboard_on_it(
    make_window: Make, api: DemoApi, theme: Theme, qtbot: QtBot
) -> None:
    window = make_window(PageId.SERVER)
    window.shell.request_task(PageId.SETTINGS, "window.scale")
    page = window.pages.currentWidget()
    assert isinstance(page, SettingsScreen)
    api.flush()
    control = page.find_row("window.scale").control
    assert control.hasFocus()
    assert not control.visibleRegion().isEmpty()
    theme.set_percent(150)
    qtbot.waitUntil(lambda: not control.visibleRegion().isEmpty())


@pytest.mark.slow
def test_the_menu_has_everything_the_keys_have(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    actions = [action for menu in window.menuBar().actions() for action in menu.menu().actions()]  # type: ignore[attr-defined]  # QAction.menu() is untyped
    assert {action.text() for action in actions} == {menu_action.title for menu_action in window._menu_actions}


@pytest.mark.slow
def test_the_window_comes_back_as_it_was(make_window: Make, tmp_path: Path, theme: Theme) -> None:
    window = make_window(PageId.SERVER)
    window.show_page(PageId.MACHINE)
    theme.set_percent(130)
    window.close()
    memory = load_memory(tmp_path / "window.json")
    assert (memory.page, memory.scale, memory.theme) == ("machine", 130, "light")
    assert memory.geometry


def test_what_cannot_be_remembered_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "window.json"
    file.write_text('{"scale": "large"}', encoding="utf-8")
    assert load_memory(file) == WindowMemory()
    save_memory(file / "below" / "a-file.json", WindowMemory())
    assert load_memory(tmp_path / "missing.json") == WindowMemory()


def test_a_page_that_is_no_more_is_not_asked_for(theme: Theme, api: DemoApi, tmp_path: Path, qtbot: QtBot) -> None:
    file = tmp_path / "window.json"
    save_memory(file, WindowMemory(page="bench"))
    memory = load_memory(file)
    assert memory.page not in set(PageId)


@pytest.mark.slow
def test_dropping_a_model_file_lists_it(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    mime_data = QMimeData()
    mime_data.setUrls([QUrl.fromLocalFile("/models/New.GGUF"), QUrl.fromLocalFile("/models/notes.txt")])
    event = QDropEvent(
        QPointF(QPoint(300, 300)),
        Qt.DropAction.CopyAction,
        mime_data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    window.dropEvent(event)
    assert window.pages.page is PageId.MODELS
    assert [Path(body.path).name for body in api.bodies_of("POST", "/models")] == ["New.GGUF"]  # type: ignore[attr-defined]  # RegisterModel


@pytest.mark.slow
def test_the_minimum_size_is_kept(make_window: Make) -> None:
    window = make_window(PageId.SERVER)
    window.resize(200, 200)
    assert (window.width(), window.height()) == (1024, 640)


@pytest.mark.slow
def test_a_size_chosen_just_before_closing_is_kept(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    QTest.keyClick(window, Qt.Key.Key_Minus, CTRL)
    assert api.bodies_of("PATCH", "/settings") == []
    window.close()
    assert api.bodies_of("PATCH", "/settings") == [{"window.scale": 90}]


@pytest.mark.slow
def test_a_toast_can_be_read_after_the_theme_was_switched(make_window: Make) -> None:
    window = make_window(PageId.CHAT)
    for mode in ("dark", "light", "dark"):
        window.theme.set_mode(mode)
        words = window.toast._words.palette().color(QPalette.ColorRole.WindowText)
        assert words == window.theme.color("ink")


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("page", [PageId.CHAT, PageId.MODELS])
def test_a_toast_stands_in_the_middle_of_what_is_below_it(make_window: Make, page: PageId) -> None:
    window = make_window(page)
    window.toast.show_message("Done.")
    chat = window.pages.find_page(PageId.CHAT)
    below = chat.conversation_view.composer if isinstance(chat, ChatScreen) else window.pages
    middle = below.mapToGlobal(below.rect().center()).x()
    assert abs(window.toast.mapToGlobal(window.toast.rect().center()).x() - middle) <= 1
