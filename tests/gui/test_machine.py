"""The machine page as widgets: what is drawn, how the controls work by key and pointer, what is said of errors."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.core.advice import Intent, PlanRequest
from app.core.errors import ErrorBody
from app.core.events import CalibrationChanged
from app.core.machine import Fact
from app.gui.net.remote_lists import Stores
from app.gui.screens.machine.decision import PlanRow
from app.gui.screens.machine.estimate_card import ChangeRow
from app.gui.screens.machine.load_accuracy import Ticks
from app.gui.screens.machine.view import MachineScreen, PlanControls
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import LIMIT, BarPart, Legend, PartsBar
from app.gui.widgets.fields import Combo, Stepper
from app.gui.widgets.menus import DropDown, Menu
from app.gui.widgets.text import Label
from tests.demo import advice, data, machines
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.", detail="ENOSPC")


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> MachineScreen:
    screen = MachineScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1100, 900)
    screen.show()
    api.flush()
    return screen


def settle(screen: MachineScreen, api: DemoApi, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not screen.model.what_if._plan_request._timer.isActive())
    api.flush()


def last_plan_asked(api: DemoApi) -> PlanRequest:
    request = api.bodies_of("POST", "/plan")[-1]
    assert isinstance(request, PlanRequest)
    return request


def test_a_skeleton_holds_the_place_until_the_machine_is_there(
    theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot
) -> None:
    screen = MachineScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    assert screen._skeleton.isVisible()
    assert not screen.drawing.isVisible()
    api.flush()
    assert not screen._skeleton.isVisible()
    assert screen.drawing.isVisible()


def test_pools_are_drawn_with_their_figures(screen: MachineScreen) -> None:
    assert [view.bar.accessibleName() for view in screen.drawing.pools.values()] == [
        "Memory: 16.0 GiB other programs, 9.6 GiB Roundhouse's models, 38.4 GiB free, 34.3 GiB at most for graphics"
    ]


@pytest.mark.slow
def test_another_machine_takes_the_place_of_the_first(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["GET /machine"] = machines.WORKSTATION
    screen.model.probe_again()
    api.flush()
    assert list(screen.drawing.pools) == ["system", *machines.CARDS]


@pytest.mark.slow
def test_a_machine_that_cannot_be_read_is_said_in_place(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["GET /machine"] = REFUSED
    screen.model.probe_again()
    api.flush()
    assert screen._error.isVisible()
    assert screen.drawing.isVisible(), "what was found before stays"


@pytest.mark.slow
def test_looking_again_can_be_asked_from_elsewhere(screen: MachineScreen, api: DemoApi, shell: Shell) -> None:
    shell.task_requested.emit(Task.LOOK_AGAIN)
    assert ("GET", "/machine?fresh=1", None) in api.calls
    assert not screen._again.isEnabled()
    api.flush()
    assert screen._again.isEnabled()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "path"), [(Task.CALIBRATE, "/calibrate"), (Task.REPORT, "/doctor")], ids=["calibrate", "report"]
)
def test_the_palette_reaches_what_the_page_can_do(
    screen: MachineScreen, api: DemoApi, shell: Shell, task: Task, path: str
) -> None:
    shell.task_requested.emit(task)
    shell.task_requested.emit("models.slots")
    assert [where for _, where, _ in api.calls].count(path) == 1


@pytest.mark.slow
def test_what_is_free_may_be_unknown_and_is_not_called_free(screen: MachineScreen, api: DemoApi) -> None:
    unknown = msgspec.structs.replace(machines.LAPTOP.pools[0], free=Fact(unit="B", note="No permission."))
    api.replies["GET /machine"] = msgspec.structs.replace(machines.LAPTOP, pools=[unknown])
    screen.model.probe_again()
    api.flush()
    (view,) = screen.drawing.pools.values()
    assert view.bar.accessibleName() == "Memory: 9.6 GiB Roundhouse's models, free memory unknown"


@pytest.mark.slow
def test_the_decision_is_a_sentence_with_reasons_and_a_runner_up(screen: MachineScreen) -> None:
    decision = screen.decision
    assert decision.sentence.text().startswith("llama.cpp on the processor, because")
    assert len(decision.reasons.rows) == 5
    assert decision._reasons_fold._button.text() == "2 more reasons"
    assert not decision.more_reasons.isVisible()
    assert decision.second.title.text() == "Runner-up: llama.cpp · Vulkan with GGUF Q4_K_M"
    assert "142 tok/s instead of 64 tok/s" in decision.second.price.text()
    assert list(decision.others.rows) == ["onnxruntime-genai cpu onnx int4"]
    assert not decision.others.isVisible(), "other plans are folded"
    assert decision._refused_fold._button.text() == "4 ruled out, and why"


@pytest.mark.slow
def test_a_runner_up_shows_its_sums_and_goes_back(screen: MachineScreen) -> None:
    look = screen.decision.second.look
    look.click()
    assert screen.estimate_card.title.text() == "Qwen3 8B with llama.cpp · Vulkan"
    assert look.text() == "Back to the best plan"
    look.click()
    assert screen.estimate_card.title.text() == "Qwen3 8B with llama.cpp · processor"


@pytest.mark.slow
def test_a_further_plan_without_sums_has_them_asked_for(screen: MachineScreen, api: DemoApi) -> None:
    (row,) = screen.decision.findChildren(PlanRow)
    row._look.click()
    api.flush()
    assert len(api.bodies_of("POST", "/estimate")) == 1
    assert "ONNX Runtime GenAI" in screen.estimate_card.title.text()


@pytest.mark.slow
def test_what_would_be_better_is_apart_with_what_is_missing_and_the_steps(screen: MachineScreen, api: DemoApi) -> None:
    recommendation = advice.answer_plan(PlanRequest())
    better = msgspec.structs.replace(
        advice.REFUSED[1], missing=["There is no build for Windows."], steps=["Install WSL 2."], is_preferred=True
    )
    api.replies["POST /plan"] = msgspec.structs.replace(
        recommendation, plans=[recommendation.plans[0], better, advice.REFUSED[0]]
    )
    screen.model.what_if.ask_again()
    api.flush()
    (view,) = screen.decision.preferred.rows.values()
    texts = [label.text() for label in view.findChildren(Label)]
    assert texts[1:] == ["There is no build for Windows.", "1. Install WSL 2."]
    assert screen.decision._preferred_fold._button.text() == "1 better, but not available here"
    assert screen.decision._refused_fold._button.text() == "1 ruled out, and why"


@pytest.mark.slow
def test_an_estimate_that_fits_but_is_slow_is_amber(screen: MachineScreen, api: DemoApi) -> None:
    recommendation = advice.answer_plan(PlanRequest())
    first = recommendation.plans[0]
    assert first.estimate is not None
    assert first.estimate.decode is not None
    rate = msgspec.structs.replace(first.estimate.decode, tokens_per_second=0.2)
    slow = msgspec.structs.replace(first, estimate=msgspec.structs.replace(first.estimate, decode=rate))
    api.replies["POST /plan"] = msgspec.structs.replace(recommendation, plans=[slow])
    screen.model.what_if.ask_again()
    api.flush()
    assert screen.estimate_card.fit.accessibleName() == "It fits, but is too slow to talk to"


@pytest.mark.slow
def test_no_plan_at_all_says_so_and_why_not(screen: MachineScreen, api: DemoApi) -> None:
    recommendation = advice.answer_plan(PlanRequest())
    api.replies["POST /plan"] = msgspec.structs.replace(recommendation, plans=advice.REFUSED)
    screen.model.what_if.ask_again()
    api.flush()
    assert screen.decision.sentence.text() == "No engine can do that on this machine."
    assert not screen.decision.second.isVisible()
    assert not screen.estimate_card.isVisible()
    assert len(screen.decision._refused_rows.rows) == 4


@pytest.mark.slow
def test_the_estimate_says_how_fast_how_much_and_whether_it_fits(screen: MachineScreen) -> None:
    figures = {key: figure.accessibleName() for key, figure in screen.estimate_card.figures.items()}
    assert figures == {
        "decode": "writing (decode): 11 tok/s, 11 to 12, calibrated",
        "prefill": "reading (prefill): 64 tok/s, 48 to 81, predicted",
        "context": "largest context per conversation: 40k, 8k requested",
        "memory": "memory: 9.6 GiB, predicted",
    }
    assert screen.estimate_card.fit.accessibleName() == "It fits"
    assert "kept free" in screen.estimate_card.sentence.text()
    (bar,) = screen.estimate_card._bars.values()
    assert bar.usage.text() == "9.6 GiB of 38.4 GiB free"
    assert bar.bar.accessibleName().startswith("Memory: Weights 4.7 GiB, KV cache 4.5 GiB")


@pytest.mark.slow
def test_what_does_not_fit_is_said_pool_by_pool(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["POST /plan"] = advice.workstation_advice
    screen.model.what_if.ask_again()
    api.flush()
    sums = screen.estimate_card
    assert sums.fit.accessibleName() == "It does not fit"
    assert [bar.usage.text() for bar in sums._bars.values()] == [
        "26.0 GiB, but only 20.9 GiB may be used",
        "26.0 GiB, but only 22.3 GiB may be used",
    ]
    assert sums.figures["decode"].accessibleName() == "writing (decode): unknown"
    assert sums.warnings.isVisible()
    assert screen.decision.warnings._sentences == ["ExLlamaV3 has not installed yet."]
    screen.model.what_if.look_at(screen.model.what_if.usable_plans[0])
    assert len(sums._bars) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operate", "wish"),
    [
        (lambda controls: QTest.keyClick(controls.intent, Qt.Key.Key_Down), {"intent": Intent.CODING}),
        (lambda controls: QTest.keyClick(controls.people.field, Qt.Key.Key_Up), {"users": 2}),
        (lambda controls: QTest.keyClick(controls.people.field, Qt.Key.Key_PageUp), {"users": 11}),
        (lambda controls: QTest.keyClick(controls.context, Qt.Key.Key_Down), {"context": 4096}),
        (lambda controls: QTest.keyClick(controls.kv_type, Qt.Key.Key_Down), {"kv_type": "f16"}),
    ],
    ids=["intent", "people", "ten people", "context", "kv"],
)
def test_every_control_can_be_used_by_key_and_asks(
    screen: MachineScreen,
    api: DemoApi,
    qtbot: QtBot,
    operate: Callable[[PlanControls], object],
    wish: dict[str, object],
) -> None:
    operate(screen.controls)
    settle(screen, api, qtbot)
    assert last_plan_asked(api) == msgspec.structs.replace(PlanRequest(model=data.READY.model), **wish)


@pytest.mark.slow
def test_a_typed_model_is_asked_about_when_the_typing_rests(screen: MachineScreen, api: DemoApi, qtbot: QtBot) -> None:
    field = screen.controls.model.field
    field.setFocus()
    field.selectAll()
    before = len(api.bodies_of("POST", "/plan"))
    QTest.keyClicks(field, "llama 3 8b")
    assert len(api.bodies_of("POST", "/plan")) == before
    settle(screen, api, qtbot)
    assert len(api.bodies_of("POST", "/plan")) == before + 1
    assert last_plan_asked(api).model == "llama 3 8b"
    assert field.text() == "llama 3 8b", "an answer does not take the words away"


@pytest.mark.slow
def test_a_model_is_taken_from_the_library(screen: MachineScreen, api: DemoApi, qtbot: QtBot) -> None:
    combo = screen.controls.model
    QTest.keyClick(combo.field, Qt.Key.Key_Down)
    (menu,) = combo.findChildren(Menu)
    entries = {action.text(): action for action in menu.actions()}
    assert "Any model" in entries
    assert not any("Mistral Small" in text for text in entries), "a broken file cannot be planned for"
    entries["gpt-oss 20B   MXFP4"].trigger()
    menu.close()
    settle(screen, api, qtbot)
    assert last_plan_asked(api).model == "gpt-oss-20b-mxfp4"


@pytest.mark.slow
def test_a_counterfactual_is_tried_and_taken_back(
    screen: MachineScreen, api: DemoApi, shell: QuietShell, qtbot: QtBot
) -> None:
    rows = screen.estimate_card.findChildren(ChangeRow)
    assert [row.button.isVisible() for row in rows] == [True, True, False]
    rows[0].button.click()
    settle(screen, api, qtbot)
    assert screen.controls.kv_type.value == "q8_0"
    assert screen._reset.isVisible()
    assert shell.messages == ["Applied: KV cache q8_0."]
    undo = shell.undos[0]
    assert undo is not None
    undo()
    settle(screen, api, qtbot)
    assert screen.controls.kv_type.value == ""
    assert not screen._reset.isVisible()


@pytest.mark.slow
def test_a_context_of_a_counterfactual_can_be_read_off_the_control(
    screen: MachineScreen, api: DemoApi, qtbot: QtBot
) -> None:
    screen.estimate_card.findChildren(ChangeRow)[1].button.click()
    settle(screen, api, qtbot)
    assert screen.controls.context.accessibleName() == "Context: 40k (most that fits)"


@pytest.mark.slow
def test_a_question_that_is_refused_says_why_where_the_answer_was(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["POST /plan"] = data.NO_SUCH_MODEL
    screen.model.what_if.ask_again()
    assert screen._asking_label.text() == "Calculating…"
    api.flush()
    assert screen._asking_label.text() == ""
    assert screen._plan_error.isVisible()
    assert screen._plan_error.accessibleName() == f"Problem: {data.NO_SUCH_MODEL.sentence}"
    assert not screen.decision.isVisible()
    assert not screen.estimate_card.isVisible()
    api.replies["POST /plan"] = advice.answer_plan
    screen._plan_error._button.click()
    api.flush()
    assert screen.decision.isVisible()
    assert not screen._plan_error.isVisible()


@pytest.mark.slow
def test_sums_that_cannot_be_had_say_why(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["POST /estimate"] = REFUSED
    screen.model.what_if.look_at(screen.model.what_if.usable_plans[2])
    api.flush()
    assert screen.estimate_card._error.isVisible()
    assert not screen.estimate_card.sentence.isVisible()


@pytest.mark.slow
def test_a_calibration_shows_how_far_it_is_and_can_be_cancelled(
    screen: MachineScreen, api: DemoApi, shell: QuietShell
) -> None:
    calibration = screen.calibration
    assert calibration._start.text() == "Calibrate again"
    calibration._start.click()
    assert not calibration._start.isVisible()
    shell.broadcast_event(CalibrationChanged(stage="Reading", fraction=0.25))
    assert (calibration._stage.text(), calibration._bar.accessibleName()) == ("Reading", "Calibrating: 25%")
    screen.model.calibration.cancel()
    api.flush()
    assert calibration._start.isVisible()
    assert len(calibration.rows.rows) == 1


@pytest.mark.slow
def test_a_calibration_that_fails_is_said_in_place(screen: MachineScreen, shell: QuietShell) -> None:
    screen.calibration._start.click()
    shell.broadcast_event(CalibrationChanged(stage="", done=True, error="The engine ended."))
    assert screen.calibration._error.isVisible()


@pytest.mark.slow
def test_loads_are_compared_on_one_scale(screen: MachineScreen) -> None:
    names = [ticks.accessibleName() for ticks in screen.load_accuracy.latest.findChildren(Ticks)]
    assert names[0] == "Weights: Predicted 4.7 GiB, measured 4.7 GiB, exact"
    assert names[-1] == "Whole process: Predicted 9.6 GiB, measured 9.6 GiB, -0.2 %"
    assert not screen.load_accuracy.earlier.isVisible(), "earlier loads are folded"


@pytest.mark.slow
def test_before_the_first_load_the_place_says_what_will_be_there(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["GET /loads"] = []
    screen.model.loads.read()
    api.flush()
    assert screen.load_accuracy._about.text().startswith("Once a model has been loaded")
    assert not screen.load_accuracy.latest.isVisible()


@pytest.mark.slow
def test_the_report_is_read_and_then_saved(
    screen: MachineScreen, api: DemoApi, shell: QuietShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not screen.report.isVisible()
    screen._doctor.click()
    assert screen.report.isVisible()
    assert not screen.report._save.isEnabled(), "nothing is saved before it can be read"
    api.flush()
    assert "report_version" in screen.report.text.toPlainText()
    file = tmp_path / "report.json"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(file), ""))
    screen.report._save.click()
    assert file.is_file()
    assert shell.messages == ["report.json was saved."]
    screen.report._copy.click()
    assert shell.copied_texts == [screen.report.text.toPlainText()]


@pytest.mark.slow
def test_logs_and_settings_can_be_added_to_the_report_and_left_out_again(screen: MachineScreen, api: DemoApi) -> None:
    screen._doctor.click()
    api.flush()
    assert not screen.report._less.isVisible()
    screen.report._more.click()
    assert not screen.report._save.isEnabled(), "nothing is saved before it can be read"
    api.flush()
    assert "logs/gateway.jsonl" in screen.report.text.toPlainText()
    assert "prompts" in screen.report._about.text()
    assert not screen.report._more.isVisible()
    screen.report._less.click()
    api.flush()
    assert "report_version" in screen.report.text.toPlainText()


@pytest.mark.slow
def test_a_report_that_cannot_be_had_is_said(screen: MachineScreen, api: DemoApi) -> None:
    api.replies["GET /doctor"] = REFUSED
    screen._doctor.click()
    api.flush()
    assert screen.report._error.isVisible()
    assert not screen.report._save.isEnabled()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("reply", [machines.LAPTOP, machines.WORKSTATION], ids=["laptop", "workstation"])
def test_nothing_is_cut_off_at_twice_the_size(
    theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot, reply: object
) -> None:
    api.replies |= {"GET /machine": reply, "GET /models": [data.LONG_MODEL], "GET /running": []}
    theme.set_percent(200)
    screen = MachineScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1024 - 112, 640)
    screen.show()
    api.flush()
    screen._doctor.click()
    screen.calibration._start.click()
    api.flush()
    QApplication.processEvents()
    content = screen.scroller.widget()
    assert content is not None
    assert content.width() <= screen.scroller.viewport().width()


def colors_along(widget: PartsBar, at: float) -> str:
    image = widget.grab().toImage()
    return image.pixelColor(round(image.width() * at), image.height() // 3).name()


def test_a_bar_is_drawn_to_scale(theme: Theme, qtbot: QtBot) -> None:
    bar = PartsBar(theme, "Bar")
    qtbot.addWidget(bar)
    bar.resize(400, 28)
    bar.set_parts([BarPart("a", 25, "part-1"), BarPart("b", 25, "part-2")], 100, "words")
    assert colors_along(bar, 0.1) == theme.color("part-1").name()
    assert colors_along(bar, 0.4) == theme.color("part-2").name()
    assert colors_along(bar, 0.8) == theme.color("sunken").name()
    bar.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    assert colors_along(bar, 0.9) == theme.color("part-1").name()
    assert bar.accessibleName() == "Bar: words"


def test_what_is_beyond_the_limit_is_seen(theme: Theme, qtbot: QtBot) -> None:
    bar = PartsBar(theme, "Bar")
    qtbot.addWidget(bar)
    bar.resize(400, 28)
    bar.set_parts([BarPart("a", 100, "part-1")], 100, "words")
    bar.set_marks(limit=50)
    beyond = {bar.grab().toImage().pixelColor(x, 9).name() for x in range(320, 360)}
    assert theme.color("part-1").name() not in beyond
    assert colors_along(bar, 0.3) == theme.color("part-1").name()


def test_a_bar_with_a_reach_is_taller(theme: Theme, qtbot: QtBot) -> None:
    bar = PartsBar(theme, "Bar")
    qtbot.addWidget(bar)
    before = bar.sizeHint().height()
    bar.set_marks(reach=0.5)
    assert bar.sizeHint().height() > before


def test_a_legend_keeps_its_entries_while_their_colours_stay(theme: Theme, qtbot: QtBot) -> None:
    legend = Legend(theme)
    qtbot.addWidget(legend)
    legend.set_entries([("part-1", "one"), (LIMIT, "two")])
    first = legend._labels["0 part-1"]
    legend.set_entries([("part-1", "other"), (LIMIT, "two")])
    assert legend._labels["0 part-1"] is first
    assert first.text() == "other"
    legend.set_entries([("part-2", "one")])
    assert list(legend._labels) == ["0 part-2"]


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("99999", 100), ("0", 1), ("", 1)], ids=["plain", "too many", "too few", "nothing"]
)
def test_a_number_is_kept_within_its_limits(theme: Theme, qtbot: QtBot, text: str, value: int) -> None:
    stepper = Stepper(theme, "Users", low=1, high=100)
    qtbot.addWidget(stepper)
    stepper.field.setText(text)
    stepper.field.editingFinished.emit()
    assert stepper.value == value
    assert stepper.field.text() == str(value)


def test_a_stepper_tells_only_what_changed(theme: Theme, qtbot: QtBot) -> None:
    values: list[int] = []
    stepper = Stepper(theme, "Users", low=1, high=3)
    qtbot.addWidget(stepper)
    stepper.changed.connect(values.append)
    stepper._more.click()
    stepper._more.click()
    stepper._more.click()
    stepper._less.click()
    assert values == [2, 3, 2]
    assert stepper._more.isEnabled()


def test_a_combo_keeps_what_is_being_typed(theme: Theme, qtbot: QtBot) -> None:
    combo = Combo(theme, "Model")
    qtbot.addWidget(combo)
    combo.show()
    combo.activateWindow()
    combo.field.setFocus()
    qtbot.waitUntil(combo.field.hasFocus)
    combo.set_text("one")
    assert combo.field.text() == "one"
    QTest.keyClick(combo.field, Qt.Key.Key_End)
    QTest.keyClicks(combo.field, "x")
    combo.set_text("other")
    assert combo.field.text() == "onex"
    with qtbot.waitSignal(combo.chosen) as signal:
        QTest.keyClick(combo.field, Qt.Key.Key_Return)
    assert signal.args == ["onex"]


def test_a_choice_takes_other_options_and_keeps_its_value(theme: Theme, qtbot: QtBot) -> None:
    choice = DropDown(theme, "Context", [("", "Automatic"), ("1", "one")])
    qtbot.addWidget(choice)
    choice.set_value("1")
    choice.set_options([("", "Automatic"), ("2", "two")])
    assert choice.value == "1"
    assert choice.accessibleName() == "Context: 1"


@pytest.mark.slow
def test_the_controls_are_named_for_a_screen_reader(screen: MachineScreen) -> None:
    controls = screen.controls
    assert [
        controls.model.field.accessibleName(),
        controls.intent.accessibleName(),
        controls.people.field.accessibleName(),
        controls.context.accessibleName(),
        controls.kv_type.accessibleName(),
    ] == ["Model", "Use case: Chat", "Users at once", "Context: Automatic", "KV cache: Automatic"]
