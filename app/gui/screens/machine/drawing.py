"""The drawn machine: a bar per pool of memory with its three figures, and below it the devices that compute on it."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.translation import tr
from app.gui.screens.machine.pools import DeviceDrawing, FigureCell, PoolDrawing
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import REACH, REST, BarPart, Legend, PartsBar
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.rows import IconLabel
from app.gui.widgets.text import FigureView, Label, Paragraph

_CELL = 10
_CELL_GAP = 3
_MOST_CELLS = 96
_OTHERS, _OURS = "edge", "part-1"
_COLUMN = 100


class MachineDrawing(Surface):
    """The card with every pool, and what narrows what can be used."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(tr("Memory and devices"))
        box = VBox(theme, self, margins=(24, 20, 24, 20), gap=16)
        self._pools_box = VBox(theme, gap=24)
        box.addLayout(self._pools_box)
        self._notes = VBox(theme, gap=6)
        box.addLayout(self._notes)
        self.pools: dict[str, PoolView] = {}
        self._shown_notes: list[str] = []

    def show_machine(self, pools: Sequence[PoolDrawing], notes: Sequence[str]) -> None:
        """Show every pool, and sentences on limits and on what engines see otherwise."""
        if [pool.id for pool in pools] != list(self.pools):
            clear_layout(self._pools_box)
            self.pools = {pool.id: PoolView(self.theme, pool.name) for pool in pools}
            for view in self.pools.values():
                self._pools_box.addWidget(view)
        for pool in pools:
            self.pools[pool.id].show_pool(pool)
        if self._shown_notes != list(notes):
            self._shown_notes = list(notes)
            clear_layout(self._notes)
            for sentence in notes:
                self._notes.addWidget(Remark(self.theme, sentence, icon="info", color="ink-3"))


class PoolView(QWidget):
    """One pool: what it is, its figures, the bar, who uses it, and its devices."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=8)
        head = PairLayout(theme, room=160)
        names = VBox(theme, gap=2)
        self._name = Label(theme, name, role="section")
        self._detail = Paragraph(theme, role="meta", color="ink-2")
        names.addWidget(self._name)
        names.addWidget(self._detail)
        self._figures = FlowLayout(theme, gap=12, line_gap=6)
        head.addLayout(names)
        head.addLayout(self._figures)
        box.addLayout(head)
        self.bar = PartsBar(theme, name)
        box.addWidget(self.bar)
        self._legend = Legend(theme)
        box.addWidget(self._legend)
        self._devices_box = VBox(theme, margins=(0, 4, 0, 0), gap=0)
        box.addLayout(self._devices_box)
        self._devices: list[DeviceDrawing] = []
        self._figure_views: dict[str, FigureView] = {}

    def show_pool(self, pool: PoolDrawing) -> None:
        """Show its figures now."""
        self._name.setText(pool.name)
        self._detail.setText(pool.detail)
        self._detail.setVisible(bool(pool.detail))
        for cell in pool.figures:
            self._show_figure(cell)
        entries = _legend_entries(pool)
        parts = [BarPart("others", pool.others, _OTHERS), BarPart("ours", pool.ours or 0, _OURS)]
        self.bar.set_parts(parts, pool.total, ", ".join(text for _, text in entries))
        self.bar.set_marks(reach=pool.addressable)
        self._legend.set_entries(entries)
        if self._devices != pool.devices:
            self._devices = pool.devices
            clear_layout(self._devices_box)
            for device in pool.devices:
                self._devices_box.addWidget(DeviceView(self._theme, device))

    def _show_figure(self, cell: FigureCell) -> None:
        if cell.label not in self._figure_views:
            self._figure_views[cell.label] = FigureView(self._theme, cell.label, width=_COLUMN)
            self._figures.addWidget(self._figure_views[cell.label])
        self._figure_views[cell.label].show_value(cell.text, tip=cell.tip)


class DeviceView(QWidget):
    """A device: its name, its figures, its cores as cells, and how engines see it where that differs."""

    def __init__(self, theme: Theme, device: DeviceDrawing) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(f"{device.detail}: {device.name}")
        box = VBox(theme, self, margins=(0, 8, 0, 4), gap=6)
        pair = PairLayout(theme, room=240)
        box.addLayout(pair)
        lead = HBox(theme, gap=12)
        lead.addWidget(IconLabel(theme, device.icon), 0, Qt.AlignmentFlag.AlignTop)
        names = VBox(theme, gap=2)
        names.addWidget(Paragraph(theme, device.name, weight=500))
        names.addWidget(Paragraph(theme, device.detail, role="meta", color="ink-2"))
        if device.cores:
            cores = CoreCells(theme)
            cores.show_cores(device.cores, device.usable_cores)
            names.addWidget(cores)
        lead.addLayout(names, 1)
        pair.addLayout(lead)
        figures = FlowLayout(theme, gap=12, line_gap=6)
        for cell in device.cells:
            figure = FigureView(theme, cell.label, width=_COLUMN)
            figure.show_value(cell.text, tip=cell.tip)
            figures.addWidget(figure)
        pair.addLayout(figures)
        for sentence in device.engine_views:
            box.addWidget(Remark(theme, sentence))


class Remark(QWidget):
    """A sentence with a sign before it: something to know."""

    def __init__(self, theme: Theme, sentence: str, *, icon: str = "triangle-alert", color: str = "warn") -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = HBox(theme, self, gap=12)
        line.addWidget(IconLabel(theme, icon, color=color), 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(Paragraph(theme, sentence, color="ink-2"), 1)


class CoreCells(QWidget):
    """The processor's cores, one cell each: those that may be used are filled."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._cores, self._usable = 0, 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_cores(self, cores: int, usable: float) -> None:
        """Draw `cores` cells, `usable` of them filled."""
        self._cores, self._usable = min(cores, _MOST_CELLS), usable
        self.setAccessibleName(tr("{usable:g} of {cores} cores usable", usable=usable, cores=cores))
        self.setToolTip(tr("{usable:g} of {cores} cores may be used.", usable=usable, cores=cores))
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
        radius = self._theme.px(2)
        for at in range(self._cores):
            left = (at % per_line) * step
            left = self.width() - side - left if is_rtl else left
            share = min(1.0, max(0.0, self._usable - at))
            cell = QRectF(left, (at // per_line) * step + self._theme.px(2), side, side)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.color("line"))
            painter.drawRoundedRect(cell, radius, radius)
            if share:
                painter.setBrush(self._theme.color("ink-3"))
                painter.setOpacity(share)
                painter.drawRoundedRect(cell, radius, radius)
                painter.setOpacity(1.0)


def _legend_entries(pool: PoolDrawing) -> list[tuple[str, str]]:
    ours = [(_OURS, tr("{size} Roundhouse's models", size=words.format_bytes(pool.ours)))] if pool.ours else []
    if pool.used is None:
        return [*ours, (REST, tr("free memory unknown"))]
    size = words.format_bytes(pool.others)
    entries = [
        (_OTHERS, tr("{size} in use", size=size) if pool.ours is None else tr("{size} other programs", size=size)),
        *ours,
        (REST, tr("{size} free", size=words.format_bytes(pool.free))),
    ]
    if pool.addressable is not None:
        entries.append((REACH, tr("{size} at most for graphics", size=words.format_bytes(pool.addressable))))
    return entries
