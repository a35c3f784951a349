"""A running model as a row: how it is, what it uses, and a way to stop it or to try again."""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.engines import EngineState, EngineStatus, RemedyOffer
from app.core.errors import ErrorBody
from app.gui import phrases
from app.gui.net.stores import BUSY_STATES
from app.gui.screens.server.mending import MendedPanel, MendSwitch
from app.gui.screens.server.mending_model import WAYS_SHOWN
from app.gui.screens.server.model import ServerModel
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.press import Button, Look
from app.gui.widgets.rows import Row
from app.gui.widgets.status import Dot, Progress
from app.gui.widgets.text import ElidedLabel, Paragraph

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
        box = Column(theme, self, gap=0)
        self._row = Row(theme)
        self._dot, self._state = Dot(theme), ElidedLabel(theme, role="meta", color="ink-2")
        self._state.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._progress = Progress(theme, f"Loading {status.model}")
        self._progress.setFixedWidth(theme.px(_PROGRESS_WIDTH))
        self._unload = Button(
            theme, "Unload", name=f"Unload {status.model}", action=partial(model.unload, status.model)
        )
        self._dismiss = Button(
            theme,
            "Dismiss",
            look=Look.QUIET,
            name=f"Dismiss {status.model}",
            action=partial(model.unload, status.model),
        )
        self._row.lead.addWidget(self._dot)
        for widget in (self._progress, self._state, self._unload, self._dismiss):
            self._row.tail.addWidget(widget)
        self._failure = ErrorPanel(theme)
        self._offers = [Button(theme, "", look=Look.PLAIN) for _ in range(phrases.ONE_PRESS)]
        self._ways = [Button(theme, "", look=Look.QUIET) for _ in range(WAYS_SHOWN)]
        show_log = partial(model.log_asked.emit, status.model)
        log = Button(theme, "Show the log", look=Look.QUIET, name=f"Show the log of {status.model}", action=show_log)
        for button in (*self._offers, *self._ways, log):
            self._failure.buttons.addWidget(button)
        self._switch = MendSwitch(theme, model.mending, status.model)
        self._failure.words.addWidget(self._switch)
        self._mended = MendedPanel(theme, model.mending, status.model)
        self._below = place = QWidget()
        below = Column(theme, place, margins=(16, 0, 16, 12), gap=8)
        self._without = Paragraph(theme, role="meta", color="ink-2")
        under_name = Column(theme, margins=(_NAME_AT, 0, 0, 0))
        under_name.addWidget(self._without)
        below.addLayout(under_name)
        below.addWidget(self._failure)
        below.addWidget(self._mended)
        box.addWidget(self._row)
        box.addWidget(place)

    def show_status(self, status: EngineStatus) -> None:
        """Show what is so now."""
        color, said = phrases.state(status)
        self._dot.say(color, said)
        self._state.setText(said)
        self._row.say(status.model, phrases.running_facts(status))
        self._progress.setVisible(status.state in BUSY_STATES)
        self._progress.set_fraction(status.progress)
        has_failed = status.state is EngineState.FAILED
        self._unload.setVisible(not has_failed)
        self._dismiss.setVisible(has_failed)
        self._failure.setVisible(status.failure is not None)
        self._mended.show_status(status)
        self._below.setVisible(status.failure is not None or bool(status.notes))
        done = {applied.sentence for applied in status.mended}
        without = [note for note in status.notes if note not in done]
        self._without.setText("\n".join(without))
        self._without.setVisible(bool(without))
        if status.failure is not None:
            self._failure.say(
                ErrorBody(
                    code=status.failure.code,
                    sentence=status.failure.sentence,
                    hint=status.failure.hint,
                    detail="\n".join([status.failure.evidence, *status.failure.log_tail[-_LOG_LINES:]]).lstrip(),
                ),
                "Try again",
                partial(self._model.load, self._name),
            )
            self._offer(self._offers, phrases.one_press(status.failure), self._model.apply)
            self._offer(self._ways, self._model.mending.ways(status.failure), self._model.mending.go)
            self._switch.show_failure(status.failure)

    def _offer(
        self, buttons: list[Button], remedies: list[RemedyOffer], do: Callable[[str, RemedyOffer], object]
    ) -> None:
        """Put remedies on buttons."""
        for button, remedy in zip_longest(buttons, remedies):
            button.setVisible(remedy is not None)
            if remedy is not None:
                button.set_text(remedy.label)
                button.setAccessibleName(f"{remedy.label}: {self._name}")
                button.act(partial(do, self._name, remedy))
