"""What is said to the model before the conversation, and how its words are picked. Empty means: the model's own way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from app.core.chats import Sampling
from app.core.models import AnswerChoices
from app.core.translation import LazyText, tr
from app.gui.screens.chat.answer_form_fields import AnswerFormFields
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import UNBOUNDED, Radius
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox, Scroller, Surface, VBox
from app.gui.widgets.prompt_field import PromptField
from app.gui.widgets.text import ElidedLabel, Label

Number = float | int
_COLUMNS = 4
_CELL = 150
_LEAST = 64
_UNKNOWN = LazyText("default")
_USUAL = LazyText("Leave a field empty to use the model's own value.")
_SEED_LIMIT = 2**32 - 1
_TOKENS_LIMIT = 10**6


@dataclass(frozen=True, slots=True)
class NumberOption:
    """One sampling choice: its name, its words, its range and how to read it."""

    name: str
    words: LazyText
    tip: LazyText
    low: Number
    high: Number

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers make sense."""
        return isinstance(self.low, int)

    @property
    def refusal(self) -> str:
        """What is said of anything else; whole numbers are written out."""
        if self.is_whole:
            return tr(
                "{name} takes a whole number from {low} to {high:,}.", name=self.words, low=self.low, high=self.high
            )
        return tr("{name} takes a number from {low:g} to {high:g}.", name=self.words, low=self.low, high=self.high)

    def parse_text(self, text: str) -> Number | None:
        """Return the number typed; None for nothing. Raises ValueError for what makes no sense."""
        bare = text.strip().replace(",", ".")
        if not bare:
            return None
        value: Number = int(bare) if self.is_whole else float(bare)
        if not self.low <= value <= self.high:
            raise ValueError(bare)
        return value


SAMPLING_OPTIONS = (
    NumberOption(
        "temperature",
        LazyText("Temperature"),
        LazyText("0 always picks the most likely word; 1 or more gives livelier answers."),
        0.0,
        5.0,
    ),
    NumberOption(
        "top_p",
        LazyText("Top-p"),
        LazyText("Choose only among the most likely words that together reach this probability."),
        0.0,
        1.0,
    ),
    NumberOption(
        "top_k",
        LazyText("Top-k"),
        LazyText("Choose only among this many of the most likely words; 0 for all."),
        0,
        1000,
    ),
    NumberOption(
        "min_p",
        LazyText("Min-p"),
        LazyText("Choose only among words at least this likely compared with the most likely one."),
        0.0,
        1.0,
    ),
    NumberOption(
        "repeat_penalty",
        LazyText("Repeat penalty"),
        LazyText("Above 1, words already used become less likely."),
        0.0,
        3.0,
    ),
    NumberOption(
        "seed", LazyText("Seed"), LazyText("The same seed gives the same answer to the same question."), 0, _SEED_LIMIT
    ),
    NumberOption("max_tokens", LazyText("Longest answer"), LazyText("In tokens."), 1, _TOKENS_LIMIT),
)


