"""The drawn machine: a bar per pool of memory with its figures, and the processor's cores as cells."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.engines import Reason
from app.gui.screens.machine.model import FactRow, Pool, figure
from app.gui.theme.theme import Theme
from app.gui.widgets.flow import Flow
from app.gui.widgets.layout import Column, Line
from app.gui.widgets.status import Dot, Part, PartsBar
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_CELL = 14
_CELL_GAP = 4
_MOST_CELLS = 96
_LABEL_WIDTH = 160


class PoolView(QWidget):
    """One pool: what it is, the bar, and a legend whose figures keep their width."""

    def __init__(self, theme: Theme, pool: Pool) -> None:
        super().__init__()
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, gap=8)
        head = Line(theme, gap=8)
        self._name = Label(theme, pool.name, weight=500)
        self._detail = ElidedLabel(theme, color="ink-2")
        self._total = Label(theme, weight=500)
        head.addWidget(self._name)
        head.addWidget(self._detail, 1)
        head.addWidget(self._total)
        box.addLayout(head)
        self._bar = PartsBar(theme, pool.name)
        box.addWidget(self._bar)
        legend = Flow(theme, gap=16)
        self._figures: dict[str, Label] = {}
        for key, color, said in (
            ("others", "edge", "other programs"),
            ("ours", "accent", "Roundhouse's models"),
            ("free", "line", "free"),
        ):
            entry = QWidget()
            line = Line(theme, entry, gap=8)
            dot = Dot(theme)
            dot.say(color, said)
            self._figures[key] = Label(theme, role="meta", color="ink-2")
            line.addWidget(dot)
            line.addWidget(self._figures[key])
            legend.addWidget(entry)
        box.addLayout(legend)

    def show_pool(self, pool: Pool) -> None:
        """Show its figures now."""
        self._detail.setText(pool.detail)
        self._total.setText(words.size(pool.total))
        figures = {
            "others": f"{words.size(pool.others)} other programs",
            "ours": f"{words.size(pool.ours)} Roundhouse's models",
            "free": f"{words.size(pool.free)} free",
        }
        for key, text in figures.items():
            self._figures[key].setText(text)
        parts = [Part("others", pool.others, "edge"), Part("ours", pool.ours, "accent")]
        self._bar.set_parts(parts, pool.total, ", ".join(figures.values()))
        self.setToolTip(pool.source)


class Cores(QWidget):
    """The processor's cores, one cell each: those that may be used are filled."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._cores, self._usable = 0, 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_cores(self, cores: int, usable: float, tip: str) -> None:
        """Draw `cores` cells, `usable` of them filled."""
        self._cores, self._usable = min(cores, _MOST_CELLS), usable
        self.setAccessibleName(f"{usable:g} of {cores} cores usable")
        self.setToolTip(tip)
        self.updateGeometry()
        self.update()

    def hasHeightForWidth(self) -> bool:  # noqa: N802 -- Qt's name
        """Tell that cells wrap."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 -- Qt's name
        """Return the height of as many lines of cells as are needed."""
        step = self._theme.px(_CELL + _CELL_GAP)
        lines = -(-self._cores // max(1, width // step))
        return max(1, lines) * step

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a line of cells."""
        return QSize(self._theme.px(240), self.heightForWidth(self.width()))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the cells."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        side, step = self._theme.px(_CELL), self._theme.px(_CELL + _CELL_GAP)
        per_line = max(1, self.width() // step)
        is_rtl = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        for at in range(self._cores):
            left = (at % per_line) * step
            left = self.width() - side - left if is_rtl else left
            share = min(1.0, max(0.0, self._usable - at))
            cell = QRectF(left, (at // per_line) * step, side, side)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.color("line"))
            painter.drawRoundedRect(cell, 3, 3)
            if share:
                painter.setBrush(self._theme.color("accent"))
                painter.setOpacity(share)
                painter.drawRoundedRect(cell, 3, 3)
                painter.setOpacity(1.0)


class ReasonView(QWidget):
    """A reason: its sentence, where that was read, and the value if the sentence does not say it."""

    def __init__(self, theme: Theme, reason: Reason) -> None:
        super().__init__()
        line = Line(theme, self, margins=(0, 8, 0, 8), gap=16)
        said = Column(theme, gap=2)
        self._text = Paragraph(theme, weight=500)
        self._source = Paragraph(theme, role="meta", color="ink-2")
        self._value = Label(theme, weight=500)
        said.addWidget(self._text)
        said.addWidget(self._source)
        line.addLayout(said, 1)
        line.addWidget(self._value)
        self.show_reason(reason)

    def show_reason(self, reason: Reason) -> None:
        """Show it as it is now."""
        self._text.setText(reason.text)
        self._source.setText(f"from {reason.source}")
        self._source.setVisible(bool(reason.source))
        self._value.setText(figure(reason))


class FactView(QWidget):
    """A fact: its name, its value, and its source as a tip."""

    def __init__(self, theme: Theme, row: FactRow) -> None:
        super().__init__()
        line = Line(theme, self, margins=(16, 8, 16, 8), gap=16)
        label = Label(theme, row.label, color="ink-2")
        label.setFixedWidth(theme.px(_LABEL_WIDTH))
        line.addWidget(label, 0, Qt.AlignmentFlag.AlignTop)
        self._value = Paragraph(theme)
        line.addWidget(self._value, 1)
        self.show_row(row)

    def show_row(self, row: FactRow) -> None:
        """Show its value now."""
        self._value.setText(row.text)
        self._value.set_color("ink" if row.is_known else "ink-3")
        self.setToolTip(row.tip)
        self.setAccessibleName(f"{row.label}: {row.text}")
        self.setAccessibleDescription(row.tip)
