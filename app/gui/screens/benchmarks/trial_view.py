"""The shadow trial on the page: what to compare with, both sides, each request, the switch and the way back."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy

from app.core.translation import LazyText, tr
from app.core.trials import TrialComparison, TrialResult, TrialSide
from app.gui.screens.benchmarks.run_progress import RunProgress
from app.gui.screens.benchmarks.trial_model import TrialModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import ElidedLabel, Paragraph

_ABOUT = LazyText(
    "Asks both models your last ten kept requests and compares the answers. Requests are kept while the setting “Keep "
    "request contents” is on. They stay on this computer, and nothing is changed until you say so."
)
_WIDEST = 320
ListModels = Callable[[], list[tuple[str, str]]]


class TrialRow(ListRow):
    """One request, with both answers beside each other where they are known in words."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, wraps=True)
        middle = Qt.TextElideMode.ElideMiddle  # names of quantisations differ at their end
        self.heads = tuple(ElidedLabel(theme, role="meta", color="ink-2", mode=middle) for _ in range(2))
        self.answers = (Paragraph(theme, role="meta"), Paragraph(theme, role="meta"))
        beside = HBox(theme, gap=24)
        for head, answer in zip(self.heads, self.answers, strict=True):
            column = VBox(theme, gap=4)
            answer.setTextFormat(Qt.TextFormat.PlainText)
            for label in (head, answer):
                label.hide()
                column.addWidget(label)
            column.addStretch(1)
            beside.addLayout(column, 1)
        self.words.addLayout(beside)

    def show_answers(self, heads: tuple[str, str], answers: tuple[str, str]) -> None:
        """Show both answers, each under the name of who wrote it; nothing where neither has words."""
        for labels, texts in ((self.heads, heads), (self.answers, answers)):
            for label, text in zip(labels, texts, strict=True):
                label.setText(text)
                label.setVisible(any(answers))


class TrialSection(Section):
    """Shows a `TrialModel`; hidden while nobody asked for a trial."""

    def __init__(self, theme: Theme, model: TrialModel, list_models: ListModels) -> None:
        super().__init__(theme, tr("Your requests on another model"))
        self._theme, self._model, self._list_models = theme, model, list_models
        self.error, self._title = ErrorPanel(theme), Paragraph(theme, weight=500)
        self.sides, self.requests = RowList(theme, tr("Both models")), RowList(theme, tr("Requests of the trial"))
        self.models = DropDown(theme, tr("Model or engine to compare with"), [], widest=_WIDEST)
        self.start = Button(theme, tr("Compare"), look=ButtonLook.PRIMARY, icon="gauge", action=model.start)
        self.switch = Button(theme, tr("Use the second"), look=ButtonLook.PRIMARY, action=model.switch)
        self.undo = Button(theme, tr("Undo"), icon="undo-2", name=tr("Undo the switch"), action=model.undo)
        self.close_ = Button(theme, tr("Close"), look=ButtonLook.QUIET, action=model.close_form)
        self.progress = RunProgress(theme, tr("Comparing"), tr("Cancel the trial"), model.cancel)
        self.earlier = RowList(theme, tr("Earlier comparisons"))
        self.models.chosen.connect(model.choose)
        for widget in (self.error, self._title, self.sides, self.requests, self._make_foot(), self.earlier):
            self.body.addWidget(widget)
        model.changed.connect(self.show_trial)
        self.show_trial()

    def show_trial(self) -> None:
        """Show what the model has."""
        model = self._model
        result, is_running = model.result, model.progress is not None
        is_form = bool(model.model) and result is None and not is_running
        self.setVisible(bool(model.model or result or is_running or model.problem))
        if model.problem is not None:
            self.error.show_error(model.problem, tr("Dismiss"), model.dismiss_problem)
        else:
            self.error.hide()
        self._title.setText("" if result is None else " ".join([result.sentence, *result.disturbances]))
        self._title.setVisible(result is not None)
        sides = {} if result is None else {"first": result.first, "second": result.second}
        self.sides.sync(sides, self._make_row, self._show_side)
        self.sides.setVisible(bool(sides))
        requests = {} if result is None else {part.id: part for part in result.requests}
        self.requests.sync(requests, lambda _: TrialRow(self._theme), self._show_request)
        self.requests.setVisible(bool(requests))
        earlier = {f"{part.at}": part for part in model.earlier} if is_form else {}
        self.earlier.sync(earlier, self._make_earlier, self._show_earlier)
        self.earlier.setVisible(bool(earlier))
        self._show_foot(is_form=is_form)

    def _make_foot(self) -> Surface:
        foot = Surface(self._theme)
        foot.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(self._theme, foot, margins=(24, 16, 24, 16), gap=12)
        self._about = Paragraph(self._theme, _ABOUT.tr(), color="ink-2")
        box.addWidget(self._about)
        box.addWidget(self.progress)
        buttons = FlowLayout(self._theme, gap=8, is_centred=True)
        for widget in (self.models, self.start, self.switch, self.undo, self.close_):
            buttons.addWidget(widget)
        box.addLayout(buttons)
        return foot

    def _show_foot(self, *, is_form: bool) -> None:
        model, result = self._model, self._model.result
        if is_form:
            models = [option for option in self._list_models() if option[0] != model.model]
            options = [*models, *model.engine_options]
            names = [name for name, _ in options]
            if model.against not in names:
                model.against = next(iter(names), "")
            self.models.set_options(options)
            self.models.set_value(model.against)
        for widget in (self._about, self.models, self.start):
            widget.setVisible(is_form)
        self.start.setEnabled(bool(model.against))
        self.progress.show_stage(model.progress)
        is_last = result is not None and not model.is_earlier
        self.switch.setVisible(is_last and result is not None and result.can_switch and not model.is_switched)
        self.undo.setVisible(is_last and model.is_switched)
        self.close_.setVisible(model.progress is None)

    def _make_row(self, _part: TrialSide) -> ListRow:
        return ListRow(self._theme, wraps=True)

    def _make_earlier(self, result: TrialResult) -> ListRow:
        row = ListRow(self._theme)
        title, _ = self._model.earlier_texts(result)
        show = partial(self._model.show_result, result)
        row.tail.addWidget(Button(self._theme, tr("Show"), name=tr("Show {title}", title=title), action=show))
        return row

    def _show_earlier(self, row: ListRow, result: TrialResult) -> None:
        row.show_text(*self._model.earlier_texts(result))

    def _show_side(self, row: ListRow, side: TrialSide) -> None:
        row.show_text(*self._model.side_texts(side))

    def _show_request(self, row: TrialRow, part: TrialComparison) -> None:
        row.show_text(*self._model.request_texts(part))
        words = self._model.words.get(part.id)
        row.show_answers(self._model.side_titles, ("", "") if words is None else (words.first, words.second))