class OptionsPanel(Surface):
    """A card above the composer, closed by its button and by Escape. `quiet` says what it is for.

    `tools` takes what stands at the end of its title.
    """

    def __init__(self, theme: Theme, title: str, quiet: str, close: Callable[[], object]) -> None:
        super().__init__(theme, radius=Radius.CARD)
        self._close = close
        self.setAccessibleName(title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.box = VBox(theme, self, margins=(16, 8, 8, 16), gap=8)
        head = HBox(theme, gap=8)
        self.quiet = ElidedLabel(theme, quiet, role="meta", color="ink-2")
        head.addWidget(Label(theme, title, weight=600))
        head.addWidget(self.quiet, 1)
        self.tools = HBox(theme, gap=8)
        head.addLayout(self.tools)
        head.addWidget(IconButton(theme, "x", tr("Close {title}", title=title.lower()), action=close, size=28))
        self.box.addLayout(head)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Leave on Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self._close()
        else:
            super().keyPressEvent(event)


class SamplingPanel(OptionsPanel):
    """A field per choice. What is typed counts once it makes sense and the field is left."""

    chosen = Signal(object)
    """`Sampling`."""

    def __init__(self, theme: Theme, close: Callable[[], object]) -> None:
        super().__init__(theme, tr("Sampling"), _USUAL.tr(), close)
        self._page = QWidget()
        self._sheet = VBox(theme, self._page, gap=12)
        self._grid = QGridLayout()
        self._sheet.addLayout(self._grid)
        self._fields: dict[str, Field] = {}
        self._cells = [self._make_cell(choice) for choice in SAMPLING_OPTIONS]
        self._cells.append(
            Button(theme, tr("Reset all"), look=ButtonLook.QUIET, icon="rotate-ccw", action=self._reset_fields)
        )
        self.form = AnswerFormFields(theme)
        self.form.changed.connect(self._read_fields)
        self.form.refused.connect(self._show_refusal)
        self.form.resized.connect(self._fit_columns)
        self._sheet.addWidget(self.form)
        self._columns, self._limit = 0, UNBOUNDED
        self._scroller = Scroller(self._page, tr("Sampling options"))
        self.box.addWidget(self._scroller)
        theme.changed.connect(self._restyle)
        self._restyle()

    @property
    def field(self) -> Field:
        """The first of the fields."""
        return next(iter(self._fields.values()))

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        self._limit = height
        self._fit_columns()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Put as many fields beside each other as there is room for."""
        super().resizeEvent(event)
        self._fit_columns()

    def show_sampling(self, sampling: Sampling) -> None:
        """Show what is chosen."""
        for choice in SAMPLING_OPTIONS:
            value = getattr(sampling, choice.name)
            field = self._fields[choice.name]
            if not field.hasFocus():
                field.setText("" if value is None else f"{value:g}" if isinstance(value, float) else str(value))
                field.set_wrong(False)
        self.form.show_sampling(sampling)
        self._fit_columns()

    def show_choices(self, choices: AnswerChoices) -> None:
        """Offer what the model and its engine can."""
        self.form.show_choices(choices)
        self._fit_columns()

    def show_defaults(self, words: Mapping[str, str]) -> None:
        """Say in the empty fields what they mean, by the choice's name."""
        for choice in SAMPLING_OPTIONS:
            self._fields[choice.name].setPlaceholderText(words.get(choice.name, _UNKNOWN.tr()))

    def _make_cell(self, choice: NumberOption) -> QWidget:
        cell = QWidget()
        box = VBox(self.theme, cell, gap=4)
        box.addWidget(Label(self.theme, choice.words.tr(), role="meta", color="ink-2"))
        field = Field(self.theme, f"{choice.words}. {choice.tip}", placeholder=_UNKNOWN.tr())
        field.setToolTip(choice.tip.tr())
        field.editingFinished.connect(self._read_fields)
        self._fields[choice.name] = field
        box.addWidget(field)
        return cell

    def _read_fields(self) -> None:
        values: dict[str, Any] = {}
        for choice in SAMPLING_OPTIONS:
            field = self._fields[choice.name]
            try:
                values[choice.name] = choice.parse_text(field.text())
            except ValueError:
                field.set_wrong(True)
                self._show_hint(choice.refusal, color="bad")
                return
            field.set_wrong(False)
        if self.form.problem:
            self._show_refusal(self.form.problem)
        else:
            self._show_hint(_USUAL.tr())
        self.chosen.emit(msgspec.structs.replace(self.form.sampling, **values))

    def _show_refusal(self, words: str) -> None:
        self._show_hint(words, color="bad")

    def _show_hint(self, words: str, *, color: str = "ink-2") -> None:
        self.quiet.setText(words)
        self.quiet.set_color(color)

    def _reset_fields(self) -> None:
        for field in self._fields.values():
            field.clear()
        self.form.clear()
        self._read_fields()

    def _sheet_height(self) -> int:
        """Return the height of all fields; what was shown or hidden since the last layout counts."""
        for layout in (self.form.layout(), self._sheet):
            if layout is not None:
                layout.invalidate()
        wrapped_height = self._sheet.totalHeightForWidth(self._scroller.viewport().width())  # -1 where nothing wraps
        return max(wrapped_height, self._sheet.sizeHint().height() if wrapped_height < 0 else 0)

    def _restyle(self) -> None:
        self._grid.setHorizontalSpacing(self.theme.px(12))
        self._grid.setVerticalSpacing(self.theme.px(12))
        self._sheet.setContentsMargins(2, 2, self.theme.px(8), 2)
        self._columns = 0
        self._fit_columns()

    def _fit_columns(self) -> None:
        columns = min(_COLUMNS, max(1, (self.width() - self.theme.px(40)) // self.theme.px(_CELL)))
        if columns != self._columns:
            for column in range(_COLUMNS):
                self._grid.setColumnStretch(column, 1 if column < columns else 0)
            for place, cell in enumerate(self._cells):
                self._grid.addWidget(cell, place // columns, place % columns, Qt.AlignmentFlag.AlignBottom)
            self._columns = columns
        height = self._sheet_height()
        self._page.setMinimumHeight(height)
        self._scroller.setFixedHeight(min(height, max(self.theme.px(_LEAST), self._limit)))


class SystemPromptPanel(OptionsPanel):
    """The system prompt of the chat."""

    chosen = Signal(str)

    def __init__(self, theme: Theme, close: Callable[[], object]) -> None:
        super().__init__(theme, tr("System prompt"), tr("Sent to the model before the conversation."), close)
        self.field = PromptField(theme, tr("System prompt"), height=96)
        self.field.focus_left.connect(self.submit_prompt)
        self.field.setPlaceholderText(tr("For example: Answer in one short paragraph."))
        row = HBox(theme, margins=(0, 0, 8, 0), gap=0)
        row.addWidget(self.field)
        self.box.addLayout(row)

    def show_prompt(self, text: str) -> None:
        """Show the prompt of another chat."""
        self.field.set_text(text)

    def submit_prompt(self) -> None:
        """Say what is typed."""
        self.chosen.emit(self.field.toPlainText().strip())
