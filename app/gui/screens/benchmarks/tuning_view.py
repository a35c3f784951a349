"""Self-tuning on the page: how far it is, before and after, what was tried, and the way back."""

from PySide6.QtWidgets import QSizePolicy

from app.core.benchmarks import CandidateResult
from app.core.translation import tr
from app.gui.screens.benchmarks.run_progress import RunProgress
from app.gui.screens.benchmarks.tuning_model import TuneModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox, clear_layout
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import FigureView, Paragraph

_COLUMN = 110


class TuneSection(Section):
    """Shows a `TuneModel`; hidden while nobody asked for it."""

    def __init__(self, theme: Theme, model: TuneModel) -> None:
        super().__init__(theme, tr("The fastest settings"))
        self._theme, self._model = theme, model
        self.error = ErrorPanel(theme)
        self._sentence = Paragraph(theme, weight=500)
        self._disturbance = Paragraph(theme, role="meta", color="warn")
        self.progress = RunProgress(theme, tr("Trying settings"), tr("Stop trying settings"), model.cancel)
        self.undo = Button(theme, tr("Undo"), icon="undo-2", name=tr("Undo the tuning"), action=model.undo)
        self.longer = Button(theme, tr("Try for ten minutes"), icon="rotate-ccw", action=model.search_longer)
        self.close_ = Button(theme, tr("Close"), look=ButtonLook.QUIET, action=model.close_result)
        self.entries = RowList(theme, tr("Settings that were tried"))
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, card, margins=(24, 16, 24, 16), gap=12)
        self._figures = FlowLayout(theme, gap=16, line_gap=8)
        buttons = FlowLayout(theme, gap=8)
        for button in (self.undo, self.longer, self.close_):
            buttons.addWidget(button)
        box.addWidget(self._sentence)
        box.addWidget(self._disturbance)
        box.addWidget(self.progress)
        box.addLayout(self._figures)
        box.addLayout(buttons)
        self._card = card
        for widget in (self.error, card, self.entries):
            self.body.addWidget(widget)
        model.changed.connect(self.show_tuning)
        self.show_tuning()

    def show_tuning(self) -> None:
        """Show what the model has."""
        model, result = self._model, self._model.result
        self.setVisible(bool(result or model.progress or model.problem))
        if model.problem is not None:
            self.error.show_error(model.problem, tr("Dismiss"), model.dismiss_problem)
        else:
            self.error.hide()
        self._card.setVisible(bool(result or model.progress))
        self._sentence.setText(result.sentence if result is not None else "")
        self._sentence.setVisible(result is not None)
        disturbances = result.disturbances if result is not None else []
        self._disturbance.setText(" ".join(disturbances))
        self._disturbance.setVisible(bool(disturbances))
        self.progress.show_stage(model.progress)
        self.undo.setVisible(result is not None and result.is_change)
        self.longer.setVisible(result is not None and model.last_request is not None)
        self.close_.setVisible(result is not None)
        clear_layout(self._figures)
        for name, value, before in model.figures:
            figure = FigureView(self._theme, name, width=_COLUMN)
            figure.show_value(value, more=before)
            self._figures.addWidget(figure)
        entries = {entry.name: entry for entry in result.entries} if result is not None else {}
        self.entries.sync(entries, lambda _: ListRow(self._theme, wraps=True), self._show_entry)
        self.entries.setVisible(bool(entries))

    def _show_entry(self, row: ListRow, entry: CandidateResult) -> None:
        row.show_text(*self._model.entry_texts(entry))
