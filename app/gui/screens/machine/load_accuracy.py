"""Predicted against measured: for each load, paired ticks on one scale, with how far each prediction was off."""

from PySide6.QtCore import QDateTime, QLocale, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.translation import LazyText, tr, tr_plural
from app.gui.screens.machine.loads import Lane, LoadRow, LoadStore
from app.gui.theme.theme import Theme
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, VBox, hairline_pen
from app.gui.widgets.panels import ErrorPanel, Fold, Section
from app.gui.widgets.rows import RowList
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_HEIGHT = 22
_TICK = 3
_NAME_WIDTH = 136
_SAID_WIDTH = 236
_ABOUT = LazyText("Predicted memory use above the line, and what the engine reported below it.")
_NONE = LazyText("Once a model has been loaded, this shows its predicted and measured memory use side by side.")


class LoadAccuracy(Section):
    """Shows a `LoadStore`: the latest open, earlier ones folded."""

    def __init__(self, theme: Theme, loads: LoadStore) -> None:
        super().__init__(theme, tr("Predicted and measured"))
        self._theme, self._loads = theme, loads
        self._error = ErrorPanel(theme)
        self._about = Paragraph(theme, color="ink-2")
        self.latest, self.earlier = RowList(theme, tr("Latest load")), RowList(theme, tr("Earlier loads"))
        self._fold = Fold(theme, tr("Earlier loads"), self.earlier)
        for widget in (self._about, self._error, self.latest, self._fold):
            self.body.addWidget(widget)

    def show_loads(self) -> None:
        """Show the loads there are."""
        rows = self._loads.rows
        if self._loads.error is None:
            self._error.hide()
        else:
            self._error.show_error(self._loads.error, tr("Try again"), self._loads.read)
        self._about.setText((_ABOUT if rows or not self._loads.is_known else _NONE).tr())
        self._sync_rows(self.latest, rows[:1])
        self.latest.setVisible(bool(rows))
        self._sync_rows(self.earlier, rows[1:])
        self._fold.setVisible(len(rows) > 1)
        self._fold.set_title(tr_plural("{count} earlier load", "{count} earlier loads", len(rows) - 1))

    def _sync_rows(self, box: RowList, rows: list[LoadRow]) -> None:
        row_by_key = {f"{row.truth.at} {row.truth.model} {place}": row for place, row in enumerate(rows)}
        box.sync(row_by_key, lambda row: LoadView(self._theme, row), lambda _view, _row: None)


class LoadView(QWidget):
    """One load, lane below lane."""

    def __init__(self, theme: Theme, row: LoadRow) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(tr("Load of {model}", model=row.truth.model))
        box = VBox(theme, self, margins=(24, 12, 24, 12), gap=10)
        head = PairLayout(theme, room=200)
        names, error_side = VBox(theme, gap=2), HBox(theme)
        names.addWidget(ElidedLabel(theme, row.truth.model, weight=500, mode=Qt.TextElideMode.ElideMiddle))
        names.addWidget(ElidedLabel(theme, _load_facts(row), role="meta", color="ink-2"))
        if row.together is not None:
            error_side.addWidget(Label(theme, row.together.error_words, weight=600, color=row.together.color))
        head.addLayout(names)
        head.addLayout(error_side)
        box.addLayout(head)
        lanes = VBox(theme, gap=6)
        for lane in row.lanes:
            lanes.addWidget(LaneView(theme, lane, row.scale))
        box.addLayout(lanes)


class LaneView(QWidget):
    """One component: its name, the pair of ticks, and the figures."""

    def __init__(self, theme: Theme, lane: Lane, scale: int) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        pair = PairLayout(theme, room=260, gap=12)
        frame = VBox(theme, self)
        frame.addLayout(pair)
        scale_side, figure_side = HBox(theme, gap=12), HBox(theme, gap=12)
        name = Label(theme, lane.name, role="meta", color="ink-2")
        name.setFixedWidth(theme.px(_NAME_WIDTH))
        scale_side.addWidget(name)
        scale_side.addWidget(Ticks(theme, lane, scale), 1)
        figures = QWidget()
        figures.setFixedWidth(theme.px(_SAID_WIDTH))
        line = HBox(theme, figures, gap=12)
        line.addWidget(
            Label(
                theme,
                tr(
                    "{predicted}, then {measured}",
                    predicted=words.format_bytes(lane.predicted),
                    measured=words.format_bytes(lane.measured),
                ),
                role="meta",
            ),
            1,
        )
        line.addWidget(Label(theme, lane.error_words, role="meta", color="ink-2", weight=500))
        figure_side.addWidget(figures)
        pair.addLayout(scale_side)
        pair.addLayout(figure_side)


class Ticks(QWidget):
    """A scale from nothing to the largest figure: the predicted tick above its line, the measured one below."""

    def __init__(self, theme: Theme, lane: Lane, scale: int) -> None:
        super().__init__()
        self._theme, self._lane, self._scale = theme, lane, max(scale, 1)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        prediction, measurement = words.format_bytes(lane.predicted), words.format_bytes(lane.measured)
        description = tr(
            "Predicted {prediction}, measured {measurement}, {error}",
            prediction=prediction,
            measurement=measurement,
            error=lane.error_words,
        )
        self.setAccessibleName(f"{lane.name}: {description}")
        self.setToolTip(description)
        theme.changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a line of the scale."""
        return QSize(self._theme.px(120), self._theme.px(_HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the line, the stretch up to the measured figure, and the two ticks."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            painter.translate(self.width(), 0)
            painter.scale(-1, 1)
        middle, width = self.height() / 2, self._theme.px(_TICK)
        painter.setPen(hairline_pen(self._theme, "line"))
        painter.drawLine(QPointF(0, middle), QPointF(self.width(), middle))
        measured_x, predicted_x = (self._x_at(amount, width) for amount in (self._lane.measured, self._lane.predicted))
        painter.setPen(QPen(self._theme.color("edge"), self._theme.px(2)))
        painter.drawLine(QPointF(0, middle), QPointF(measured_x, middle))
        reach = middle - self._theme.px(1)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("accent"))
        painter.drawRoundedRect(QRectF(predicted_x, middle - reach, width, reach), 1, 1)
        painter.setBrush(self._theme.color("ink"))
        painter.drawRoundedRect(QRectF(measured_x, middle, width, reach), 1, 1)

    def _x_at(self, amount: int, width: int) -> float:
        return (self.width() - width) * amount / self._scale


def _load_facts(row: LoadRow) -> str:
    at = QLocale().toString(QDateTime.fromSecsSinceEpoch(int(row.truth.at)), QLocale.FormatType.ShortFormat)
    return " · ".join(filter(None, (f"{row.truth.engine} {row.truth.version}".strip(), at if row.truth.at else "")))
