"""The pages as a person meets them, in every state."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.core.engines import EngineState, EngineStatus, RemedyOffer
from app.core.errors import ErrorBody
from app.core.events import EngineChanged, LogLine
from app.core.models import LoadOptions
from app.gui.net.remote_lists import Stores
from app.gui.screens.models.view import ModelsScreen
from app.gui.screens.server.engine_row import EngineRow
from app.gui.screens.server.view import ServerScreen
from app.gui.screens.settings.view import SettingsScreen
from app.gui.shell.contract import PageId, Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, Pressable, Toggle
from app.gui.widgets.code import LogView
from app.gui.widgets.fields import Field, ListField
from app.gui.widgets.menus import DropDown
from app.gui.widgets.text import ElidedLabel, Label
from tests.demo import data
from tests.demo.api import DemoApi

REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.", detail="ENOSPC")


@pytest.fixture
def models_page(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> ModelsScreen:
    screen = ModelsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(900, 700)
    screen.show()
    return screen


def visible_buttons(widget: QWidget) -> list[str]:
    return [button.text() for button in widget.findChildren(Button) if button.isVisible()]


def test_models_hold_their_place_until_they_are_known(models_page: ModelsScreen, api: DemoApi) -> None:
    assert models_page._skeleton.isVisible()
    api.flush()
    assert not models_page._skeleton.isVisible()
    assert models_page._list.isVisible()


def test_no_models_is_said_with_one_button(models_page: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /models"] = []
    api.flush()
    assert models_page._empty.isVisible()
    assert visible_buttons(models_page._empty) == ["Discover models"]


def test_a_row_is_updated_in_place(models_page: ModelsScreen, api: DemoApi, shell: Shell) -> None:
    api.flush()
    row = models_page._list.rows["gpt-oss-20b-mxfp4"]
    button = next(button for button in row.findChildren(Button) if button.text() == "Unload")
    shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(data.LOADING, progress=0.9)))
    assert models_page._list.rows["gpt-oss-20b-mxfp4"] is row
    assert button.isVisible()
    labels = [label.text() for label in row.findChildren(Label)]
    assert "Reading weights 90 %" in labels


def test_chat_is_asked_for_with_the_model(models_page: ModelsScreen, api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    api.flush()
    row = models_page._list.rows["guide"]
    with qtbot.waitSignal(shell.chat_requested) as signal:
        next(button for button in row.findChildren(Button) if button.text() == "Chat").click()
    assert signal.args == ["guide"]


def test_an_unreadable_list_is_said_in_place_and_can_be_tried_again(models_page: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /models"] = REFUSED
    api.flush()
    assert models_page._error.isVisible()
    assert models_page._error.accessibleName() == "Problem: The disk is full."
    api.replies["GET /models"] = data.MODELS
    models_page._error._button.click()
    api.flush()
    assert not models_page._error.isVisible()


def test_a_file_that_is_refused_is_named_and_forgotten_when_the_next_one_works(
    models_page: ModelsScreen, api: DemoApi, shell: Shell
) -> None:
    api.replies["POST /models"] = REFUSED
    shell.files_dropped.emit([Path("/models/broken.gguf")])
    api.flush()
    assert models_page._trouble.accessibleName() == "Problem: broken.gguf was not added. The disk is full."
    api.replies["POST /models"] = data.MODELS[1]
    shell.files_dropped.emit([Path("/models/good.gguf")])
    api.flush()
    assert not models_page._trouble.isVisible()


def test_the_guide_is_labelled_wherever_it_is_listed(
    models_page: ModelsScreen, server_page: ServerScreen, api: DemoApi
) -> None:
    api.replies["GET /running"] = [msgspec.structs.replace(data.READY, model="guide")]
    server_page.model.running.read()
    api.flush()
    assert "Built-in tiny help model" in [label.text() for label in models_page._list.rows["guide"].findChildren(Label)]
    texts = [label.text() for label in server_page._list.rows["guide"].findChildren(ElidedLabel)]
    assert any(text.startswith("tiny help model · ") for text in texts)


def test_a_search_that_finds_nothing_says_so(models_page: ModelsScreen, api: DemoApi) -> None:
    api.replies["GET /models"] = [*data.MODELS, data.LONG_MODEL, data.RTL_MODEL]
    api.flush()
    models_page._search.setText("zebra")
    assert models_page._nothing_fits.isVisible()
    assert not models_page._empty.isVisible()


@pytest.fixture
def server_page(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> ServerScreen:
    screen = ServerScreen(theme, Stores(api, shell), shell, restart=lambda: None)
    qtbot.addWidget(screen)
    screen.resize(900, 900)
    screen.show()
    api.flush()
    return screen


@pytest.mark.slow
def test_the_address_is_copied_by_pressing_it(server_page: ServerScreen, shell: Shell) -> None:
    server_page._url.click()
    assert shell.copied_texts == ["http://127.0.0.1:11434/v1"]  # type: ignore[attr-defined]  # the tests' shell keeps it


@pytest.mark.slow
def test_choosing_a_dialect_changes_the_snippet(server_page: ServerScreen) -> None:
    chip = next(chip for chip in server_page.findChildren(Pressable) if chip.text() == "Python")
    chip.click()
    assert "from openai import OpenAI" in server_page._snippet._text.toPlainText()


@pytest.mark.slow
def test_a_failed_engine_says_why_and_what_may_help(server_page: ServerScreen, api: DemoApi, shell: Shell) -> None:
    shell.broadcast_event(EngineChanged(status=data.FAILED))
    row = server_page._list.rows[data.FAILED.model]
    assert isinstance(row, EngineRow)
    QApplication.processEvents()
    assert visible_buttons(row._failure) == ["Show the cause", "Try again", "Show the log"]
    row._failure._button.click()
    assert [body.model for body in api.bodies_of("POST", "/load")] == [data.FAILED.model]  # type: ignore[attr-defined]  # LoadModel
    next(button for button in row.findChildren(Button) if button.text() == "Show the log").click()
    assert server_page._log_search.text() == data.FAILED.model


@pytest.mark.slow
def test_what_would_load_it_otherwise_is_one_press_away(server_page: ServerScreen, api: DemoApi, shell: Shell) -> None:
    assert data.FAILED.failure is not None
    offers = [
        RemedyOffer(kind="less_context", label="Load with a context of 4,096 tokens", options={"context": 4096}),
        RemedyOffer(kind="smaller_model", label="Choose a smaller model"),
    ]
    failure = msgspec.structs.replace(data.FAILED.failure, remedies=offers, evidence="cudaMalloc failed")
    shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(data.FAILED, failure=failure)))
    row = server_page._list.rows[data.FAILED.model]
    assert isinstance(row, EngineRow)
    QApplication.processEvents()
    assert "Load with a context of 4,096 tokens" in visible_buttons(row._failure)
    assert "Choose a smaller model" in visible_buttons(row._failure)
    next(button for button in row.findChildren(Button) if button.text().startswith("Load with")).click()
    (load_request,) = api.bodies_of("POST", "/load")
    assert load_request.options == LoadOptions(context=4096)  # type: ignore[attr-defined]  # LoadModel


@pytest.mark.slow
def test_nothing_running_leads_to_the_models(server_page: ServerScreen, api: DemoApi, shell: Shell) -> None:
    for status in (data.READY, data.LOADING):
        shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(status, state=EngineState.STOPPED)))
    next(button for button in server_page._idle.findChildren(Button)).click()
    assert shell.pages == [PageId.MODELS]  # type: ignore[attr-defined]  # the tests' shell keeps it


def test_the_log_follows_only_a_reader_at_its_end(theme: Theme, qtbot: QtBot) -> None:
    view = LogView(theme, "Log")
    qtbot.addWidget(view)
    view.resize(300, 100)
    view.show()
    view.add_lines([(f"line {number}", "ink-2") for number in range(100)])
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum()
    bar.setValue(3)
    view.add_lines([("more", "bad")])
    assert bar.value() == 3


@pytest.mark.slow
def test_log_lines_arrive_while_the_page_is_seen(server_page: ServerScreen, api: DemoApi) -> None:
    api.send_event("/events?logs=1", LogLine(model="m", stream="err", text="a new line", at=2e9))
    assert server_page._log_view.toPlainText().endswith("a new line")


@pytest.fixture
def settings_page(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> SettingsScreen:
    screen = SettingsScreen(theme, Stores(api, shell), shell, restart=lambda: shell.show_toast("restarting"))
    qtbot.addWidget(screen)
    screen.resize(900, 900)
    screen.show()
    api.flush()
    return screen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("window.reduce_motion", Toggle),
        ("window.theme", DropDown),
        ("gateway.port", Field),
        ("models.default", DropDown),
        ("models.folders", ListField),
    ],
)
def test_every_kind_has_its_control(settings_page: SettingsScreen, name: str, kind: type[QWidget]) -> None:
    assert type(settings_page.find_row(name).control) is kind


@pytest.mark.slow
def test_every_setting_has_a_row(settings_page: SettingsScreen) -> None:
    for row in data.default_settings():
        assert settings_page.find_row(row.name).isVisible()


@pytest.mark.slow
def test_a_wrong_port_is_said_while_it_is_typed(settings_page: SettingsScreen, api: DemoApi) -> None:
    row = settings_page.find_row("gateway.port")
    field = row.control
    assert isinstance(field, Field)
    field.selectAll()
    QTest.keyClicks(field, "99999")
    assert row._wrong.isVisible()
    assert "65535" in row._wrong.text()
    field.selectAll()
    QTest.keyClicks(field, "8080")
    assert not row._wrong.isVisible()
    assert api.bodies_of("PATCH", "/settings") == []
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert api.bodies_of("PATCH", "/settings") == [{"gateway.port": 8080}]


@pytest.mark.slow
def test_a_change_that_waits_offers_the_restart(settings_page: SettingsScreen, api: DemoApi, shell: Shell) -> None:
    settings_page.model.change(next(row for row in data.default_settings() if row.name == "gateway.port"), 8080)
    api.flush()
    assert settings_page._restart.isVisible()
    next(button for button in settings_page._restart.findChildren(Button)).click()
    assert shell.messages == ["restarting"]  # type: ignore[attr-defined]  # the tests' shell keeps it


@pytest.mark.slow
def test_a_toggle_and_a_choice_change_their_settings(settings_page: SettingsScreen, api: DemoApi) -> None:
    toggle = settings_page.find_row("window.keep_serving").control
    assert isinstance(toggle, Toggle)
    toggle.click()
    choice = settings_page.find_row("window.theme").control
    QTest.keyClick(choice, Qt.Key.Key_Down)
    assert api.bodies_of("PATCH", "/settings") == [{"window.keep_serving": True}, {"window.theme": "dark"}]


@pytest.mark.slow
def test_the_model_for_new_chats_is_picked_from_the_library(settings_page: SettingsScreen, api: DemoApi) -> None:
    choice = settings_page.find_row("models.default").control
    assert isinstance(choice, DropDown)
    assert choice.accessibleName() == "Model for new chats: Guide · tiny help model · Q8_0"
    offered_values = [value for value, _ in choice._options]
    assert offered_values == ["guide", "qwen3-8b-q4_k_m", "gemma-3-12b-it-q4_0", "gpt-oss-20b-mxfp4"]
    QTest.keyClick(choice, Qt.Key.Key_Down)
    assert api.bodies_of("PATCH", "/settings") == [{"models.default": "qwen3-8b-q4_k_m"}]


@pytest.mark.slow
def test_a_model_that_is_gone_stays_the_one_for_new_chats(settings_page: SettingsScreen) -> None:
    row = settings_page.find_row("models.default")
    usual = next(info for info in data.default_settings() if info.name == "models.default")
    row.show_info(data.with_value(usual, "gone-7b"))
    assert isinstance(row.control, DropDown)
    assert (row.control.value, row.control._options[0]) == ("gone-7b", ("gone-7b", "gone-7b"))


def test_long_words_do_not_widen_a_choice(theme: Theme, qtbot: QtBot) -> None:
    choice = DropDown(theme, "Model", [("a", "a name that is longer than anybody would want to read " * 3)], widest=240)
    qtbot.addWidget(choice)
    assert choice.sizeHint().width() == 240


@pytest.mark.slow
def test_a_list_grows_and_shrinks(settings_page: SettingsScreen, api: DemoApi) -> None:
    field = settings_page.find_row("gateway.allowed_origins").control
    assert isinstance(field, ListField)
    QTest.keyClicks(field._entry_field, "https://example.org")
    QTest.keyClick(field._entry_field, Qt.Key.Key_Return)
    api.replies["GET /settings"] = api.replies["PATCH /settings"] = [
        data.with_value(row, ["https://example.org"]) if row.name == "gateway.allowed_origins" else row
        for row in data.default_settings()
    ]
    api.flush()
    next(b for b in field.findChildren(Pressable) if b.accessibleName() == "Remove https://example.org").click()
    assert api.bodies_of("PATCH", "/settings") == [
        {"gateway.allowed_origins": ["https://example.org"]},
        {"gateway.allowed_origins": []},
    ]


@pytest.mark.slow
def test_what_the_environment_sets_cannot_be_changed(settings_page: SettingsScreen, api: DemoApi) -> None:
    row = next(row for row in data.default_settings() if row.name == "gateway.port")
    settings_page.find_row("gateway.port").show_info(data.with_value(row, 9, source="environment"))
    assert not settings_page.find_row("gateway.port").control.isEnabled()
    assert not settings_page.find_row("gateway.port")._reset.isVisible()


@pytest.mark.slow
def test_only_what_was_changed_can_be_reset(settings_page: SettingsScreen, api: DemoApi) -> None:
    row = settings_page.find_row("models.slots")
    assert not row._reset.isVisible()
    row.show_info(data.with_value(next(r for r in data.default_settings() if r.name == "models.slots"), 8))
    assert row._reset.isVisible()
    row._reset.click()
    assert api.bodies_of("PATCH", "/settings") == [{"models.slots": None}]


@pytest.mark.slow
def test_an_engine_row_without_progress_has_no_false_figure(server_page: ServerScreen, shell: Shell) -> None:
    starting_engine = EngineStatus(model="new", engine="llama.cpp", state=EngineState.STARTING)
    shell.broadcast_event(EngineChanged(status=starting_engine))
    row = server_page._list.rows["new"]
    assert isinstance(row, EngineRow)
    assert row._progress.accessibleName() == "Loading new: in progress"
