"""The machine page: the computer drawn to scale, what it should run and why, what-if, and how true predictions were."""

from PySide6.QtCore import QDateTime, QLocale
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.machine import Machine
from app.gui.net.remote_lists import Stores
from app.gui.screens.machine.calibration_view import CalibrationSection
from app.gui.screens.machine.controls import PlanControls
from app.gui.screens.machine.decision import DecisionCard
from app.gui.screens.machine.drawing import MachineDrawing
from app.gui.screens.machine.estimate_card import EstimateCard
from app.gui.screens.machine.facts_panel import FactsPanel
from app.gui.screens.machine.load_accuracy import LoadAccuracy
from app.gui.screens.machine.model import MachineModel
from app.gui.screens.machine.pools import notes_on
from app.gui.screens.machine.report_view import ReportPanel
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.layout import VBox
from app.gui.widgets.panels import ErrorPanel, PageFrame, Section
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label


class MachineScreen(PageFrame):
    """Shows a `MachineModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, "Machine")
        self.model = MachineModel(stores, shell)
        self._fill_head()
        self._error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 6, is_card=True)
        self.report = ReportPanel(theme, self.model.report, shell.copy_text)
        self._content = QWidget()
        self._content.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        box = VBox(theme, self._content, gap=16)
        self.drawing = MachineDrawing(theme)
        self.calibration = CalibrationSection(theme, self.model.calibration)
        self.load_accuracy = LoadAccuracy(theme, self.model.loads)
        self.facts_panel = FactsPanel(theme)
        for part in (self.drawing, self._what_if_section(), self.load_accuracy, self.calibration, self.facts_panel):
            box.addWidget(part)
        for widget in (self._error, self.report, self._skeleton, self._content):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self._connect_signals(shell)

    def _fill_head(self) -> None:
        self._when = Label(self.theme, role="meta", color="ink-2")
        self._doctor = Button(
            self.theme, "Save a report", look=ButtonLook.QUIET, icon="file-text", action=self.model.report.open
        )
        self._again = Button(self.theme, "Detect again", icon="refresh-cw", action=self.model.probe_again)
        for widget in (self._when, self._doctor, self._again):
            self.head.addWidget(widget)

    def _what_if_section(self) -> QWidget:
        theme, what_if = self.theme, self.model.what_if
        section = Section(theme, "What you want to run")
        self._asking_label = Label(theme, role="meta", color="ink-2")
        self._reset = Button(theme, "Start over", look=ButtonLook.BARE, icon="rotate-ccw", action=what_if.reset_form)
        section.head.addWidget(self._asking_label)
        section.head.addWidget(self._reset)
        self.controls = PlanControls(theme, what_if)
        self._refused, self._waiting = ErrorPanel(theme), Skeleton(theme, 4, is_card=True)
        self.decision, self.estimate_card = DecisionCard(theme, what_if), EstimateCard(theme, what_if)
        box = VBox(theme, margins=(0, 4, 0, 0), gap=16)
        for widget in (self.controls, self._refused, self._waiting, self.decision, self.estimate_card):
            box.addWidget(widget)
        section.body.addLayout(box)
        return section

    def _connect_signals(self, shell: Shell) -> None:
        model = self.model
        model.changed.connect(self._show_machine)
        model.what_if.changed.connect(self._show_what_if)
        model.what_if.toast_requested.connect(shell.show_toast)
        model.loads.changed.connect(self.load_accuracy.show_loads)
        model.calibration.changed.connect(lambda: self.calibration.show_state(model.value))
        model.report.changed.connect(self.report.show_report)
        model.report.toast_requested.connect(shell.show_toast)
        shell.task_requested.connect(self._perform_task)
        self._show_machine()
        self._show_what_if()
        self.load_accuracy.show_loads()
        self.report.show_report()

    def _perform_task(self, task: str) -> None:
        if task == Task.LOOK_AGAIN:
            self.model.probe_again()
        elif task == Task.REPORT:
            self.model.report.open()
        elif task == Task.CALIBRATE:
            self.model.calibration.start()
            self.scroller.ensureWidgetVisible(self.calibration)

    def _show_machine(self) -> None:
        model = self.model
        self._again.setEnabled(not model.is_reading)
        self._skeleton.setVisible(model.value is None and model.error is None)
        self._content.setVisible(model.value is not None)
        if model.error is not None:
            self._error.show_error(model.error, "Try again", model.read)
        else:
            self._error.hide()
        if model.value is not None:
            self._show_facts(model.value)
        self.calibration.show_state(model.value)

    def _show_facts(self, machine: Machine) -> None:
        at = QDateTime.fromSecsSinceEpoch(int(machine.probed_at))
        self._when.setText(f"Detected {QLocale().toString(at.time(), QLocale.FormatType.ShortFormat)}")
        self.drawing.show_machine(self.model.draw_pools(), notes_on(machine))
        self.facts_panel.show_machine(machine)

    def _show_what_if(self) -> None:
        what_if = self.model.what_if
        self.controls.show_form()
        self._asking_label.setText("Calculating…" if what_if.is_asking else "")
        self._reset.setVisible(what_if.can_reset)
        self._waiting.setVisible(what_if.advice is None and what_if.error is None)
        if what_if.error is None:
            self._refused.hide()
        else:
            self._refused.show_error(what_if.error, "Try again", what_if.ask_again)
        self.decision.setVisible(what_if.advice is not None)
        if what_if.advice is not None:
            self.decision.show_plans()
        self.estimate_card.show_estimate()
