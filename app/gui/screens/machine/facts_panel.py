"""All that was found, folded: each fact with its source, and how each probe ended."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.core.machine import Machine, ProbeReport
from app.gui.screens.machine.facts import FactRow, fact_rows
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.panels import Fold
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot
from app.gui.widgets.text import Label, Paragraph

_LABEL_WIDTH = 160
_OUTCOMES = {
    "ok": ("ok", "answered"),
    "absent": ("edge", "not on this machine"),
    "timeout": ("warn", "took too long"),
    "crashed": ("bad", "crashed"),
}


class FactsPanel(QWidget):
    """The two folds at the end of the page."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        box = VBox(theme, self, margins=(0, 8, 0, 0), gap=12)
        self._facts, self._probes = RowList(theme, "Facts"), RowList(theme, "Probes")
        self.facts_fold = Fold(theme, "Every fact and its source", self._facts)
        self.probes_fold = Fold(theme, "How it was detected", self._probes)
        box.addWidget(self.facts_fold)
        box.addWidget(self.probes_fold)

    def show_machine(self, machine: Machine) -> None:
        """Show what was found."""
        rows = {f"{place} {row.label}": row for place, row in enumerate(fact_rows(machine))}
        self._facts.sync(rows, lambda row: FactView(self._theme, row), FactView.show_row)
        self._probes.sync({probe.name: probe for probe in machine.probes}, self._probe_row, _show_probe)

    def _probe_row(self, probe: ProbeReport) -> ListRow:
        row = ListRow(self._theme)
        color, outcome = _OUTCOMES.get(probe.outcome, ("warn", probe.outcome))
        dot = Dot(self._theme)
        dot.show_state(color, outcome)
        row.lead.addWidget(dot)
        row.tail.addWidget(Label(self._theme, f"{probe.seconds:.2f} s", role="meta", color="ink-2"))
        return row


class FactView(QWidget):
    """A fact: its name, its value, and where that comes from."""

    def __init__(self, theme: Theme, row: FactRow) -> None:
        super().__init__()
        line = HBox(theme, self, margins=(16, 8, 16, 8), gap=16)
        label = Label(theme, row.label, color="ink-2")
        label.setFixedWidth(theme.px(_LABEL_WIDTH))
        line.addWidget(label, 0, Qt.AlignmentFlag.AlignTop)
        texts = VBox(theme, gap=2)
        self._value = Paragraph(theme)
        self._source = Paragraph(theme, role="meta", color="ink-3")
        texts.addWidget(self._value)
        texts.addWidget(self._source)
        line.addLayout(texts, 1)
        self.show_row(row)

    def show_row(self, row: FactRow) -> None:
        """Show its value now."""
        self._value.setText(row.text)
        self._value.set_color("ink" if row.is_known else "ink-3")
        self._source.setText(row.tip)
        self.setAccessibleName(f"{row.label}: {row.text}")
        self.setAccessibleDescription(row.tip)


def _show_probe(row: ListRow, probe: ProbeReport) -> None:
    _, outcome = _OUTCOMES.get(probe.outcome, ("warn", probe.outcome))
    row.show_text(f"{probe.name}: {outcome}", probe.detail)
