"""The benchmarks page: what it asks for, how it follows a run, what it shows of results, and the way to it."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.benchmark.field_formats import format_receipt
from app.core.benchmarks import BenchmarkReceipt, BenchmarkSettings, FieldFormat, StartBenchmark, Workload
from app.core.errors import ErrorBody
from app.core.events import BenchmarkChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.model import KEPT_REQUESTS, SWEEP, BenchmarksModel
from app.gui.screens.benchmarks.plot_view import PlotView
from app.gui.screens.benchmarks.view import BenchmarksScreen, ResultCard
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.rows import ListRow
from app.gui.widgets.text import Label
from tests.demo.api import DemoApi
from tests.demo.benchmarks import RECEIPTS, RUNNING
from tests.gui.conftest import QuietShell

FIRST, SECOND, DISTURBED = RECEIPTS


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> BenchmarksModel:
    page_model = BenchmarksModel(Stores(api, shell), shell, clock=lambda: FIRST.at + 3600)
    api.flush()
    return page_model


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> BenchmarksScreen:
    page = BenchmarksScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    api.flush()
    return page


def texts(screen: BenchmarksScreen) -> str:
    QApplication.processEvents()
    return "\n".join(label.text() for label in screen.findChildren(Label) if label.isVisibleTo(screen))


def test_what_is_chosen_is_asked_for(model: BenchmarksModel, api: DemoApi) -> None:
    model.choose(model=model.model_options[-1][0], workload="agent", levels="1,4,16", keeps_disturbed=True)
    model.start()
    (request,) = [body for method, path, body in api.calls if (method, path) == ("POST", "/benchmarks")]
    assert isinstance(request, StartBenchmark)
    assert (request.model, request.keeps_disturbed) == (model.model_options[-1][0], True)
    assert (request.settings.workload, request.settings.concurrency) == (Workload.AGENT, [1, 4, 16])
    model.start()
    assert len([path for _, path, _ in api.calls if path == "/benchmarks"]) == 1, "one runs"


def test_a_run_is_followed_and_its_result_is_shown(model: BenchmarksModel, api: DemoApi, shell: QuietShell) -> None:
    model.start()
    shell.broadcast_event(RUNNING)
    assert model.progress == RUNNING
    shell.broadcast_event(BenchmarkChanged(model="m", stage="Done", done=True, receipt=SECOND.id))
    api.flush()
    assert model.progress is None
    assert model.first == SECOND
    assert api.calls.count(("GET", "/benchmarks?limit=100", None)) == 2


def test_a_refused_run_says_why_and_can_be_dismissed(model: BenchmarksModel, shell: QuietShell) -> None:
    model.start()
    shell.broadcast_event(BenchmarkChanged(model="m", stage="Ended", done=True, error="Too noisy.", code="noisy"))
    assert model.problem == ErrorBody(code="noisy", sentence="Too noisy.")
    model.dismiss_problem()
    assert model.problem is None


def test_the_end_of_an_earlier_run_is_no_news(model: BenchmarksModel, shell: QuietShell) -> None:
    shell.broadcast_event(BenchmarkChanged(model="m", stage="Ended", done=True, error="Too noisy.", code="noisy"))
    assert model.problem is None


def test_a_run_can_be_cancelled(model: BenchmarksModel, api: DemoApi) -> None:
    model.start()
    api.flush()
    model.cancel()
    api.flush()
    assert ("DELETE", "/benchmarks/job", None) in api.calls
    assert model.progress is None


@pytest.mark.parametrize(("text", "price"), [("0,31", 0.31), (" 0.31 ", 0.31), ("", None), ("-1", None), ("nan", None)])
def test_the_price_of_energy_is_what_was_typed(
    model: BenchmarksModel, api: DemoApi, text: str, price: float | None
) -> None:
    model.choose(price=text)
    model.start()
    api.flush()
    (request,) = api.bodies_of("POST", "/benchmarks")
    assert isinstance(request, StartBenchmark)
    assert request.settings.price_kwh == price


def test_two_results_are_set_against_each_other(model: BenchmarksModel, api: DemoApi) -> None:
    model.show_receipt(FIRST.id)
    api.flush()
    assert model.comparison is None
    model.compare_with(SECOND.id)
    api.flush()
    comparison = model.comparison
    assert comparison is not None
    assert "engine" in {difference.name for difference in comparison.differences}
    assert len(model.plots) == 3
    model.compare_with("")
    assert list(model.shown) == [FIRST.id]


def test_a_result_is_measured_again_and_set_against_the_new_one(
    model: BenchmarksModel, api: DemoApi, shell: QuietShell
) -> None:
    assert not model.can_repeat, "none is shown"
    name = model.model_options[0][0]
    first = msgspec.structs.replace(FIRST, target=msgspec.structs.replace(FIRST.target, model=name))
    api.replies[f"GET /benchmarks/{FIRST.id}"] = first
    model.show_receipt(FIRST.id)
    api.flush()
    model.repeat_run()
    (request,) = api.bodies_of("POST", "/benchmarks")
    assert isinstance(request, StartBenchmark)
    assert (request.model, request.settings) == (name, FIRST.settings)
    assert not model.can_repeat, "it runs"
    shell.broadcast_event(BenchmarkChanged(model="m", stage="Done", done=True, receipt=SECOND.id))
    api.flush()
    assert list(model.shown) == [FIRST.id, SECOND.id]
    assert "engine: llama.cpp → openvino" in model.difference_text


def test_what_cannot_be_asked_again_from_here_is_not_offered(model: BenchmarksModel, api: DemoApi) -> None:
    target = msgspec.structs.replace(FIRST.target, model=model.model_options[0][0])
    own = msgspec.structs.replace(FIRST, target=target, settings=BenchmarkSettings(workload=Workload.FILE))
    api.replies[f"GET /benchmarks/{FIRST.id}"] = own
    model.show_receipt(FIRST.id)
    api.flush()
    model.repeat_run()
    assert not model.can_repeat
    assert api.bodies_of("POST", "/benchmarks") == []


def test_one_s_own_kept_requests_are_asked_and_no_race_is_run_with_them(model: BenchmarksModel, api: DemoApi) -> None:
    assert model.can_race
    model.choose(workload=KEPT_REQUESTS)
    model.start()
    (request,) = api.bodies_of("POST", "/benchmarks")
    assert isinstance(request, StartBenchmark)
    assert (request.kept, request.settings.workload) == (10, Workload.FILE)
    assert not model.can_race
    assert model.race_workload == Workload.CHAT


def test_prompts_of_a_file_are_asked_and_a_wrong_file_changes_nothing(
    model: BenchmarksModel, api: DemoApi, tmp_path: Path
) -> None:
    file = tmp_path / "mine.jsonl"
    model.read_prompts(file)
    assert model.problem is not None
    assert "mine.jsonl cannot be read" in model.problem.sentence
    file.write_text('{"prompt": "Why?"}\n{"prompt":')
    model.read_prompts(file)
    assert model.problem is not None
    assert "mine.jsonl, line 2 is wrong" in model.problem.sentence
    assert model.workload == Workload.CHAT
    file.write_text('{"prompt": "Why?", "max_tokens": 7}')
    model.read_prompts(file)
    assert model.workload_options[-1] == ("file", "Prompts of mine.jsonl")
    model.read_prompts(None)
    model.start()
    (request,) = api.bodies_of("POST", "/benchmarks")
    assert isinstance(request, StartBenchmark)
    assert request.settings.workload == Workload.FILE
    assert [(prompt.messages[0].content, prompt.answer_tokens) for prompt in request.prompts] == [("Why?", 7)]
    assert model.race_workload == Workload.CHAT


def test_a_sweep_is_asked_for_as_one(model: BenchmarksModel, api: DemoApi) -> None:
    model.choose(levels=SWEEP)
    model.start()
    (request,) = api.bodies_of("POST", "/benchmarks")
    assert isinstance(request, StartBenchmark)
    assert (request.settings.concurrency, request.settings.stops_saturated) == ([1, 2, 4, 8, 16], True)


def test_equal_conditions_are_said_too(model: BenchmarksModel, api: DemoApi) -> None:
    api.replies[f"GET /benchmarks/{SECOND.id}"] = msgspec.structs.replace(FIRST, id=SECOND.id)
    assert model.difference_text == ""
    model.show_receipt(FIRST.id)
    api.flush()
    model.compare_with(SECOND.id)
    api.flush()
    assert "same versions and settings" in model.difference_text


def test_a_result_is_deleted_once_that_was_confirmed(model: BenchmarksModel, api: DemoApi, shell: QuietShell) -> None:
    model.show_receipt(FIRST.id)
    api.flush()
    model.forget(FIRST)
    path = f"/benchmarks/{FIRST.id}"
    assert ("DELETE", path, None) not in api.calls
    ((_, _, command),) = shell.confirmations
    command.run()
    api.flush()
    assert ("DELETE", path, None) in api.calls
    assert model.first is None


def test_results_are_copied_and_saved(model: BenchmarksModel, api: DemoApi, shell: QuietShell, tmp_path: Path) -> None:
    model.show_receipt(FIRST.id)
    api.flush()
    model.copy_markdown()
    assert shell.copied_texts[0].count("\n") == 1 + len(FIRST.levels)
    model.save_report(tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")
    model.save_report(tmp_path / "receipt.json")
    assert msgspec.json.decode((tmp_path / "receipt.json").read_bytes(), type=BenchmarkReceipt) == FIRST
    model.save_report(tmp_path / "mine.vllm.json")
    assert (tmp_path / "mine.vllm.json").read_text(encoding="utf-8") == format_receipt(FIRST, FieldFormat.VLLM)
    model.save_report(tmp_path / "nowhere" / "report.html")
    assert model.problem is not None
    assert model.problem.code == "storage"


def test_results_are_rows_and_a_disturbed_one_says_so(screen: BenchmarksScreen) -> None:
    rows = [row for row in screen.findChildren(ListRow) if row.isVisibleTo(screen)]
    assert len(rows) == len(RECEIPTS)
    assert "disturbed" in rows[2].accessibleDescription()
    assert "Result" not in texts(screen).splitlines()


@pytest.mark.slow
def test_a_shown_result_has_figures_plots_and_what_is_the_matter(screen: BenchmarksScreen, api: DemoApi) -> None:
    screen.model.show_receipt(DISTURBED.id)
    api.flush()
    assert "other programs used 41 %" in texts(screen)
    screen.model.show_receipt(FIRST.id)
    api.flush()
    screen.model.compare_with(SECOND.id)
    api.flush()
    QApplication.processEvents()  # what was just made is shown by its layout
    assert len([card for card in screen.findChildren(ResultCard) if card.isVisibleTo(screen)]) == 2
    plots = [plot for plot in screen.findChildren(PlotView) if plot.isVisibleTo(screen)]
    assert len(plots) == 3
    assert "Not the same: engine: llama.cpp → openvino" in texts(screen)
    assert "how long until an answer begins (TTFT)" in texts(screen)
    assert all("at 1" in plot.accessibleDescription() for plot in plots[:2])
    plots[0].resize(300, 200)
    assert len({plots[0].grab().toImage().pixel(x, 100) for x in range(300)}) > 1, "something is drawn"


def test_how_far_predictions_were_off_is_said(screen: BenchmarksScreen) -> None:
    assert "21 % off before anything was measured" in texts(screen)


def test_nothing_yet_says_what_to_do(screen: BenchmarksScreen, api: DemoApi) -> None:
    api.replies["GET /benchmarks"] = []
    screen.model.read()
    api.flush()
    assert "No results yet" in texts(screen)


def test_the_page_is_reached_from_the_machine_page(make_window: Callable[[PageId], MainWindow]) -> None:
    window = make_window(PageId.BENCHMARKS)
    assert isinstance(window.pages.currentWidget(), BenchmarksScreen)
    assert window.rail.buttons[PageId.MACHINE].isChecked()
