"""The connect page: its state without a window, and what its rows show."""

import msgspec
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.benchmarks import StartBenchmark
from app.core.errors import ErrorBody
from app.core.events import BenchmarkChanged
from app.core.models import Autocomplete, ChooseAutocomplete
from app.core.tools import ToolChange, WireTool
from app.gui.net.remote_lists import Stores
from app.gui.screens.connect.model import ConnectModel
from app.gui.screens.connect.view import ConnectScreen, ToolRow
from app.gui.shell.contract import PageId
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.code import DiffView
from app.gui.widgets.text import ElidedLabel, Paragraph
from tests.demo import tools
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

WRITTEN = msgspec.structs.replace(tools.ZED, is_written=True)


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> ConnectModel:
    model = ConnectModel(Stores(api, shell), shell)
    api.flush()
    return model


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: QuietShell) -> ConnectScreen:
    screen = ConnectScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 700)
    screen.show()
    api.flush()
    return screen


def buttons(screen: ConnectScreen, tool: str) -> dict[str, Button]:
    rows = {**screen._here.rows, **screen._others.rows}
    return {button.text(): button for button in rows[tool].findChildren(Button) if not button.isHidden()}


def test_a_tool_s_prompt_is_measured_on_request_and_can_be_stopped(
    screen: ConnectScreen, api: DemoApi, shell: QuietShell
) -> None:
    buttons(screen, "codex")["Measure"].click()
    (body,) = [body for method, path, body in api.calls if (method, path) == ("POST", "/benchmarks")]
    assert isinstance(body, StartBenchmark)
    assert (body.settings.tool, body.settings.workload) == ("codex", "tool")
    row = screen._here.rows["codex"]
    assert isinstance(row, ToolRow)
    assert row.progress.isVisibleTo(screen)
    assert not buttons(screen, "claude-code")["Measure"].isEnabled(), "one at a time"
    shell.event_received.emit(BenchmarkChanged(model="m", stage="Asking for tool calls", fraction=0.9))
    assert [label.text() for label in row.progress.findChildren(ElidedLabel)] == ["m · Asking for tool calls"]
    assert not row.preflight.isVisibleTo(screen), "what was known before stands aside"
    (stop,) = row.progress.findChildren(Button)
    assert stop.accessibleName() == "Stop measuring: Codex CLI"
    stop.click()
    assert any(call[:2] == ("DELETE", "/benchmarks/job") for call in api.calls)
    api.calls.clear()
    shell.event_received.emit(BenchmarkChanged(model="m", stage="", fraction=1.0, done=True, receipt="r"))
    api.flush()
    assert "Measure" in buttons(screen, "codex")
    assert any(path.startswith("/preflights") for _, path, _ in api.calls), "what was measured is read"


def test_why_nothing_was_measured_stands_at_its_tool_until_it_is_dismissed(
    screen: ConnectScreen, shell: QuietShell
) -> None:
    buttons(screen, "codex")["Measure"].click()
    sentence = "The benchmark was disturbed, so it has no result."
    shell.event_received.emit(
        BenchmarkChanged(model="m", stage="Ended", done=True, error=sentence, code="benchmark_disturbed")
    )
    row, other = screen._here.rows["codex"], screen._here.rows["claude-code"]
    assert isinstance(row, ToolRow)
    assert isinstance(other, ToolRow)
    assert sentence in [label.text() for label in row.failure.findChildren(Paragraph)]
    assert (row.failure.isVisibleTo(screen), other.failure.isVisibleTo(screen)) == (True, False)
    buttons(screen, "codex")["Dismiss"].click()
    assert not row.failure.isVisibleTo(screen)
    buttons(screen, "codex")["Measure"].click()
    shell.event_received.emit(BenchmarkChanged(model="m", stage="Ended", done=True, error="Stopped.", code="cancelled"))
    assert not row.failure.isVisibleTo(screen), "who stops it knows why"


