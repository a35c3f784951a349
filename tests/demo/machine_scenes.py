"""What is photographed of the machine page: plans, arithmetic, calibration, reports."""

from collections.abc import Iterator

from PySide6.QtWidgets import QApplication

from app.core.events import CalibrationChanged
from app.gui.screens.machine.calibration_view import CalibrationSection
from app.gui.screens.machine.estimate_card import EstimateCard
from app.gui.screens.machine.load_accuracy import LoadAccuracy
from app.gui.screens.machine.view import MachineScreen, PlanControls
from app.gui.screens.machine.what_if import PlanForm
from app.gui.screens.models.across_section import AcrossSection
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.widgets.panels import Fold
from tests.demo import advice, data, machines
from tests.demo.api import DemoApi
from tests.demo.scene import BOTH, EVERY_LOOK, Replies, Scene, SceneLook, scroll_down, scroll_to


def machine_scenes(usual: Replies, much: Replies) -> Iterator[Scene]:
    """Yield what the machine page shows beside its usual state."""
    page = PageId.MACHINE
    cards = {**usual, "GET /machine": machines.WORKSTATION, "POST /plan": advice.workstation_advice}
    yield Scene("machine-plan", page, usual, scroll_to(PlanControls), looks=(*BOTH, *EVERY_LOOK))
    yield Scene(
        "machine-sums",
        page,
        usual,
        scroll_to(EstimateCard),
        looks=(*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True)),
    )
    yield Scene("machine-across", page, usual, plan_over_two, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("machine-truths", page, usual, scroll_to(LoadAccuracy), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-facts", page, usual, unfold_last)
    yield Scene("machine-cards", page, cards, looks=(*BOTH, EVERY_LOOK[2], EVERY_LOOK[1]))
    yield Scene("machine-cards-sums", page, cards, scroll_to(EstimateCard))
    yield Scene("machine-calibrating", page, usual, start_calibration)
    yield Scene("machine-report", page, usual, open_report, looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-bundle", page, usual, open_bundle, looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-refused", page, {**usual, "POST /plan": data.NO_SUCH_MODEL}, scroll_to(PlanControls))
    yield Scene("machine-long-names", page, much, choose_long_model, looks=(*BOTH, EVERY_LOOK[2]))


def choose_long_model(window: MainWindow, api: DemoApi) -> None:
    """Wish for a model whose name is longer than any field, and look at its sums."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        what_if = page.model.what_if
        what_if.submit_form(PlanForm(model=data.LONG_MODEL.name, users=12, context=131072, kv_type="q8_0"))
        what_if.ask_again()
        api.flush()
    scroll_to(PlanControls)(window, api)


def plan_over_two(window: MainWindow, api: DemoApi) -> None:
    """Choose a computer over which the model of the plan is to lie too, and look at that part."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.across.choose_machine("desk", is_chosen=True)
        api.flush()
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_to(AcrossSection)(window, api)


def unfold_last(window: MainWindow, api: DemoApi) -> None:
    """Unfold the last fold of the page and show it."""
    folds = [fold for fold in window.pages.findChildren(Fold) if fold.isVisible()]
    folds[-1].toggle()
    QApplication.sendPostedEvents()
    scroll_down(window, api)


def start_calibration(window: MainWindow, api: DemoApi) -> None:
    """Begin a calibration that has come some way."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.calibration.start()
        window.shell.broadcast_event(CalibrationChanged(stage="Writing with a model of 1.1 GB", fraction=0.62))
    scroll_to(CalibrationSection)(window, api)


def open_report(window: MainWindow, _api: DemoApi) -> None:
    """Have the report written."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.report.open()


def open_bundle(window: MainWindow, _api: DemoApi) -> None:
    """Have the report written with logs and settings around it."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.report.open(is_bundle=True)
