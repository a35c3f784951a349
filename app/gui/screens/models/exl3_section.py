"""EXL3 of a model's original weights, in its settings: what it takes, what stands in its way, and the work itself."""

from types import NoneType
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.errors import ErrorBody
from app.core.events import QuantizeChanged
from app.core.models import ModelInfo
from app.core.quantize import QuantizeModel, QuantizePlan, QuantizeResult, is_original
from app.core.translation import LazyText, tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.status import ProgressBar
from app.gui.widgets.text import ElidedLabel, FigureView, Paragraph

_ABOUT = LazyText(
    "ExLlamaV3's converter makes a smaller model of these weights on this computer's card: minutes for a small one, "
    "hours for a large one. It can be stopped, and goes on from its last checkpoint."
)
BITS = ("2", "2.5", "3", "3.5", "4", "5", "6", "8")
"""Bits a weight that people publish; the command line takes any from 1 to 8."""
_USUAL_BITS = "4"
_CANCELLED = "cancelled"
_COLUMN = 130
_WIDTH = 320


class Exl3Model(QObject):
    """One model at a time, and the one run that there can be, of whichever model."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self._call: GatewayCall | None = None
        self.model: ModelInfo | None = None
        self.bits = _USUAL_BITS
        self.plan: QuantizePlan | None = None
        self.progress: QuantizeChanged | None = None
        """How the run under way has come; None when none is."""
        self.result: QuantizeResult | None = None
        self.note = ""
        """What is said of a run that was stopped."""
        self.problem: ErrorBody | None = None
        shell.event_received.connect(self._handle_event)
        shell.connected.connect(self._forget_run)

    @property
    def is_offered(self) -> bool:
        """Whether there is something to make EXL3 of, and a card to make it on."""
        return self.progress is not None or (self.plan is not None and bool(self.plan.card))

    @property
    def can_start(self) -> bool:
        """Whether a run could begin now."""
        return self.progress is None and self.plan is not None and not self.plan.problems

    @property
    def figures(self) -> list[tuple[str, str, str]]:
        """Name and value of what it takes, and what is free of it."""
        plan = self.plan
        if plan is None:
            return []
        return [
            (tr("Result"), words.format_bytes(plan.result_bytes), ""),
            (tr("Disk while converting"), words.format_bytes(plan.disk_bytes), _free_words(plan.free_bytes)),
            (tr("Memory"), words.format_bytes(plan.memory_bytes), ""),
            (tr("Graphics memory"), words.format_bytes(plan.needed_card_bytes), _free_words(plan.card_bytes)),
        ]

    @property
    def stage(self) -> str:
        """Where the run is, and of which model if that is another."""
        run = self.progress
        if run is None:
            return ""
        is_own = self.model is not None and run.model == self.model.name
        return run.stage if is_own else tr("{model}: {stage}", model=run.model, stage=run.stage)

    @property
    def result_text(self) -> str:
        """What came of the last run of this model."""
        result = self.result
        if result is None:
            return self.note
        size, duration = words.format_bytes(result.size_bytes), words.format_duration(result.took_s)
        return tr("{model} is ready: {size}, after {duration}.", model=result.model, size=size, duration=duration)

    def open_model(self, model: ModelInfo | None) -> None:
        """Turn to a model, or to none; a run goes on meanwhile."""
        self.model, self.plan, self.result, self.note, self.problem = model, None, None, "", None
        self.progress = None
        self._fetch_plan()
        if self._takes_model:
            self._api.get("/quantizations/job", QuantizeChanged | None, self._show_run, lambda _: None)  # type: ignore[arg-type]  # a union is no type
        self.changed.emit()

    def choose_bits(self, bits: str) -> None:
        """Choose how many bits a weight has."""
        self.bits, self.problem = bits, None
        self._fetch_plan()

    def start_run(self) -> None:
        """Begin, or go on, unless a run is under way."""
        if not self.can_start:
            return
        self.result, self.note, self.problem = None, "", None
        self._api.post(
            "/quantizations", self._make_body(), kind=QuantizeChanged, then=self._show_run, on_error=self._show_problem
        )

    def stop_run(self) -> None:
        """Stop the run; what is done so far is kept."""
        self._api.send_request(
            "DELETE", "/quantizations/job", None, kind=NoneType, then=lambda _: None, on_error=self._show_problem
        )

    @property
    def _takes_model(self) -> bool:
        model = self.model
        return model is not None and is_original(model) and not (model.attached or model.problem or model.embeds)

    def _make_body(self) -> QuantizeModel:
        name = self.model.name if self.model is not None else ""
        return QuantizeModel(model=name, bits=float(self.bits))

    def _fetch_plan(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._takes_model:
            self._call = self._api.post(
                "/quantizations/plan",
                self._make_body(),
                kind=QuantizePlan,
                then=self._show_plan,
                on_error=self._hide_plan,
            )

    def _show_plan(self, plan: QuantizePlan) -> None:
        self._call, self.plan = None, plan
        self.changed.emit()

    def _hide_plan(self, _error: ErrorBody) -> None:
        """Offer nothing of a model that cannot be planned for: its row says what is the matter with it."""
        self._call = self.plan = None
        self.changed.emit()

    def _show_run(self, run: QuantizeChanged | None) -> None:
        if not self._takes_model or run is None:
            return
        if not run.done:
            self.progress = run
        elif self.model is not None and run.model == self.model.name:
            self._show_end(run)
        self.changed.emit()

    def _show_problem(self, error: ErrorBody) -> None:
        self.problem = error
        self.changed.emit()

    def _handle_event(self, event: Any) -> None:  # noqa: ANN401 -- an Event, as a Qt signal carries it
        if not isinstance(event, QuantizeChanged) or not self._takes_model:
            return
        if not event.done:
            self._show_run(event)
            return
        self.progress = None
        if self.model is not None and event.model == self.model.name:
            self._show_end(event)
        self._fetch_plan()  # there is a folder more, or a checkpoint to go on from
        self.changed.emit()

    def _show_end(self, run: QuantizeChanged) -> None:
        self.result = run.result
        if run.code == _CANCELLED:
            self.note = run.error
        elif run.error:
            self.problem = ErrorBody(code=run.code, sentence=run.error)

    def _forget_run(self) -> None:
        """Forget a run of a gateway that is gone; one that goes on speaks up again."""
        self.progress = None
        self.changed.emit()


class Exl3Section(Section):
    """Shows an `Exl3Model`; hidden where there is no card, or nothing to make EXL3 of."""

    def __init__(self, theme: Theme, model: Exl3Model) -> None:
        super().__init__(theme, tr("Convert to EXL3"))
        self._theme, self._model = theme, model
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, card, margins=(16, 16, 16, 16), gap=12)
        self._figures = FlowLayout(theme, gap=16, line_gap=8)
        self.hindrances = Paragraph(theme, color="warn")
        self.outcome = Paragraph(theme)
        self.error = ErrorPanel(theme)
        box.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        box.addLayout(self._make_buttons())
        self._under_way = self._make_progress()
        box.addWidget(self._under_way)
        box.addLayout(self._figures)
        for widget in (self.hindrances, self.outcome, self.error):
            box.addWidget(widget)
        self.body.addWidget(card)
        model.changed.connect(self.show_state)
        self.show_state()

    def _make_buttons(self) -> FlowLayout:
        theme, model = self._theme, self._model
        buttons = FlowLayout(theme, gap=8)
        options = [(bits, tr("{bits} bits a weight", bits=bits)) for bits in BITS]
        self.bits = DropDown(theme, tr("Bits a weight"), options)
        self.bits.chosen.connect(model.choose_bits)
        self.start = Button(theme, tr("Quantise"), widest=tr("Go on"), action=model.start_run)
        buttons.addWidget(self.bits)
        buttons.addWidget(self.start)
        return buttons

    def _make_progress(self) -> QWidget:
        theme = self._theme
        under_way = QWidget()
        under_way.setMaximumWidth(theme.px(2 * _WIDTH))
        line = HBox(theme, under_way, gap=12)
        column = VBox(theme, gap=6)
        self._stage = ElidedLabel(theme, role="meta", color="ink-2")
        self._bar = ProgressBar(theme, tr("Quantising"))
        column.addWidget(self._stage)
        column.addWidget(self._bar)
        line.addLayout(column, 1)
        self.cancel = Button(theme, tr("Cancel"), name=tr("Stop quantising"), action=self._model.stop_run)
        line.addWidget(self.cancel)
        return under_way

    def show_state(self) -> None:
        """Show what the model has."""
        model, run = self._model, self._model.progress
        self.setVisible(model.is_offered)
        self.bits.set_value(model.bits)
        for widget in (self.bits, self.start):
            widget.setVisible(run is None)
        self.start.set_text(tr("Go on") if model.plan is not None and model.plan.resumes else tr("Quantise"))
        self.start.setEnabled(model.can_start)
        self._under_way.setVisible(run is not None)
        if run is not None:
            self._stage.setText(model.stage)
            self._bar.set_fraction(run.fraction)
        self._show_figures()
        hindrances = model.plan.problems if model.plan is not None and run is None else []
        self.hindrances.setText("\n".join(hindrances))
        self.hindrances.setVisible(bool(hindrances))
        self.outcome.setText(model.result_text)
        self.outcome.setVisible(bool(model.result_text))
        if model.problem is not None:
            self.error.show_error(model.problem, tr("Try again"), model.start_run)
        else:
            self.error.hide()

    def _show_figures(self) -> None:
        clear_layout(self._figures)
        for name, value, more in self._model.figures:
            figure = FigureView(self._theme, name, width=_COLUMN)
            figure.show_value(value, more=more)
            self._figures.addWidget(figure)


def _free_words(size: int | None) -> str:
    return tr("free space unknown") if size is None else tr("{size} free", size=words.format_bytes(size))