def test_tools_that_are_here_come_first_and_the_others_are_folded(model: ConnectModel) -> None:
    assert [tool.id for tool in model.local_tools] == ["continue", "cline", "zed", "claude-code", "codex"]
    assert [tool.id for tool in model.other_tools] == ["opencode", "aider", "open-webui"]


def test_how_the_model_would_do_with_a_tool_stands_beside_it(screen: ConnectScreen, api: DemoApi) -> None:
    rows = screen._here.rows
    claude, codex, zed = (rows[name] for name in ("claude-code", "codex", "zed"))
    assert isinstance(claude, ToolRow)
    assert isinstance(codex, ToolRow)
    assert isinstance(zed, ToolRow)
    assert "predicted: first token after 41 s, then 1.20 s" in claude.preflight.text()
    assert "needs a context of 65536, and the model has 16384" in claude.preflight.text()
    assert "measured: first token after 13 s" in codex.preflight.text()
    assert "needs a context" not in codex.preflight.text()
    assert zed.preflight.isHidden()
    assert "97 of 100 tool calls valid" in codex.preflight.text()
    screen.model.choose_model("guide")
    assert ("GET", "/preflights?model=guide", None) in api.calls
    api.replies["GET /preflights"] = ErrorBody(code="x", sentence="No.")
    screen.model.choose_model("other")
    api.flush()
    assert claude.preflight.isHidden()


def test_only_models_that_chat_and_can_be_used_are_offered(model: ConnectModel) -> None:
    assert [name for name, _ in model.model_options()] == [
        "",
        "guide",
        "qwen3-8b-q4_k_m",
        "gemma-3-12b-it-q4_0",
        "gpt-oss-20b-mxfp4",
    ]


def test_a_change_is_looked_at_before_it_is_written(model: ConnectModel, api: DemoApi, shell: QuietShell) -> None:
    toasts: list[str] = []
    model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    model.choose_model("guide")
    model.preview_change("zed")
    assert model.detail_of("zed").is_busy
    api.flush()
    assert model.detail_of("zed").change == tools.ZED
    assert api.bodies_of("POST", "/tools/zed/preview") == [WireTool(model="guide")]
    assert not api.bodies_of("POST", "/tools/zed/connect")
    api.replies["POST /tools/zed/connect"] = WRITTEN
    model.connect_tool("zed")
    api.flush()
    assert model.detail_of("zed").change == WRITTEN
    assert toasts == ["Zed was connected to qwen3-8b-q4_k_m."]
    assert len([call for call in api.calls if call[1] == "/tools"]) == 2, "the list is read again"


def test_another_model_asks_anew_for_the_change_that_is_open(model: ConnectModel, api: DemoApi) -> None:
    model.preview_change("zed")
    api.flush()
    model.choose_model("guide")
    api.flush()
    assert api.bodies_of("POST", "/tools/zed/preview") == [WireTool(model=""), WireTool(model="guide")]


def test_a_refusal_stands_below_the_row(model: ConnectModel, api: DemoApi) -> None:
    model.undo_wiring("codex")
    api.flush()
    assert model.detail_of("codex").error == tools.REFUSED
    api.replies["POST /tools/codex/undo"] = ToolChange(id="codex", name="Codex CLI", is_written=True)
    model.undo_wiring("codex")
    api.flush()
    assert model.detail_of("codex").error is None


def test_a_try_asks_for_the_model_the_tool_is_wired_to(model: ConnectModel, api: DemoApi) -> None:
    model.probe_tool("codex")
    api.flush()
    assert api.bodies_of("POST", "/tools/codex/probe") == [WireTool(model="qwen3-8b-q4_k_m")]
    assert model.detail_of("codex").probe == tools.TRIED


def test_the_palette_wires_and_undoes(model: ConnectModel, api: DemoApi, shell: QuietShell) -> None:
    commands = {command.title: command for command in shell.commands()}
    assert "Undo the connection of Codex CLI" in commands
    assert "Undo the connection of Zed" not in commands
    commands["Connect Zed"].run()
    assert shell.pages == [PageId.CONNECT]
    assert api.calls[-1][:2] == ("POST", "/tools/zed/preview")


