"""The card of presets: used, saved, removed, imported and exported, from the card and the palette."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch, Sampling
from app.core.events import PresetsChanged
from app.core.presets import ChatPreset, PresetImport, SavePreset, read_presets
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.presets_panel import PresetRow, describe_preset
from app.gui.screens.chat.view import ChatScreen
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.presets import EDITOR, PRESETS, TRIP, preset_replies
from tests.gui.conftest import QuietShell

FIXTURES = Path(__file__).parents[2] / "fixtures" / "presets"


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ChatScreen:
    api.replies |= preset_replies(PRESETS)
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    screen.conversation_view.toggle_presets()
    return screen


def row_of(screen: ChatScreen, preset: ChatPreset) -> PresetRow:
    row = screen.conversation_view.presets._list.rows[preset.name]
    assert isinstance(row, PresetRow)
    return row


def patches(api: DemoApi) -> list[object]:
    api.flush()
    return api.bodies_of("PATCH", "/chats/c1")


def test_a_preset_is_taken_into_the_open_chat(screen: ChatScreen, api: DemoApi) -> None:
    assert screen.conversation_view.presets.field.hasFocus()
    row_of(screen, EDITOR).use.click()
    assert patches(api) == [ChatPatch(system_prompt=EDITOR.system_prompt), ChatPatch(sampling=Sampling())]
    assert screen.conversation_view.presets.isHidden()


@pytest.mark.slow
def test_variables_are_asked_for_first(screen: ChatScreen, api: DemoApi) -> None:
    row_of(screen, TRIP).use.click()
    form = screen.conversation_view.presets._form
    assert patches(api) == []
    QTest.keyClicks(form._fields["city"], "Bern")
    QTest.keyClick(form._fields["city"], Qt.Key.Key_Return)
    assert form._fields["days"].hasFocus(), "what is empty is asked for before anything is used"
    QTest.keyClicks(form._fields["days"], "3")
    QTest.keyClick(form._fields["days"], Qt.Key.Key_Return)
    assert screen.conversation_view.composer.text == "Plan 3 days in Bern."
    assert ChatPatch(system_prompt="You plan trips to Bern, on foot and by train.") in patches(api)
    assert screen.model.conversation.sampling == TRIP.sampling


@pytest.mark.slow
def test_back_shows_the_library_again(screen: ChatScreen) -> None:
    panel = screen.conversation_view.presets
    panel.use_preset(TRIP)
    panel._form.left.emit()
    assert not panel._list.isHidden()
    assert panel._form.isHidden()


@pytest.mark.slow
def test_the_chat_is_saved_under_a_name_and_undo_removes_it(
    screen: ChatScreen, api: DemoApi, shell: QuietShell
) -> None:
    panel = screen.conversation_view.presets
    screen.conversation_view.composer.set_text("Hi {{you}}")
    QTest.keyClicks(panel.name, "  Strict   reader ")
    QTest.keyClick(panel.name, Qt.Key.Key_Return)
    api.flush()
    conversation = screen.model.conversation
    preset = ChatPreset(
        name="Strict reader",
        model=conversation.model,
        system_prompt=conversation.system_prompt,
        prompt="Hi {{you}}",
        sampling=conversation.sampling,
    )
    assert api.bodies_of("POST", "/presets") == [SavePreset(preset=preset, replaces=True)]
    assert "“Strict reader” is saved." in shell.messages
    api.replies["DELETE /presets/Strict%20reader"] = None
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert len(api.bodies_of("DELETE", "/presets/Strict%20reader")) == 1


@pytest.mark.slow
def test_saving_over_a_preset_can_be_undone(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    screen.conversation_view.presets.save_requested.emit("strict EDITOR")
    api.flush()
    assert "“strict EDITOR” is replaced." in shell.messages
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert api.bodies_of("POST", "/presets")[-1] == SavePreset(preset=EDITOR, replaces=True)


@pytest.mark.slow
def test_a_preset_is_removed_with_a_way_back(screen: ChatScreen, api: DemoApi, shell: QuietShell) -> None:
    row_of(screen, EDITOR).remove.click()
    api.flush()
    assert "“Strict editor” is removed." in shell.messages
    api.replies["GET /presets"] = [TRIP]
    shell.event_received.emit(PresetsChanged())
    api.flush()
    assert list(screen.conversation_view.presets._list.rows) == ["Trip planner"]
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert api.bodies_of("POST", "/presets") == [SavePreset(preset=EDITOR, replaces=True)]


@pytest.mark.slow
def test_files_go_out_and_in(screen: ChatScreen, api: DemoApi, shell: QuietShell, tmp_path: Path) -> None:
    library, file = screen.model.presets, tmp_path / "presets.json"
    library.export_presets(file)
    assert read_presets(file.read_bytes()).presets == PRESETS
    assert "2 presets are exported." in shell.messages
    library.import_presets(file)
    api.flush()
    assert api.bodies_of("POST", "/presets/import") == [PresetImport(presets=PRESETS)]
    assert "1 preset was added. 1 was here already." in shell.messages


@pytest.mark.slow
def test_a_preset_of_lm_studio_comes_in_and_says_what_does_not(
    screen: ChatScreen, api: DemoApi, shell: QuietShell
) -> None:
    screen.model.presets.import_presets(FIXTURES / "boilers.preset.json")
    api.flush()
    (body,) = api.bodies_of("POST", "/presets/import")
    assert isinstance(body, PresetImport)
    assert [preset.name for preset in body.presets] == ["Boiler inspector"]
    assert "Not taken over: contextOverflowPolicy, llama.cpuThreads and llm.load.contextLength." in shell.messages[-1]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda file: file.write_bytes(b"no"),
            "The file is not JSON. Choose a file that was exported here, or a preset of LM Studio.",
        ),
        (str, "presets.json could not be read."),
        (lambda file: file.mkdir(), "presets.json could not be read."),
    ],
)
def test_a_file_that_is_none_is_told(
    screen: ChatScreen, shell: QuietShell, tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    file = tmp_path / "presets.json"
    make(file)
    screen.model.presets.import_presets(file)
    assert shell.messages[-1] == words
    screen.model.presets.export_presets(tmp_path / "gone" / "presets.json")
    assert "could not be saved" in shell.messages[-1]


@pytest.mark.slow
def test_the_palette_uses_presets(screen: ChatScreen, shell: QuietShell, api: DemoApi) -> None:
    titles = {command.title: command for command in shell.commands()}
    titles["Use the preset Strict editor"].run()
    assert ChatPatch(system_prompt=EDITOR.system_prompt) in patches(api)
    titles["Use the preset Trip planner"].run()
    assert not screen.conversation_view.presets._form.isHidden()


def test_a_row_says_what_it_holds() -> None:
    assert describe_preset(TRIP, "Qwen3 8B") == (
        "Qwen3 8B · You plan trips to {{city}}, on foot and by train. · own sampling · asks for city, days"
    )
    assert describe_preset(ChatPreset(name="x"), "") == ""


def test_an_empty_library_says_how_to_fill_it(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> None:
    api.replies |= preset_replies([])
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    screen.conversation_view.toggle_presets()
    panel = screen.conversation_view.presets
    assert panel._nothing.isVisible()
    assert not panel._export.isEnabled()
    assert panel.field is panel.name
