"""The machine page: the computer drawn to scale, what it should run and why, what-if, and how true predictions were."""

from functools import partial

import msgspec
from PySide6.QtCore import QDateTime, QLocale, Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.advice import Intent
from app.core.machine import Machine, ProbeReport
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.machine.calibration_view import CalibrationSection
from app.gui.screens.machine.decision import DecisionCard
from app.gui.screens.machine.drawing import MachineDrawing
from app.gui.screens.machine.estimate_card import EstimateCard
from app.gui.screens.machine.facts import FactRow, fact_rows
from app.gui.screens.machine.load_accuracy import LoadAccuracy
from app.gui.screens.machine.model import MachineModel
from app.gui.screens.machine.pools import notes_on
from app.gui.screens.machine.report_view import ReportPanel
from app.gui.screens.machine.what_if import AUTOMATIC, INTENTS, KV_TYPES, MOST_PEOPLE, PlanForm, WhatIf, context_options
from app.gui.screens.models.across_section import AcrossSection
from app.gui.shell.contract import PageId, Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.fields import Combo, Stepper
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import ErrorPanel, Fold, PageFrame, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph


class MachineScreen(PageFrame):
    """Shows a `MachineModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Machine"))
        self.model = MachineModel(stores, shell)
        self._fill_head()
        self._error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 6, is_card=True)
        self.report = ReportPanel(theme, self.model.report, shell.copy_text)
        self._content = QWidget()
        self._content.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        box = VBox(theme, self._content, gap=16)
        self.drawing = MachineDrawing(theme)
        self.calibration = CalibrationSection(theme, self.model.calibration)
        measure = partial(shell.show_page, PageId.BENCHMARKS)
        self.calibration.head.addWidget(
            Button(theme, tr("Measure a model"), look=ButtonLook.QUIET, icon="gauge", action=measure)
        )
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
            self.theme, tr("Save a report"), look=ButtonLook.QUIET, icon="file-text", action=self.model.report.open
        )
        self._again = Button(self.theme, tr("Detect again"), icon="refresh-cw", action=self.model.probe_again)
        for widget in (self._when, self._doctor, self._again):
            self.head.addWidget(widget)

    def _what_if_section(self) -> QWidget:
        theme, what_if = self.theme, self.model.what_if
        section = Section(theme, tr("What you want to run"))
        self._asking_label = Label(theme, role="meta", color="ink-2")
        self._reset = Button(
            theme, tr("Start over"), look=ButtonLook.BARE, icon="rotate-ccw", action=what_if.reset_form
        )
        section.head.addWidget(self._asking_label)
        section.head.addWidget(self._reset)
        self.controls = PlanControls(theme, what_if)
        self._plan_error, self._plan_skeleton = ErrorPanel(theme), Skeleton(theme, 4, is_card=True)
        self.decision, self.estimate_card = DecisionCard(theme, what_if), EstimateCard(theme, what_if)
        self.across = AcrossSection(theme, self.model.across)
        box = VBox(theme, margins=(0, 4, 0, 0), gap=16)
        for widget in (
            self.controls,
            self._plan_error,
            self._plan_skeleton,
            self.decision,
            self.estimate_card,
            self.across,
        ):
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
            self._error.show_error(model.error, tr("Try again"), model.read)
        else:
            self._error.hide()
        if model.value is not None:
            self._show_facts(model.value)
        self.calibration.show_state(model.value)

    def _show_facts(self, machine: Machine) -> None:
        at = QDateTime.fromSecsSinceEpoch(int(machine.probed_at))
        self._when.setText(tr("Detected {time}", time=QLocale().toString(at.time(), QLocale.FormatType.ShortFormat)))
        self.drawing.show_machine(self.model.draw_pools(), notes_on(machine))
        self.facts_panel.show_machine(machine)

    def _show_what_if(self) -> None:
        what_if = self.model.what_if
        self.controls.show_form()
        self._asking_label.setText(tr("Calculating…") if what_if.is_asking else "")
        self._reset.setVisible(what_if.can_reset)
        self._plan_skeleton.setVisible(what_if.advice is None and what_if.error is None)
        if what_if.error is None:
            self._plan_error.hide()
        else:
            self._plan_error.show_error(what_if.error, tr("Try again"), what_if.ask_again)
        self.decision.setVisible(what_if.advice is not None)
        if what_if.advice is not None:
            self.decision.show_plans()
        self.estimate_card.show_estimate()


_LABEL_WIDTH = 160
_OUTCOMES = {
    "ok": ("ok", LazyText("answered")),
    "absent": ("edge", LazyText("not on this machine")),
    "timeout": ("warn", LazyText("took too long")),
    "crashed": ("bad", LazyText("crashed")),
}


class FactsPanel(QWidget):
    """The two folds at the end of the page."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        box = VBox(theme, self, margins=(0, 8, 0, 0), gap=12)
        self._facts, self._probes = RowList(theme, tr("Facts")), RowList(theme, tr("Probes"))
        self.facts_fold = Fold(theme, tr("Every fact and its source"), self._facts)
        self.probes_fold = Fold(theme, tr("How it was detected"), self._probes)
        box.addWidget(self.facts_fold)
        box.addWidget(self.probes_fold)

    def show_machine(self, machine: Machine) -> None:
        """Show what was found."""
        rows = {f"{place} {row.label}": row for place, row in enumerate(fact_rows(machine))}
        self._facts.sync(rows, lambda row: FactView(self._theme, row), FactView.show_row)
        self._probes.sync({probe.name: probe for probe in machine.probes}, self._probe_row, _show_probe)

    def _probe_row(self, probe: ProbeReport) -> ListRow:
        row = ListRow(self._theme)
        color, outcome = _OUTCOMES.get(probe.outcome, ("warn", probe.outcome))
        dot = Dot(self._theme)
        dot.show_state(color, str(outcome))
        row.lead.addWidget(dot)
        row.tail.addWidget(Label(self._theme, tr("{seconds:.2f} s", seconds=probe.seconds), role="meta", color="ink-2"))
        return row