def test_a_row_offers_what_can_be_done(screen: ConnectScreen, api: DemoApi) -> None:
    assert set(buttons(screen, "zed")) >= {"Connect"}
    assert {"Try it", "Undo"} <= set(buttons(screen, "codex"))
    buttons(screen, "zed")["Connect"].click()
    api.flush()
    row = screen._here.rows["zed"]
    diff = next(view for view in row.findChildren(DiffView))
    assert isinstance(row, ToolRow)
    assert not diff.isHidden()
    assert "Connect" not in buttons(screen, "zed")
    api.replies["POST /tools/zed/connect"] = WRITTEN
    api.replies["GET /tools"] = [
        msgspec.structs.replace(tool, wired=True, can_undo=True) if tool.id == "zed" else tool for tool in tools.TOOLS
    ]
    buttons(screen, "zed")["Apply"].click()
    api.flush()
    assert {"Undo", "Try it"} <= set(buttons(screen, "zed"))
    assert "Apply" not in buttons(screen, "zed")


@pytest.mark.slow
def test_values_of_a_tool_wired_by_hand_are_copied(screen: ConnectScreen, api: DemoApi, shell: QuietShell) -> None:
    buttons(screen, "cline")["Show how"].click()
    api.flush()
    QApplication.processEvents()  # a layout shows what it is given once it gets to it
    buttons(screen, "cline")["Base URL"].click()
    assert shell.copied_texts == ["http://127.0.0.1:11434/v1"]
    buttons(screen, "cline")["Close"].click()
    assert "Base URL" not in buttons(screen, "cline")


def test_the_command_that_starts_a_tool_for_one_run_is_copied(screen: ConnectScreen, shell: QuietShell) -> None:
    buttons(screen, "codex")["Copy command"].click()
    assert shell.copied_texts == ["roundhouse launch codex"]
    assert "Copy command" not in buttons(screen, "zed")


def test_the_model_that_completes_code_is_chosen_here(screen: ConnectScreen, api: DemoApi) -> None:
    row = screen._completion
    assert row.isVisible()
    assert "stays loaded beside" in row.accessibleDescription()
    assert row._choice.value == tools.COMPLETION.model
    assert not row._search.isVisible()
    refused_state = Autocomplete(model="", choices=tools.COMPLETION.choices)
    api.replies["POST /autocomplete"] = refused_state
    screen.model.preview_change("zed")
    api.flush()
    row._choice.chosen.emit("")
    api.flush()
    assert api.bodies_of("POST", "/autocomplete") == [ChooseAutocomplete(model="")]
    assert row.accessibleDescription() == "No model completes code."
    assert len(api.bodies_of("POST", "/tools/zed/preview")) == 2, "what is open is asked for anew"


def test_a_model_that_cannot_complete_is_said_and_the_choice_goes_back(screen: ConnectScreen, api: DemoApi) -> None:
    sentences: list[str] = []
    screen.model.toast_requested.connect(lambda sentence, _undo: sentences.append(sentence))
    api.replies["POST /autocomplete"] = tools.REFUSED
    screen.model.choose_completion("guide")
    api.flush()
    assert sentences == [tools.REFUSED.sentence]
    assert screen._completion._choice.value == tools.COMPLETION.model


def test_where_no_model_completes_code_one_is_named(screen: ConnectScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /autocomplete"] = Autocomplete(offer="qwen2.5-coder:1.5b")
    screen.model.autocomplete.read()
    api.flush()
    row = screen._completion
    assert "qwen2.5-coder:1.5b" in row.accessibleDescription()
    assert row._search.isVisible()
    assert not row._choice.isVisible()
    row._search.click()
    assert shell.pages == [PageId.MODELS]
