"""The benchmarks page: what to measure, the run under way, the result in figures and plots, and earlier results."""

from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QSizePolicy

from app.benchmark.comparison import ReceiptComparison
from app.benchmark.markdown import DISTURBED, comparison_rows, format_seconds, summary_lines
from app.core import words
from app.core.benchmarks import BenchmarkLevel, BenchmarkReceipt
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.model import LEVELS, PROMPT_FILE, SWEEP, BenchmarksModel
from app.gui.screens.benchmarks.plot_view import PlotCard
from app.gui.screens.benchmarks.race_view import RaceSection
from app.gui.screens.benchmarks.run_progress import RunProgress
from app.gui.screens.benchmarks.trial_view import TrialSection
from app.gui.screens.benchmarks.tuning_view import TuneSection
from app.gui.shell.contract import RACE_TASK, TUNE_TASK, PageId, Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Chip
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox, clear_layout
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import EmptyState, ErrorPanel, PageFrame, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import FigureView, Label, Paragraph

_ABOUT = LazyText(
    "Loads the model beside what runs and asks it as a real program would, several times in a drawn order. While other "
    "programs are busy it waits; a result they disturb is not kept."
)
_NOTHING = LazyText("No results yet")
_AGAIN = LazyText("Runs it once more with the same settings and prompts, and says what differs.")
_ABOUT_NOTHING = LazyText("Choose a model above and measure how fast it answers on this computer.")
_FILTERS = LazyText(
    "Web page (*.html);;JSON (*.json);;vLLM (*.vllm.json);;GuideLLM (*.guidellm.json);;"
    "llama-bench (*.llama-bench.json *.llama-bench.md)"
)
_FIGURES = LazyText(
    "First token: how long until an answer begins (TTFT). Per token: how long each one after it takes (TPOT). p99: 99 "
    "of 100 requests took no longer. The two numbers below the speed of writing are an interval that holds the true "
    "speed with 95 % probability."
)
_PROMPT_FILTER = LazyText("Prompts (*.jsonl *.json)")
_WIDEST = 320
_COLUMN = 110
_PRICE_WIDTH = 140
"""Its placeholder, whole."""


