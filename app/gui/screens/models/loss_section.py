"""What a model's quantisation loses against a larger one of this computer: chosen, measured, and said in figures."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QSizePolicy

from app.core.benchmarks import LossResult, MeasureLoss
from app.core.errors import ErrorBody
from app.core.models import ModelInfo, larger_quantizations
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.net.remote import RemoteList
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox, clear_layout
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.text import FigureView, Paragraph

_ABOUT = LazyText(
    "Both are asked for the next word at places of a public-domain text. Each is loaded by itself, "
    "which takes a minute or so."
)
_FIGURES = LazyText(
    "KL divergence: how much its guesses at the next word differ from the larger one's; 0 is not at all. Perplexity: "
    "how much the words of the text surprise it; lower is better, and near that of the larger one little is lost."
)
_COLUMN = 130
_WIDEST = 280


class LossModel(QObject):
    """One model at a time. What was measured is forgotten with it."""

    changed = Signal()

    def __init__(self, api: GatewayApi, library: RemoteList[ModelInfo], parent: QObject) -> None:
        super().__init__(parent)
        self._api, self._library = api, library
        self._call: GatewayCall | None = None
        self.model: ModelInfo | None = None
        self.reference = ""
        self.result: LossResult | None = None
        self.problem: ErrorBody | None = None
        library.changed.connect(self.changed)

    @property
    def is_running(self) -> bool:
        """Whether a measurement goes on."""
        return self._call is not None

    @property
    def references(self) -> list[tuple[str, str]]:
        """Larger files of a model of the same architecture and size, the largest first, with their words."""
        own = self.model
        if own is None or not own.chats or own.attached:
            return []
        larger = larger_quantizations(own, self._library.items)
        return [(part.name, phrases.model_label(part)) for part in larger]

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Name and value of each figure."""
        loss = self.result
        if loss is None:
            return []
        return [
            (tr("KL divergence"), f"{loss.kl_divergence:.4f}"),
            (tr("Same likeliest word"), f"{loss.same_likeliest:.0%}"),
            (tr("Perplexity"), f"{loss.perplexity:.2f}"),
            (tr("Perplexity of the larger"), f"{loss.perplexity_before:.2f}"),
        ]

    def open_model(self, model: ModelInfo | None) -> None:
        """Turn to a model, or to none; what is being measured of another is stopped."""
        self._end_call()
        self.model, self.reference, self.result, self.problem = model, "", None, None
        self.changed.emit()

    def choose(self, reference: str) -> None:
        """Choose what it is set against."""
        self.reference = reference

    def measure(self) -> None:
        """Begin, unless a measurement goes on."""
        names = [name for name, _ in self.references]
        if self._call is not None or self.model is None or not names:
            return
        self.result = self.problem = None
        reference = self.reference if self.reference in names else ""
        body = MeasureLoss(model=self.model.name, reference=reference)
        self._call = self._api.post(
            "/quantization-loss", body, kind=LossResult, then=self._show_result, on_error=self._show_problem
        )
        self.changed.emit()

    def stop(self) -> None:
        """Stop measuring."""
        self._end_call()
        self.changed.emit()

    def _show_result(self, result: LossResult) -> None:
        self._call, self.result = None, result
        self.changed.emit()

    def _show_problem(self, error: ErrorBody) -> None:
        self._call, self.problem = None, error
        self.changed.emit()

    def _end_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None


class LossSection(Section):
    """Shows a `LossModel`; hidden where there is nothing larger to set against."""

    def __init__(self, theme: Theme, model: LossModel) -> None:
        super().__init__(theme, tr("What this quantisation loses"))
        self._theme, self._model = theme, model
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, card, margins=(16, 16, 16, 16), gap=12)
        self.choice = DropDown(theme, tr("The larger one"), [], widest=_WIDEST)
        self.choice.chosen.connect(model.choose)
        self.start = Button(theme, tr("Measure"), name=tr("Measure what this quantisation loses"), action=model.measure)
        self.stop = Button(theme, tr("Stop"), name=tr("Stop measuring the loss"), action=model.stop)
        self.error = ErrorPanel(theme)
        self._figures = FlowLayout(theme, gap=16, line_gap=8)
        buttons = FlowLayout(theme, gap=8)
        for widget in (self.choice, self.start, self.stop):
            buttons.addWidget(widget)
        box.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        box.addLayout(buttons)
        self.against = Paragraph(theme, role="meta", color="ink-2")
        box.addWidget(self.against)
        box.addLayout(self._figures)
        self.meaning = Paragraph(theme, _FIGURES.tr(), role="meta", color="ink-2")
        box.addWidget(self.meaning)
        box.addWidget(self.error)
        self.body.addWidget(card)
        model.changed.connect(self.show_loss)
        self.show_loss()

    def show_loss(self) -> None:
        """Show what the model has."""
        model = self._model
        references = model.references
        self.setVisible(bool(references))
        self.choice.set_options([("", tr("The largest that fits")), *references])
        self.choice.set_value(model.reference)
        against = model.result.reference if model.result is not None else ""
        self.against.setText(tr("Set against {model}.", model=against))
        self.against.setVisible(bool(against))
        self.meaning.setVisible(bool(model.figures))
        self.start.setVisible(not model.is_running)
        self.stop.setVisible(model.is_running)
        clear_layout(self._figures)
        for name, value in model.figures:
            figure = FigureView(self._theme, name, width=_COLUMN)
            figure.show_value(value)
            self._figures.addWidget(figure)
        if model.problem is not None:
            self.error.show_error(model.problem, tr("Try again"), model.measure)
        else:
            self.error.hide()
