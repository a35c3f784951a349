"""Answers of several models to one question, side by side: choose the models, read the columns, keep one answer."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.core.models import ModelInfo
from app.core.translation import tr
from app.gui import phrases
from app.gui.screens.chat.options import OptionsPanel
from app.gui.screens.chat.transcript.look import FindThumbnail
from app.gui.screens.chat.transcript.transcript import Transcript
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.buttons import Button, ButtonLook, Chip
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Scroller, Surface, VBox, clear_layout
from app.gui.widgets.text import ElidedLabel, Paragraph

LEAST_MODELS = 2
_COLUMN = 260


class ModelsPanel(OptionsPanel):
    """Which models the next questions of a chat go to; fewer than two of them compare nothing."""

    chosen = Signal(list)
    """Names."""

    def __init__(self, theme: Theme, close: Callable[[], object]) -> None:
        quiet = tr("Choose two or more; each answers your next question, side by side.")
        super().__init__(theme, tr("Compare models"), quiet, close)
        self._names: list[str] = []
        self._chips: dict[str, Chip] = {}
        place = QWidget()
        self._flow = FlowLayout(theme, gap=8)
        VBox(theme, place, margins=(4, 4, 8, 4), gap=0).addLayout(self._flow)
        self._scroller = Scroller(place, tr("Models to compare"))
        self.box.addWidget(self._scroller)
        memory = tr("Models that do not fit into memory together answer one after another.")
        self.box.addWidget(Paragraph(theme, memory, role="meta", color="ink-3"))

    @property
    def field(self) -> QWidget:
        """Where the keyboard begins."""
        return next(iter(self._chips.values()), self)

    @property
    def models(self) -> list[str]:
        """The models chosen, in the order in which they were."""
        return list(self._names)

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        self._scroller.setMaximumHeight(max(self.theme.px(40), height - self.theme.px(96)))

    def show_models(self, models: Sequence[ModelInfo], usual: str = "") -> None:
        """Offer these; the usual model is the first of those that are compared, until others are chosen."""
        titles = {info.name: phrases.model_title(info) for info in models}
        names = [name for name in self._names if name in titles]
        if len(names) < LEAST_MODELS and usual in titles:
            names = [usual]
        if list(titles) == list(self._chips) and names == self._names:
            return
        self._names = names
        clear_layout(self._flow)
        self._chips = {}
        for name, title in titles.items():
            chip = self._chips[name] = Chip(self.theme, title)
            chip.setChecked(name in self._names)
            chip.toggled.connect(partial(self._toggle, name))
            self._flow.addWidget(chip)

    def clear_choice(self) -> None:
        """Compare nothing: what was chosen was meant for another chat."""
        self._names = []
        clear_layout(self._flow)
        self._chips = {}
        self.hide()

    def _toggle(self, name: str, is_on: bool) -> None:  # noqa: FBT001 -- a slot of a bool signal
        self._names = [*(known_name for known_name in self._names if known_name != name), *([name] if is_on else [])]
        self.chosen.emit(self.models)


class ComparisonColumn(Surface):
    """One answer: its model, its speed and first token, its text, and the button that keeps it."""

    def __init__(self, theme: Theme, find_thumbnail: FindThumbnail, keep: Callable[[], object]) -> None:
        super().__init__(theme, fill="ground", radius=Radius.CARD)
        self.setMinimumWidth(theme.px(_COLUMN))
        box = VBox(theme, self, margins=(2, 12, 2, 8), gap=8)
        line = HBox(theme, margins=(24, 0, 24, 0), gap=8)  # as far in as the text below
        head = VBox(theme, gap=0)
        self.title = ElidedLabel(theme, "", weight=600)
        self.figures = ElidedLabel(theme, "", role="meta", color="ink-2")
        head.addWidget(self.title)
        head.addWidget(self.figures)
        self.keep = Button(theme, tr("Keep this one"), look=ButtonLook.PRIMARY, action=keep)
        line.addLayout(head, 1)
        line.addWidget(self.keep)
        box.addLayout(line)
        self.transcript = Transcript(theme, find_thumbnail)
        box.addWidget(self.transcript, 1)

    def show_answer(self, view: TurnView) -> None:
        """Show the answer as it is now."""
        title = view.model_title or view.message.model
        is_done = view.live is None
        self.title.setText(title)
        self.figures.setText(phrases.quiet_line(view.message.timings) if is_done else tr("Writing…"))
        self.setAccessibleName(tr("Answer of {title}", title=title))
        self.transcript.setAccessibleName(tr("Answer of {title}", title=title))
        self.keep.setAccessibleName(tr("Keep the answer of {title}", title=title))
        self.keep.setEnabled(not view.is_busy)
        # What stands above is not said again below, and of its actions only Copy makes sense here.
        message = replace(view.message, timings=None)
        self.transcript.show_turns([replace(view, message=message, model_title="", branches=1, is_busy=True)])


class ComparisonView(QWidget):
    """The columns. `kept` is the answer to go on with; `closed` shows the conversation again."""

    kept = Signal(str)
    closed = Signal()
    action_requested = Signal(str, str, str)
    """As a transcript asks for it: verb, message, value."""
    copy_requested = Signal(str)

    def __init__(self, theme: Theme, find_thumbnail: FindThumbnail) -> None:
        super().__init__()
        self._theme, self._find_thumbnail = theme, find_thumbnail
        self.columns: dict[str, ComparisonColumn] = {}
        box = VBox(theme, self, margins=(16, 8, 16, 8), gap=8)
        head = HBox(theme, gap=8)
        self.question = ElidedLabel(theme, "", weight=500)
        head.addWidget(self.question, 1)
        self._close = Button(
            theme, tr("Show the conversation"), look=ButtonLook.QUIET, icon="x", action=self.closed.emit
        )
        head.addWidget(self._close)
        box.addLayout(head)
        content = QWidget()
        self._row = HBox(theme, content, gap=12)
        box.addWidget(Scroller(content, tr("Answers side by side")), 1)

    def show_answers(self, question: str, views: Sequence[TurnView]) -> None:
        """Show these answers to a question, each in its column."""
        self.question.setText(" ".join(question.split()))
        if list(self.columns) != [view.message.id for view in views]:
            clear_layout(self._row)
            self.columns = {view.message.id: self._make_column(view.message.id) for view in views}
        for view in views:
            self.columns[view.message.id].show_answer(view)

    def pull_answer(self, message: str) -> None:
        """Take what was appended to an answer."""
        if message in self.columns:
            self.columns[message].transcript.pull_answer(message)

    def _make_column(self, answer: str) -> ComparisonColumn:
        column = ComparisonColumn(self._theme, self._find_thumbnail, partial(self.kept.emit, answer))
        column.transcript.action_requested.connect(self.action_requested)
        column.transcript.copy_requested.connect(self.copy_requested)
        self._row.addWidget(column, 1)
        return column