class FactView(QWidget):
    """A fact: its name, its value, and where that comes from."""

    def __init__(self, theme: Theme, row: FactRow) -> None:
        super().__init__()
        line = HBox(theme, self, margins=(16, 8, 16, 8), gap=16)
        label = Label(theme, row.label, color="ink-2")
        label.setFixedWidth(theme.px(_LABEL_WIDTH))
        line.addWidget(label, 0, Qt.AlignmentFlag.AlignTop)
        texts = VBox(theme, gap=2)
        self._value = Paragraph(theme)
        self._source = Paragraph(theme, role="meta", color="ink-3")
        texts.addWidget(self._value)
        texts.addWidget(self._source)
        line.addLayout(texts, 1)
        self.show_row(row)

    def show_row(self, row: FactRow) -> None:
        """Show its value now."""
        self._value.setText(row.text)
        self._value.set_color("ink" if row.is_known else "ink-3")
        self._source.setText(row.tip)
        self.setAccessibleName(f"{row.label}: {row.text}")
        self.setAccessibleDescription(row.tip)


def _show_probe(row: ListRow, probe: ProbeReport) -> None:
    _, outcome = _OUTCOMES.get(probe.outcome, ("warn", probe.outcome))
    row.show_text(f"{probe.name}: {outcome}", probe.detail)


_MODEL_WIDTH, _CONTEXT_WIDTH = 300, 184


class PlanControls(QWidget):
    """Five controls that follow a `WhatIf` and change it."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__()
        self._theme, self._what_if = theme, what_if
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.model = Combo(theme, tr("Model"), placeholder=tr("Any model, or type a name"))
        self.intent = DropDown(theme, tr("Use case"), [(intent.value, title.tr()) for intent, title in INTENTS.items()])
        self.people = Stepper(theme, tr("Users at once"), low=1, high=MOST_PEOPLE)
        self.context = DropDown(theme, tr("Context"), context_options(None, None))
        self.kv_type = DropDown(
            theme,
            tr("KV cache"),
            [(AUTOMATIC, tr("Automatic")), *((value, title.tr()) for value, title in KV_TYPES.items())],
        )
        flow = FlowLayout(theme, self, gap=16, line_gap=12)
        controls = (
            (tr("Model"), self.model),
            (tr("Use case"), self.intent),
            (tr("Users at once"), self.people),
            (tr("Context"), self.context),
            (tr("KV cache"), self.kv_type),
        )
        for name, control in controls:
            flow.addWidget(_with_label(theme, name, control))
        self.model.typed.connect(lambda text: self._change_form(is_typing=True, model=text.strip()))
        self.model.chosen.connect(lambda text: self._change_form(model=text))
        self.intent.chosen.connect(lambda value: self._change_form(intent=Intent(value)))
        self.people.changed.connect(lambda value: self._change_form(users=value))
        self.context.chosen.connect(lambda value: self._change_form(context=int(value) if value else None))
        self.kv_type.chosen.connect(lambda value: self._change_form(kv_type=value or None))
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_form(self) -> None:
        """Show what is wished for now."""
        form = self._what_if.form
        models = self._what_if.own_models
        options = [(model.name, f"{phrases.model_title(model)}   {model.quantization}".rstrip()) for model in models]
        self.model.set_options([("", tr("Any model")), *options])
        self.model.set_text(form.model)
        self.intent.set_value(form.intent.value)
        self.people.set_value(form.users)
        estimate = self._what_if.estimate
        largest = estimate.largest_context if estimate else None
        self.context.set_options(context_options(form.context, largest))
        self.context.set_value(str(form.context or AUTOMATIC))
        self.kv_type.set_value(form.kv_type or AUTOMATIC)

    def _change_form(self, *, is_typing: bool = False, **change: object) -> None:
        form: PlanForm = msgspec.structs.replace(self._what_if.form, **change)
        self._what_if.submit_form(form, is_typing=is_typing)

    def _restyle(self) -> None:
        self.model.setFixedWidth(self._theme.px(_MODEL_WIDTH))
        self.context.setFixedWidth(self._theme.px(_CONTEXT_WIDTH))  # its words change with each answer


def _with_label(theme: Theme, name: str, control: QWidget) -> QWidget:
    box = QWidget()
    column = VBox(theme, box, gap=4)
    column.addWidget(Label(theme, name, role="meta", color="ink-2"))
    column.addWidget(control, 0, Qt.AlignmentFlag.AlignLeft)
    return box
