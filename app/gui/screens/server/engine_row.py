"""A running model as a row: how it is, what it uses, and a way to stop it or to try again.

What may be left to Roundhouse when a load fails, and what it did: a switch, and a sentence with its way back.
"""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.errors import ErrorBody
from app.core.translation import LazyText, tr
from app.gui import phrases
from app.gui.net.remote_lists import BUSY_STATES
from app.gui.screens.server.auto_remedy_model import WAYS_SHOWN, AutoRemedyModel
from app.gui.screens.server.model import ServerModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.rows import IconLabel, ListRow
from app.gui.widgets.status import Dot, ProgressBar
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_PROGRESS_WIDTH = 120
_LOG_LINES = 12
_NAME_AT = 20
"""Where the name begins, to the right of the dot."""


class EngineRow(QWidget):
    """Shows an `EngineStatus`; a failure stands below the row, with the button that may mend it."""

    def __init__(self, theme: Theme, model: ServerModel, status: EngineStatus) -> None:
        super().__init__()
        self._theme, self._model, self._name = theme, model, status.model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self._row = ListRow(theme)
        self._dot, self._state = Dot(theme), ElidedLabel(theme, role="meta", color="ink-2")
        self._state.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._progress = ProgressBar(theme, tr("Loading {model}", model=status.model))
        self._progress.setFixedWidth(theme.px(_PROGRESS_WIDTH))
        self._unload = Button(
            theme,
            tr("Unload"),
            name=tr("Unload {model}", model=status.model),
            action=partial(model.unload_model, status.model),
        )
        self._dismiss = Button(
            theme,
            tr("Dismiss"),
            look=ButtonLook.QUIET,
            name=tr("Dismiss {model}", model=status.model),
            action=partial(model.unload_model, status.model),
        )
        self._row.lead.addWidget(self._dot)
        for widget in (self._progress, self._state, self._unload, self._dismiss):
            self._row.tail.addWidget(widget)
        self._failure = ErrorPanel(theme)
        self._offers = [Button(theme, "", look=ButtonLook.PLAIN) for _ in range(phrases.ONE_PRESS)]
        self._ways = [Button(theme, "", look=ButtonLook.QUIET) for _ in range(WAYS_SHOWN)]
        show_log = partial(model.log_requested.emit, status.model)
        log = Button(
            theme,
            tr("Show the log"),
            look=ButtonLook.QUIET,
            name=tr("Show the log of {model}", model=status.model),
            action=show_log,
        )
        for button in (*self._offers, *self._ways, log):
            self._failure.buttons.addWidget(button)
        self._switch = AutoRemedySwitch(theme, model.auto_remedy, status.model)
        self._failure.words.addWidget(self._switch)
        self._remedy_panel = RemedyUndoPanel(theme, model.auto_remedy, status.model)
        self._below = place = QWidget()
        below = VBox(theme, place, margins=(16, 0, 16, 12), gap=8)
        self._without = Paragraph(theme, role="meta", color="ink-2")
        under_name = VBox(theme, margins=(_NAME_AT, 0, 0, 0))
        under_name.addWidget(self._without)
        below.addLayout(under_name)
        below.addWidget(self._failure)
        below.addWidget(self._remedy_panel)
        box.addWidget(self._row)
        box.addWidget(place)

    def show_status(self, status: EngineStatus) -> None:
        """Show what is so now."""
        color, state_words = phrases.engine_state(status)
        self._dot.show_state(color, state_words)
        self._state.setText(state_words)
        self._row.show_text(status.model, phrases.engine_facts(status))
        self._progress.setVisible(status.state in BUSY_STATES)
        self._progress.set_fraction(status.progress)
        has_failed = status.state is EngineState.FAILED
        self._unload.setVisible(not has_failed)
        self._dismiss.setVisible(has_failed)
        self._failure.setVisible(status.failure is not None)
        self._remedy_panel.show_status(status)
        self._below.setVisible(status.failure is not None or bool(status.notes or status.placement))
        remedy_sentences = {remedy.sentence for remedy in status.mended}
        placement = [status.placement] if status.placement and status.failure is None else []
        without = [*placement, *(note for note in status.notes if note not in remedy_sentences)]
        self._without.setText("\n".join(without))
        self._without.setVisible(bool(without))
        if status.failure is not None:
            self._failure.show_error(
                ErrorBody(
                    code=status.failure.code,
                    sentence=status.failure.sentence,
                    hint=status.failure.hint,
                    detail="\n".join([status.failure.evidence, *status.failure.log_tail[-_LOG_LINES:]]).lstrip(),
                ),
                tr("Try again"),
                partial(self._model.load_model, self._name),
            )
            self._show_remedies(self._offers, phrases.quick_remedies(status.failure), self._model.apply_remedy)
            self._show_remedies(
                self._ways, self._model.auto_remedy.remedy_ways(status.failure), self._model.auto_remedy.follow_remedy
            )
            self._switch.show_failure(status.failure)

    def _show_remedies(
        self, buttons: list[Button], remedies: list[RemedyOffer], do: Callable[[str, RemedyOffer], object]
    ) -> None:
        """Put remedies on buttons."""
        for button, remedy in zip_longest(buttons, remedies):
            button.setVisible(remedy is not None)
            if remedy is not None:
                button.set_text(remedy.label)
                button.setAccessibleName(f"{remedy.label}: {self._name}")
                button.set_action(partial(do, self._name, remedy))


