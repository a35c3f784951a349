"""The calibration: what it does in a sentence, the run under way, and what earlier ones have learned."""

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.machine import Machine
from app.core.translation import LazyText, tr
from app.gui.screens.machine.calibration import CalibrationModel, CalibrationRow
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import ProgressBar
from app.gui.widgets.text import ElidedLabel, Paragraph

_ABOUT = LazyText(
    "Runs two small models with the installed engine for about a minute to measure how fast this machine really is. "
    "Speed predictions become much more accurate. It waits while other programs are busy, and a disturbed run leaves "
    "earlier results as they are."
)
_WIDTH = 320


class CalibrationSection(Section):
    """Shows a `CalibrationModel`."""

    def __init__(self, theme: Theme, calibration: CalibrationModel) -> None:
        super().__init__(theme, tr("Calibration"))
        self._theme, self._calibration = theme, calibration
        self._error = ErrorPanel(theme)
        self.body.addWidget(self._error)
        self.body.addWidget(self._make_card())
        self.rows = RowList(theme, tr("Results"), inset=24)
        self.body.addWidget(self.rows)

    def show_state(self, machine: Machine | None) -> None:
        """Show the run under way, and what was learned."""
        model = self._calibration
        progress = model.progress
        self._start.setVisible(progress is None)
        self._start.set_text(tr("Calibrate again") if model.items else tr("Calibrate"))
        self._under_way.setVisible(progress is not None)
        if progress is not None:
            self._stage.setText(progress.stage)
            self._bar.set_fraction(progress.fraction)
        if model.error is None:
            self._error.hide()
        else:
            self._error.show_error(model.error, tr("Try again"), model.start)
        rows = {row.key: row for row in model.list_rows(machine)}
        self.rows.sync(rows, lambda _: ListRow(self._theme, inset=24), _show_row)
        self.rows.setVisible(bool(rows))

    def _make_card(self) -> QWidget:
        theme, model = self._theme, self._calibration
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        frame = VBox(theme, card, margins=(24, 16, 24, 16))
        pair = PairLayout(theme, room=280)
        frame.addLayout(pair)
        texts = VBox(theme)
        texts.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        pair.addLayout(texts)
        tail = HBox(theme, gap=12)
        self._start = Button(theme, tr("Calibrate"), icon="gauge", widest=tr("Calibrate again"), action=model.start)
        self._under_way = QWidget()
        self._under_way.setFixedWidth(theme.px(_WIDTH))
        line = HBox(theme, self._under_way, gap=12)
        stage_column = VBox(theme, gap=6)
        self._stage = ElidedLabel(theme, role="meta", color="ink-2")
        self._bar = ProgressBar(theme, tr("Calibrating"))
        stage_column.addWidget(self._stage)
        stage_column.addWidget(self._bar)
        line.addLayout(stage_column, 1)
        line.addWidget(Button(theme, tr("Cancel"), name=tr("Cancel the calibration"), action=model.cancel))
        tail.addWidget(self._start)
        tail.addWidget(self._under_way)
        pair.addLayout(tail)
        return card


def _show_row(row: ListRow, calibration: CalibrationRow) -> None:
    row.show_text(calibration.title, calibration.quiet)
