"""The machine page: the computer drawn to scale, what it should run and why, what-if, and how true predictions were."""

from PySide6.QtCore import QDateTime, QLocale
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.machine import Machine
from app.gui.net.stores import Stores
from app.gui.screens.machine.controls import Controls
from app.gui.screens.machine.decision import Decision
from app.gui.screens.machine.drawing import Drawing
from app.gui.screens.machine.found import Found
from app.gui.screens.machine.learning import Learning
from app.gui.screens.machine.model import MachineModel
from app.gui.screens.machine.pools import notes_on
from app.gui.screens.machine.report_view import ReportPanel
from app.gui.screens.machine.sums import Sums
from app.gui.screens.machine.truths import Truths
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column
from app.gui.widgets.panels import ErrorPanel, Page, Section
from app.gui.widgets.press import Button, Look
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label


class MachineScreen(Page):
    """Shows a `MachineModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, "Machine")
        self.model = MachineModel(stores, shell)
        self._fill_head()
        self._error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 6, is_card=True)
        self.report = ReportPanel(theme, self.model.report, shell.copy)
        self._content = QWidget()
        self._content.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        box = Column(theme, self._content, gap=16)
        self.drawing = Drawing(theme)
        self.learning = Learning(theme, self.model.calibrating)
        self.truths = Truths(theme, self.model.loads)
        self.found = Found(theme)
        for part in (self.drawing, self._what_if_section(), self.truths, self.learning, self.found):
            box.addWidget(part)
        for widget in (self._error, self.report, self._skeleton, self._content):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self._listen(shell)

    def _fill_head(self) -> None:
        self._when = Label(self.theme, role="meta", color="ink-2")
        self._doctor = Button(
            self.theme, "Save a report", look=Look.QUIET, icon="file-text", action=self.model.report.open
        )
        self._again = Button(self.theme, "Detect again", icon="refresh-cw", action=self.model.look_again)
        for widget in (self._when, self._doctor, self._again):
            self.head.addWidget(widget)

    def _what_if_section(self) -> QWidget:
        theme, what_if = self.theme, self.model.what_if
        section = Section(theme, "What you want to run")
        self._asking = Label(theme, role="meta", color="ink-2")
        self._reset = Button(theme, "Start over", look=Look.BARE, icon="rotate-ccw", action=what_if.reset)
        section.head.addWidget(self._asking)
        section.head.addWidget(self._reset)
        self.controls = Controls(theme, what_if)
        self._refused, self._waiting = ErrorPanel(theme), Skeleton(theme, 4, is_card=True)
        self.decision, self.sums = Decision(theme, what_if), Sums(theme, what_if)
        box = Column(theme, margins=(0, 4, 0, 0), gap=16)
        for widget in (self.controls, self._refused, self._waiting, self.decision, self.sums):
            box.addWidget(widget)
        section.body.addLayout(box)
        return section

    def _listen(self, shell: Shell) -> None:
        model = self.model
        model.changed.connect(self._show_machine)
        model.what_if.changed.connect(self._show_what_if)
        model.what_if.said.connect(shell.toast)
        model.loads.changed.connect(self.truths.show_loads)
        model.calibrating.changed.connect(lambda: self.learning.show_state(model.value))
        model.report.changed.connect(self.report.show_report)
        model.report.said.connect(shell.toast)
        shell.task_asked.connect(self._do)
        self._show_machine()
        self._show_what_if()
        self.truths.show_loads()
        self.report.show_report()

    def _do(self, task: str) -> None:
        if task == Task.LOOK_AGAIN:
            self.model.look_again()
        elif task == Task.REPORT:
            self.model.report.open()
        elif task == Task.CALIBRATE:
            self.model.calibrating.start()
            self.scroller.ensureWidgetVisible(self.learning)

    def _show_machine(self) -> None:
        model = self.model
        self._again.setEnabled(not model.is_reading)
        self._skeleton.setVisible(model.value is None and model.error is None)
        self._content.setVisible(model.value is not None)
        if model.error is not None:
            self._error.say(model.error, "Try again", model.read)
        else:
            self._error.hide()
        if model.value is not None:
            self._show_found(model.value)
        self.learning.show_state(model.value)

    def _show_found(self, machine: Machine) -> None:
        at = QDateTime.fromSecsSinceEpoch(int(machine.probed_at))
        self._when.setText(f"Detected {QLocale().toString(at.time(), QLocale.FormatType.ShortFormat)}")
        self.drawing.show_machine(self.model.pools(), notes_on(machine))
        self.found.show_machine(machine)

    def _show_what_if(self) -> None:
        what_if = self.model.what_if
        self.controls.show_wishes()
        self._asking.setText("Calculating…" if what_if.is_asking else "")
        self._reset.setVisible(what_if.can_reset)
        self._waiting.setVisible(what_if.advice is None and what_if.error is None)
        if what_if.error is None:
            self._refused.hide()
        else:
            self._refused.say(what_if.error, "Try again", what_if.ask)
        self.decision.setVisible(what_if.advice is not None)
        if what_if.advice is not None:
            self.decision.show_plans()
        self.sums.show_estimate()