_WORDS = LazyText("Do this automatically from now on")
_MEANING = LazyText(
    "A model that fails this way is loaded with other options, and you see what was changed. You can undo it."
)


class AutoRemedySwitch(QWidget):
    """Whether what may help against a failure is done without asking."""

    def __init__(self, theme: Theme, model: AutoRemedyModel, name: str) -> None:
        super().__init__()
        self._model, self._name = model, name
        self._failure: FailureReport | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = HBox(theme, self, margins=(0, 8, 0, 8), gap=12)
        self.toggle = Toggle(theme, f"{_WORDS}: {name}")
        self.toggle.clicked.connect(self._apply_choice)
        words = VBox(theme, gap=2)
        words.addWidget(Label(theme, _WORDS.tr()))
        words.addWidget(Paragraph(theme, _MEANING.tr(), role="meta", color="ink-2"))
        line.addWidget(self.toggle, 0, Qt.AlignmentFlag.AlignTop)
        line.addLayout(words, 1)

    def show_failure(self, failure: FailureReport) -> None:
        """Show what is so; nothing where nothing can be left to anybody."""
        self._failure = failure
        self.setVisible(self._model.can_be_automatic(failure))
        self.toggle.setChecked(self._model.is_automatic(failure))

    def _apply_choice(self) -> None:
        if self._failure is not None:
            self._model.set_automatic(self._name, self._failure, is_automatic=self.toggle.isChecked())


class RemedyUndoPanel(Surface):
    """What was changed so that a model loads, and the button that takes it back."""

    def __init__(self, theme: Theme, model: AutoRemedyModel, name: str) -> None:
        super().__init__(theme, fill="accent-soft", outline="")
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        outer = HBox(theme, self, margins=(16, 12, 16, 12), gap=12)
        outer.addWidget(IconLabel(theme, "sliders-horizontal", color="accent"), 0, Qt.AlignmentFlag.AlignTop)
        pair = PairLayout(theme)
        outer.addLayout(pair, 1)
        box = VBox(theme, gap=4)
        self._words = Paragraph(theme)
        box.addWidget(self._words)
        pair.addLayout(box)
        self.button = Button(
            theme, tr("Undo"), name=tr("Load {name} as requested, and stop doing this automatically", name=name)
        )
        pair.addWidget(self.button)

    def show_status(self, status: EngineStatus) -> None:
        """Show what was changed, if anything was."""
        self.setVisible(bool(status.mended))
        self._words.setText("\n".join(remedy.sentence for remedy in status.mended))
        self.button.set_action(partial(self._model.undo_remedies, status))
