"""The race of a model's engines on the page: who could run and what that takes, the table, the way back."""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QSizePolicy

from app.core.benchmarks import RaceCandidate, RaceEntry
from app.core.translation import tr
from app.gui.screens.benchmarks.plot_view import BarPlotCard
from app.gui.screens.benchmarks.race_model import RaceModel
from app.gui.screens.benchmarks.run_progress import RunProgress
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox, clear_layout
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

ShowReceipt = Callable[[str], object]


class RaceSection(Section):
    """Shows a `RaceModel`; hidden while nobody asked for a race."""

    def __init__(self, theme: Theme, model: RaceModel, show_receipt: ShowReceipt) -> None:
        super().__init__(theme, tr("The fastest engine"))
        self._theme, self._model, self._show_receipt = theme, model, show_receipt
        self._title = Paragraph(theme, weight=500)
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 2, is_card=True)
        self.candidates, self.entries = RowList(theme, tr("Engines")), RowList(theme, tr("Result of the race"))
        self.summary = Paragraph(theme, color="ink-2")
        self.start = Button(theme, tr("Start the race"), look=ButtonLook.PRIMARY, icon="gauge", action=model.start)
        self.undo = Button(theme, tr("Undo"), icon="undo-2", name=tr("Undo the race"), action=model.undo)
        self.again = Button(theme, tr("Race again"), icon="rotate-ccw", action=self._race_again)
        self.close_ = Button(theme, tr("Close"), look=ButtonLook.QUIET, action=model.close_plan)
        self.progress = RunProgress(theme, tr("Racing"), tr("Cancel the race"), model.cancel)
        self._plot = VBox(theme)
        self._drawn_result: object = None
        for widget in (self.error, self._title, self._skeleton, self.candidates, self.entries):
            self.body.addWidget(widget)
        self.body.addLayout(self._plot)
        self.body.addWidget(self._make_foot())
        model.changed.connect(self.show_race)
        self.show_race()

    def show_race(self) -> None:
        """Show what the model has."""
        model = self._model
        plan, result, is_running = model.plan, model.result, model.progress is not None
        self.setVisible(bool(plan or result or is_running or model.problem or model.is_planning))
        if model.problem is not None:
            self.error.show_error(model.problem, tr("Dismiss"), model.dismiss_problem)
        else:
            self.error.hide()
        self._skeleton.setVisible(model.is_planning)
        self._title.setText(result.sentence if result is not None else model.plan_title)
        self._title.setVisible(bool(self._title.text()))
        candidate_by_engine = (
            {part.engine: part for part in plan.candidates} if plan is not None and not is_running else {}
        )
        self.candidates.sync(candidate_by_engine, self._make_candidate, self._show_candidate)
        self.candidates.setVisible(bool(candidate_by_engine))
        entries = {entry.engine: entry for entry in result.entries} if result is not None else {}
        self.entries.sync(entries, self._make_entry, self._show_entry)
        self.entries.setVisible(bool(entries))
        self._draw()
        self._show_foot(is_planned=bool(candidate_by_engine))

    def _make_foot(self) -> Surface:
        theme = self._theme
        self._foot = Surface(theme)
        self._foot.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self._foot, margins=(24, 16, 24, 16), gap=12)
        box.addWidget(self.summary)
        box.addWidget(self.progress)
        buttons = FlowLayout(theme, gap=8)
        for button in (self.start, self.undo, self.again, self.close_):
            buttons.addWidget(button)
        box.addLayout(buttons)
        return self._foot

    def _show_foot(self, *, is_planned: bool) -> None:
        model, result = self._model, self._model.result
        self._foot.setVisible(is_planned or result is not None or model.progress is not None)
        self.summary.setText(model.summary if is_planned else "")
        self.summary.setVisible(is_planned)
        self.progress.show_stage(model.progress)
        self.start.setVisible(is_planned)
        self.start.setEnabled(model.can_start)
        self.undo.setVisible(result is not None and result.is_change)
        self.again.setVisible(result is not None and model.progress is None)
        self.close_.setVisible(model.progress is None)

    def _race_again(self) -> None:
        if self._model.result is not None:
            self._model.open_plan(self._model.result.model, self._model.workload)

    def _make_candidate(self, part: RaceCandidate) -> "CandidateRow":
        return CandidateRow(self._theme, self._model, part)

    def _show_candidate(self, row: "CandidateRow", part: RaceCandidate) -> None:
        row.show_text(*self._model.candidate_texts(part))
        row.toggle.setChecked(part.engine in self._model.installs)

    def _make_entry(self, entry: RaceEntry) -> ListRow:
        row = ListRow(self._theme, wraps=True)
        if entry.receipt:
            name = tr("Show the result of {engine}", engine=self._model.name_engine(entry.engine))
            row.tail.addWidget(
                Button(self._theme, tr("Show"), name=name, action=partial(self._show_receipt, entry.receipt))
            )
        return row

    def _show_entry(self, row: ListRow, entry: RaceEntry) -> None:
        row.show_text(*self._model.entry_texts(entry))

    def _draw(self) -> None:
        result = self._model.result
        if result is self._drawn_result:
            return
        self._drawn_result = result
        clear_layout(self._plot)
        plot = self._model.plot
        if plot is not None:
            self._plot.addWidget(BarPlotCard(self._theme, plot))


class CandidateRow(ListRow):
    """An engine that could run; one that is not here has a switch that has it installed."""

    def __init__(self, theme: Theme, model: RaceModel, part: RaceCandidate) -> None:
        super().__init__(theme, wraps=True)
        self.toggle = Toggle(theme, tr("Install {name} for the race", name=part.name))
        self.toggle.clicked.connect(lambda: model.choose_install(part.engine, is_on=self.toggle.isChecked()))
        self.tail.addWidget(self.toggle)
        self.toggle.setVisible(not part.is_installed)