class BenchmarksScreen(PageFrame):
    """Shows a `BenchmarksModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Benchmarks"))
        self.model = BenchmarksModel(stores, shell)
        back = partial(shell.show_page, PageId.MACHINE)
        self.head.addWidget(Button(theme, tr("Machine"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 4, is_card=True)
        self.form = BenchmarkForm(theme, self.model)
        self.race = RaceSection(theme, self.model.race, self.model.show_receipt)
        self.trial = TrialSection(theme, self.model.trial, lambda: self.model.model_options)
        self.tuning = TuneSection(theme, self.model.tuning)
        self.result = ResultSection(theme, self.model)
        self._nothing = EmptyState(theme, "gauge", _NOTHING.tr(), _ABOUT_NOTHING.tr())
        self._earlier = Section(theme, tr("Results"))
        self.rows = RowList(theme, tr("Results"))
        self.accuracy = Paragraph(theme, role="meta", color="ink-2")
        self._earlier.body.addWidget(self.accuracy)
        self._earlier.body.addWidget(self.rows)
        for widget in (
            self.error,
            self.form,
            self.race,
            self.trial,
            self.tuning,
            self.result,
            self._skeleton,
            self._nothing,
            self._earlier,
        ):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_state)
        shell.task_requested.connect(self._perform_task)
        self._show_state()

    def _perform_task(self, task: str) -> None:
        if task.startswith(RACE_TASK):
            self.model.choose(model=task.removeprefix(RACE_TASK))
            self.model.race.open_plan(self.model.model, self.model.race_workload)
        elif task.startswith(TUNE_TASK):
            self.model.choose(model=task.removeprefix(TUNE_TASK))
            self.model.tuning.start(self.model.model, self.model.race_workload)

    def _show_state(self) -> None:
        model = self.model
        if model.problem is not None:
            self.error.show_error(model.problem, tr("Dismiss"), model.dismiss_problem)
        elif model.error is not None:
            self.error.show_error(model.error, tr("Try again"), model.read)
        else:
            self.error.hide()
        self.form.show_form()
        self.result.show_result()
        self._skeleton.setVisible(not model.is_known and model.error is None)
        self._nothing.setVisible(model.is_known and not model.items)
        self._earlier.setVisible(bool(model.items))
        self.accuracy.setText(model.accuracy)
        self.accuracy.setVisible(bool(model.accuracy))
        self.rows.sync({item.id: item for item in model.items}, self._make_row, self._show_row)

    def _make_row(self, receipt: BenchmarkReceipt) -> ListRow:
        row = ListRow(self.theme, wraps=True)
        title, _ = self.model.row_texts(receipt)
        show = partial(self.model.show_receipt, receipt.id)
        row.tail.addWidget(Button(self.theme, tr("Show"), name=tr("Show {title}", title=title), action=show))
        name, forget = tr("Delete {title}", title=title), partial(self.model.forget, receipt)
        row.tail.addWidget(Button(self.theme, tr("Delete"), look=ButtonLook.QUIET, name=name, action=forget))
        return row

    def _show_row(self, row: ListRow, receipt: BenchmarkReceipt) -> None:
        row.show_text(*self.model.row_texts(receipt))


class BenchmarkForm(Surface):
    """What is to be measured, and the run under way."""

    def __init__(self, theme: Theme, model: BenchmarksModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(24, 16, 24, 16), gap=12)
        box.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        fields = FlowLayout(theme, gap=8, is_centred=True)
        self.models = DropDown(theme, tr("Model to measure"), model.model_options, widest=_WIDEST)
        self.workloads = DropDown(theme, tr("Workload"), model.workload_options, widest=_WIDEST)
        levels = [(level, _levels_text(level)) for level in LEVELS]
        self.levels = DropDown(theme, tr("Requests at once"), levels)
        self.keeps = Chip(theme, tr("Keep even if disturbed"))
        self.price = Field(theme, tr("Price per kWh"), placeholder=tr("Price per kWh"))
        self.price.setFixedWidth(theme.px(_PRICE_WIDTH))
        self.start = Button(theme, tr("Measure"), look=ButtonLook.PRIMARY, icon="gauge", action=model.start)
        self.race = Button(theme, tr("Find the fastest engine"), icon="train-front", action=self._open_race)
        self.tune = Button(theme, tr("Find the fastest settings"), icon="sliders-horizontal", action=self._start_tuning)
        self.trial = Button(theme, tr("Try another model"), icon="columns-2", action=self._open_trial)
        actions = (self.start, self.race, self.trial, self.tune)
        for widget in (self.models, self.workloads, self.levels, self.keeps, self.price, *actions):
            fields.addWidget(widget)
        box.addLayout(fields)
        self.progress = RunProgress(theme, tr("Measuring"), tr("Cancel the benchmark"), model.cancel)
        box.addWidget(self.progress)
        self.models.chosen.connect(lambda value: model.choose(model=value))
        self.workloads.chosen.connect(self._choose_workload)
        self.levels.chosen.connect(lambda value: model.choose(levels=value))
        self.keeps.toggled.connect(lambda is_on: model.choose(keeps_disturbed=is_on))
        self.price.textChanged.connect(lambda text: model.choose(price=text))

    def _choose_workload(self, workload: str) -> None:
        if workload == PROMPT_FILE:
            name, _ = QFileDialog.getOpenFileName(
                self, tr("Prompts, one a line"), str(Path.home()), _PROMPT_FILTER.tr()
            )
            self._model.read_prompts(Path(name) if name else None)
        else:
            self._model.choose(workload=workload)

    def _open_race(self) -> None:
        self._model.race.open_plan(self._model.chosen_model, self._model.race_workload)

    def _open_trial(self) -> None:
        self._model.trial.open_form(self._model.chosen_model)

    def _start_tuning(self) -> None:
        self._model.tuning.start(self._model.chosen_model, self._model.race_workload, self._model.most_at_once)

    def show_form(self) -> None:
        """Show what is chosen, and how far a run is."""
        model, progress = self._model, self._model.progress
        self.models.set_options(model.model_options)
        self.models.set_value(model.chosen_model)
        self.workloads.set_options(model.workload_options)
        self.workloads.set_value(model.workload)
        self.levels.set_value(model.levels)
        for button in (self.start, self.trial):
            button.setEnabled(not model.is_measuring and bool(model.chosen_model))
        for button in (self.race, self.tune):
            button.setEnabled(model.can_race)
        self.progress.show_stage(progress)


class ResultSection(Section):
    """The result that is shown, alone or beside another."""

    def __init__(self, theme: Theme, model: BenchmarksModel) -> None:
        super().__init__(theme, tr("Result"))
        self._theme, self._model = theme, model
        self._drawn_names: list[str] = []
        self.others = DropDown(theme, tr("Compare with"), [("", tr("Compare with …"))], widest=_WIDEST)
        self.others.chosen.connect(model.compare_with)
        self.again = Button(
            theme, tr("Measure again"), look=ButtonLook.QUIET, icon="rotate-ccw", action=model.repeat_run
        )
        self.again.setToolTip(_AGAIN.tr())
        copy = Button(theme, tr("Copy as Markdown"), look=ButtonLook.QUIET, icon="copy", action=model.copy_markdown)
        save = Button(theme, tr("Save a report"), look=ButtonLook.QUIET, icon="file-text", action=self._save)
        tools = FlowLayout(theme, gap=8, line_gap=8)
        for widget in (self.others, self.again, copy, save):
            tools.addWidget(widget)
        self.body.addLayout(tools)
        self._cards = VBox(theme, gap=16)
        self.body.addLayout(self._cards)

    def show_result(self) -> None:
        """Show what the model has."""
        model = self._model
        self.setVisible(model.first is not None)
        self.again.setEnabled(model.can_repeat)
        self.others.set_options(model.comparison_options)
        names = list(model.shown)
        self.others.set_value(names[1] if len(names) > 1 else "")
        if names != self._drawn_names:
            self._drawn_names = names
            clear_layout(self._cards)
            self._draw()

    def _draw(self) -> None:
        theme, model = self._theme, self._model
        for receipt in model.shown.values():
            self._cards.addWidget(ResultCard(theme, receipt))
        self._cards.addWidget(Paragraph(theme, _FIGURES.tr(), role="meta", color="ink-2"))
        if (comparison := model.comparison) is not None:
            self._draw_comparison(comparison)
        for plot in model.plots:
            self._cards.addWidget(PlotCard(theme, plot))

    def _draw_comparison(self, comparison: ReceiptComparison) -> None:
        rows = RowList(self._theme, tr("Comparison"))
        texts = {f"{row[1]} {row[0]}": row for row in comparison_rows(comparison)}
        rows.sync(texts, lambda _: ListRow(self._theme, wraps=True), _show_comparison_row)
        self._cards.addWidget(rows)
        differences = self._model.difference_text
        self._cards.addWidget(Paragraph(self._theme, differences, role="meta", color="ink-2"))

    def _save(self) -> None:
        start = str(Path.home() / self._model.file_name)
        name, _ = QFileDialog.getSaveFileName(self, tr("Save a report"), start, _FILTERS.tr())
        if name:
            self._model.save_report(Path(name))


class ResultCard(Surface):
    """One result: figures of its first level, a line for each level, and what else is to be said."""

    def __init__(self, theme: Theme, receipt: BenchmarkReceipt) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(24, 16, 24, 16), gap=12)
        title, *sentences = summary_lines(receipt)
        box.addWidget(Paragraph(theme, title, weight=500))
        for level in receipt.levels:
            part = VBox(theme, gap=4)
            if len(receipt.levels) > 1:
                part.addWidget(Label(theme, _level_title(level), role="meta", color="ink-2"))
            figures = FlowLayout(theme, gap=16, line_gap=8)
            for name, value, more in _figures(level):
                figure = FigureView(theme, name, width=_COLUMN)
                figure.show_value(value, more=more)
                figures.addWidget(figure)
            part.addLayout(figures)
            box.addLayout(part)
        for sentence in sentences:
            color = "warn" if sentence.startswith(DISTURBED) else "ink-2"
            box.addWidget(Paragraph(theme, sentence, role="meta", color=color))


def _show_comparison_row(row: ListRow, cells: list[str]) -> None:
    level, name, first, second, ratio, verdict = cells
    row.show_text(
        tr("{name} with {level} at once: {verdict}", name=name, level=level, verdict=verdict),
        tr("{first} against {second}: {ratio} times", first=first, second=second, ratio=ratio),
    )


def _figures(level: BenchmarkLevel) -> list[tuple[str, str, str]]:
    """Return name, value and the quiet line of each figure."""
    ttft, tpot, e2e, decode = level.ttft_s, level.tpot_s, level.e2e_s, level.decode_tokens_s
    interval = tr("{low:.1f} to {high:.1f}", low=decode.low, high=decode.high)
    return [
        (tr("First token"), format_seconds(ttft.median.value), tr("p99 {value}", value=format_seconds(ttft.p99))),
        (tr("Per token"), format_seconds(tpot.median.value), tr("p99 {value}", value=format_seconds(tpot.p99))),
        (tr("Whole answer"), format_seconds(e2e.median.value), tr("p99 {value}", value=format_seconds(e2e.p99))),
        (tr("Writing"), words.format_rate(decode.value), interval),
        (tr("Reading the prompt"), words.format_rate(level.prefill_tokens_s.value), ""),
        (tr("All requests together"), words.format_rate(level.answer_tokens_s.value), ""),
    ]


def _level_title(level: BenchmarkLevel) -> str:
    return tr("{count} at once", count=level.concurrency)


def _levels_text(levels: str) -> str:
    if levels == SWEEP:
        return tr("1 to {most}, while it helps", most=SWEEP.rpartition(",")[2])
    return tr("{levels} at once", levels=levels.replace(",", ", "))
