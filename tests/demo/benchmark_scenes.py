"""What is photographed of the benchmarks page: empty, a run, a result, two against each other, and a refusal."""

from collections.abc import Iterator

from PySide6.QtWidgets import QApplication

from app.core.events import BenchmarkChanged, RaceChanged, TrialChanged, TuneChanged
from app.gui.screens.benchmarks.plot_view import BarPlotCard, PlotCard
from app.gui.screens.benchmarks.trial_view import TrialRow
from app.gui.screens.benchmarks.view import BenchmarksScreen, ResultSection
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from tests.demo import benchmarks
from tests.demo.api import DemoApi
from tests.demo.scene import BOTH, EVERY_LOOK, SMALL, Replies, Scene, SceneLook, scroll_to

LOOKS = (*BOTH, *(look for look in EVERY_LOOK if look.percent == 200 and look.size == SMALL))
"""At 100 % in a usual window and at 200 % in a small one, light and dark."""


def benchmark_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the benchmarks page shows beside its usual state."""
    page = PageId.BENCHMARKS
    yield Scene("benchmarks-empty", page, {**usual, "GET /benchmarks": []})
    yield Scene("benchmarks-running", page, usual, start_run, looks=LOOKS)
    yield Scene("benchmarks-result", page, usual, show_first, looks=(*BOTH, *EVERY_LOOK, SceneLook(is_mirrored=True)))
    yield Scene("benchmarks-compared", page, usual, show_both, looks=LOOKS)
    yield Scene("benchmarks-plots", page, usual, show_plots, looks=LOOKS)
    yield Scene("benchmarks-several", page, {**usual, "GET /benchmarks": benchmarks.HISTORY}, looks=LOOKS)
    yield Scene("benchmarks-refused", page, usual, refuse_run, looks=LOOKS)
    yield Scene("tuning-running", page, usual, run_tuning)
    yield Scene("tuning-result", page, usual, finish_tuning, looks=LOOKS)
    yield Scene("race-plan", page, usual, plan_race, looks=LOOKS)
    yield Scene("race-running", page, usual, run_race)
    yield Scene("race-result", page, usual, finish_race, looks=LOOKS)
    yield Scene("trial-form", page, usual, plan_trial)
    yield Scene("trial-result", page, usual, finish_trial, looks=LOOKS)
    yield Scene("trial-answers", page, usual, show_answers, looks=LOOKS)
    yield Scene("race-bars", page, usual, show_bars, looks=LOOKS)


def start_run(window: MainWindow, api: DemoApi) -> None:
    """Begin, and come half of the way."""
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.start()
        api.flush()
        window.shell.broadcast_event(benchmarks.RUNNING)


def show_first(window: MainWindow, api: DemoApi) -> None:
    """Show the newest result."""
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.show_receipt(benchmarks.RECEIPTS[0].id)
        api.flush()


def show_both(window: MainWindow, api: DemoApi) -> None:
    """Show two results against each other."""
    show_first(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.compare_with(benchmarks.RECEIPTS[1].id)
        api.flush()
    settle_layout()
    scroll_to(ResultSection)(window, api)


def settle_layout() -> None:
    """Have heights that changed deep inside go outwards, one widget a pass."""
    for _ in range(4):
        QApplication.processEvents()


def show_plots(window: MainWindow, api: DemoApi) -> None:
    """Show what is drawn of two results."""
    show_both(window, api)
    settle_layout()
    scroll_to(PlotCard)(window, api)


def plan_race(window: MainWindow, api: DemoApi) -> None:
    """Show who could race, one of them to be installed."""
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.race.open_plan("m", "chat")
        api.flush()
        page.model.race.choose_install("mistral.rs", is_on=True)


def run_race(window: MainWindow, api: DemoApi) -> None:
    """Begin a race, and come half of the way."""
    plan_race(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.race.start()
        api.flush()
        window.shell.broadcast_event(benchmarks.RACING)


def finish_race(window: MainWindow, api: DemoApi) -> None:
    """Come to the end of a race."""
    run_race(window, api)
    end = RaceChanged(model="m", stage="Done", done=True, result=benchmarks.RACE_RESULT)
    window.shell.broadcast_event(end)
    api.flush()


def show_bars(window: MainWindow, api: DemoApi) -> None:
    """Look at the end of a race."""
    finish_race(window, api)
    settle_layout()
    scroll_to(BarPlotCard)(window, api)


def show_answers(window: MainWindow, api: DemoApi) -> None:
    """Look at both answers to a request."""
    finish_trial(window, api)
    settle_layout()
    scroll_to(TrialRow)(window, api)


def plan_trial(window: MainWindow, api: DemoApi) -> None:
    """Choose what a model is compared with by kept requests."""
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.trial.open_form(page.model.chosen_model)
        api.flush()


def finish_trial(window: MainWindow, api: DemoApi) -> None:
    """Come to the end of a trial."""
    end = TrialChanged(model="m", stage="Done", done=True, result=benchmarks.TRIAL_RESULT)
    window.shell.broadcast_event(end)
    api.flush()


def run_tuning(window: MainWindow, api: DemoApi) -> None:
    """Begin to try settings, and come a third of the way."""
    page = window.pages.currentWidget()
    if isinstance(page, BenchmarksScreen):
        page.model.tuning.start("m", "chat")
        api.flush()
        window.shell.broadcast_event(benchmarks.TUNING)


def finish_tuning(window: MainWindow, api: DemoApi) -> None:
    """Come to the end of trying settings."""
    run_tuning(window, api)
    end = TuneChanged(model="m", stage="Done", done=True, result=benchmarks.TUNING_RESULT)
    window.shell.broadcast_event(end)
    api.flush()


def refuse_run(window: MainWindow, api: DemoApi) -> None:
    """Have a run refused because it was disturbed."""
    start_run(window, api)
    sentence = f"The benchmark was disturbed, so it has no result. {benchmarks.RECEIPTS[2].disturbances[0]}"
    window.shell.broadcast_event(
        BenchmarkChanged(model="m", stage="Ended", done=True, error=sentence, code="benchmark_disturbed")
    )
