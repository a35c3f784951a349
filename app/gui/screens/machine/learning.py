"""The calibration: what it does in a sentence, the run under way, and what earlier ones have learned."""

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.machine import Machine
from app.gui.screens.machine.calibrating import Calibrating, CalibrationRow
from app.gui.theme.theme import Theme
from app.gui.widgets.flow import Beside
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.press import Button
from app.gui.widgets.rows import Row, RowList
from app.gui.widgets.status import Progress
from app.gui.widgets.text import ElidedLabel, Paragraph

_ABOUT = (
    "Runs two small models with the installed engine for about a minute to measure how fast this machine really is. "
    "Speed predictions become much more accurate."
)
_WIDTH = 320


class Learning(Section):
    """Shows a `Calibrating`."""

    def __init__(self, theme: Theme, calibrating: Calibrating) -> None:
        super().__init__(theme, "Calibration")
        self._theme, self._calibrating = theme, calibrating
        self._error = ErrorPanel(theme)
        self.body.addWidget(self._error)
        self.body.addWidget(self._card())
        self.rows = RowList(theme, "Results", inset=24)
        self.body.addWidget(self.rows)

    def show_state(self, machine: Machine | None) -> None:
        """Show the run under way, and what was learned."""
        model = self._calibrating
        progress = model.progress
        self._start.setVisible(progress is None)
        self._start.set_text("Calibrate again" if model.items else "Calibrate")
        self._under_way.setVisible(progress is not None)
        if progress is not None:
            self._stage.setText(progress.stage)
            self._bar.set_fraction(progress.fraction)
        if model.error is None:
            self._error.hide()
        else:
            self._error.say(model.error, "Try again", model.start)
        rows = {row.key: row for row in model.rows(machine)}
        self.rows.sync(rows, lambda _: Row(self._theme, inset=24), _show)
        self.rows.setVisible(bool(rows))

    def _card(self) -> QWidget:
        theme, model = self._theme, self._calibrating
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        frame = Column(theme, card, margins=(24, 16, 24, 16))
        pair = Beside(theme, room=280)
        frame.addLayout(pair)
        said = Column(theme)
        said.addWidget(Paragraph(theme, _ABOUT, color="ink-2"))
        pair.addLayout(said)
        tail = Line(theme, gap=12)
        self._start = Button(theme, "Calibrate", icon="gauge", widest="Calibrate again", action=model.start)
        self._under_way = QWidget()
        self._under_way.setFixedWidth(theme.px(_WIDTH))
        line = Line(theme, self._under_way, gap=12)
        told = Column(theme, gap=6)
        self._stage = ElidedLabel(theme, role="meta", color="ink-2")
        self._bar = Progress(theme, "Calibrating")
        told.addWidget(self._stage)
        told.addWidget(self._bar)
        line.addLayout(told, 1)
        line.addWidget(Button(theme, "Cancel", name="Cancel the calibration", action=model.cancel))
        tail.addWidget(self._start)
        tail.addWidget(self._under_way)
        pair.addLayout(tail)
        return card


def _show(row: Row, learned: CalibrationRow) -> None:
    row.say(learned.title, learned.quiet)
