"""The inspector on the server page: the latency strip, live requests that unfold, and what clients and keys used.

The latency strip: time to first token and tokens per second of the last minutes, one mark for each answer.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.requests import RequestDetail, RequestInfo, UsageRow
from app.core.translation import LazyText, tr, tr_plural
from app.gui.screens.server import request_list as state_of
from app.gui.screens.server.key_usage import KeyUsageList
from app.gui.screens.server.request_list import STRIP_S, LatencyPoint, RequestStore
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Legend, PartsBar
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.layout import Surface, VBox, hairline_pen
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot
from app.gui.widgets.text import Label, Paragraph

_KEEPS = LazyText(
    "The contents of requests are kept in memory, because the setting Keep request contents is on. Turning it off "
    "deletes them."
)


class RequestRow(QWidget):
    """One request: who asks what and how it is; unfolded, where its time went."""

    def __init__(self, theme: Theme, model: RequestStore, request: RequestInfo) -> None:
        super().__init__()
        self._model, self._id = model, request.id
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self._row, self._dot, self._state = ListRow(theme), Dot(theme), Label(theme, role="meta", color="ink-2")
        self._row.lead.addWidget(self._dot)
        self._cancel = Button(
            theme,
            tr("Cancel"),
            name=tr("Cancel the request of {client}", client=request.client),
            action=partial(model.cancel, request.id),
        )
        name = tr("How long each part of the request of {client} took", client=request.client)
        self.unfold = IconButton(theme, "chevron-right", name, action=self.toggle)
        for widget in (self._state, self._cancel, self.unfold):
            self._row.tail.addWidget(widget)
        self._details = self._make_details(theme)
        self._details.hide()
        box.addWidget(self._row)
        box.addWidget(self._details)

    def toggle(self) -> None:
        """Unfold what is folded, fold what is not."""
        is_opening = self._details.isHidden()
        self._details.setVisible(is_opening)
        self.unfold.set_icon("chevron-down" if is_opening else "chevron-right", self.unfold.accessibleName())

    def show_request(self, request: RequestInfo) -> None:
        """Show what is so now."""
        color, text = state_of.request_state(request)
        self._dot.show_state(color, text)
        self._state.setText(text)
        self._row.show_text(state_of.request_title(request), state_of.request_facts(request))
        self._cancel.setVisible(not request.is_over)
        legend = state_of.time_legend(request)
        parts = state_of.time_parts(request)
        self._bar.set_parts(parts, sum(part.amount for part in parts), ", ".join(text for _, text in legend))
        self._bar.setVisible(bool(parts))
        self._legend.set_entries(legend)
        warm = state_of.warm_text(request)
        self._warm.setText(warm)
        self._warm.setVisible(bool(warm))
        self._about.setText(state_of.request_details(request))
        self._read.setVisible(self._model.keeps_words and not self._words.text())

    def show_detail(self, detail: RequestDetail) -> None:
        """Show what it said, if that was kept."""
        text = "\n\n".join(filter(None, (detail.asked, detail.answered)))
        self._words.setText(text if detail.has_bodies else tr("The contents of this request were not kept."))
        self._words.show()
        self._read.hide()

    def _make_details(self, theme: Theme) -> QWidget:
        content = QWidget()
        box = VBox(theme, content, margins=(16, 0, 16, 12), gap=8)
        self._bar, self._legend = PartsBar(theme, tr("Where the time went")), Legend(theme)
        self._warm, self._about = Paragraph(theme), Paragraph(theme, color="ink-2")
        self._words = Paragraph(theme, role="mono", color="ink-2")
        self._words.hide()
        self._read = Button(
            theme, tr("Show contents"), look=ButtonLook.QUIET, action=partial(self._model.ask_words, self._id)
        )
        for widget in (self._bar, self._legend, self._warm, self._about, self._read, self._words):
            box.addWidget(widget)
        return content


class InspectorSection(Section):
    """Shows a `RequestStore` model."""

    def __init__(self, theme: Theme, model: RequestStore) -> None:
        super().__init__(theme, tr("Requests"))
        self._theme, self._model = theme, model
        self._clear = Button(
            theme, tr("Clear"), look=ButtonLook.QUIET, name=tr("Clear the list of requests"), action=model.forget
        )
        self.head.addWidget(self._clear)
        self._kept_note = Paragraph(theme, _KEEPS.tr(), color="warn")
        self._strip, self.rows = LatencyStrip(theme), RowList(theme, tr("Requests"))
        self._strip_card = Surface(theme)
        self._strip_card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        VBox(theme, self._strip_card, margins=(16, 12, 16, 12)).addWidget(self._strip)
        self._empty = Surface(theme)
        self._empty.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        nothing = ListRow(
            theme, tr("No requests yet"), tr("Requests from programs to the endpoint appear here while it runs.")
        )
        VBox(theme, self._empty, margins=(0, 4, 0, 4)).addWidget(nothing)
        self._usage = RowList(theme, tr("Used in the last seven days"))
        self._usage_title = Label(theme, tr("Used in the last seven days"), weight=500)
        self.by_key = KeyUsageList(theme)
        for widget in (
            *(self._kept_note, self._strip_card, self.rows, self._empty),
            *(self._usage_title, self._usage, self.by_key),
        ):
            self.body.addWidget(widget)
        model.changed.connect(self._show_requests)
        model.used.connect(self._show_usage)
        model.detail_loaded.connect(self._show_detail)
        self._show_requests()
        self._show_usage()

    def _show_requests(self) -> None:
        model = self._model
        requests, points = model.visible_requests(), model.points()
        self._kept_note.setVisible(model.keeps_words)
        self._clear.setVisible(any(request.is_over for request in requests))
        self._strip.set_points(points, model.now())
        self._strip_card.setVisible(bool(points))
        self.rows.sync(
            {request.id: request for request in requests},
            lambda request: RequestRow(self._theme, model, request),
            RequestRow.show_request,
        )
        self.rows.setVisible(bool(requests))
        self._empty.setVisible(model.is_known and not requests)

    def _show_usage(self) -> None:
        usage = self._model.usage
        rows = [] if usage is None else usage.week
        today = {} if usage is None else {_usage_key(row): row for row in usage.today}
        self._usage.sync(
            {_usage_key(row): (row, today.get(_usage_key(row))) for row in rows},
            lambda _pair: ListRow(self._theme),
            _say_usage,
        )
        for widget in (self._usage, self._usage_title):
            widget.setVisible(bool(rows))
        self.by_key.show_days(self._model.key_days, datetime.fromtimestamp(self._model.now()).astimezone().date())

    def _show_detail(self, detail: RequestDetail) -> None:
        row = self.rows.rows.get(detail.request.id)
        if isinstance(row, RequestRow):
            row.show_detail(detail)


def _usage_key(row: UsageRow) -> str:
    return f"{row.client}\n{row.model}"


def _say_usage(row: ListRow, pair: tuple[UsageRow, UsageRow | None]) -> None:
    week, today = pair
    now = tr("today {usage}", usage=state_of.usage_facts(today)) if today else tr("nothing today")
    row.show_text(f"{week.client} → {week.model or tr('no model')}", f"{state_of.usage_facts(week)}; {now}")


_HEIGHT = 72
_DOT = 3
_ROOM = 18
"""Below the words of a lane, so that its highest mark does not touch them."""


class LatencyStrip(QWidget):
    """Two lanes beside each other in height: TTFT above, tok/s below, each scaled to its own highest value."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._points: Sequence[LatencyPoint] = ()
        self._now = 0.0
        self.setAccessibleName(tr("Answers of the last ten minutes"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def set_points(self, points: Sequence[LatencyPoint], now: float) -> None:
        """Show answers up to `now` (Unix seconds)."""
        self._points, self._now = points, now
        first, speed = self.lane_words()
        self.setAccessibleDescription(
            f"{tr_plural('{count} answer.', '{count} answers.', len(points))} {first}. {speed}."
        )
        self.setToolTip(f"{first}\n{speed}")
        self.update()

    def lane_words(self) -> tuple[str, str]:
        """Return what the two lanes say in words: the middle value of each."""
        first = _median_of([point.ttft_s for point in self._points])
        speed = _median_of([point.tokens_per_s for point in self._points])
        return (
            tr("No first token yet")
            if first is None
            else tr("First token after {duration}", duration=words.format_duration(first)),
            tr("No speed yet") if speed is None else tr("Writes {rate}", rate=words.format_rate(speed)),
        )

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return two lanes tall enough for a line of words and its marks."""
        return QSize(self._theme.px(240), 2 * self._theme.px(_HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw both lanes."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font("meta"))
        height = self._theme.px(_HEIGHT)
        first, speed = self.lane_words()
        values = [(point.at, point.ttft_s) for point in self._points]
        self._paint_lane(painter, QRectF(0, 0, self.width(), height), (first, "part-2"), values)
        values = [(point.at, point.tokens_per_s) for point in self._points]
        self._paint_lane(painter, QRectF(0, height, self.width(), height), (speed, "part-1"), values)

    def _paint_lane(
        self, painter: QPainter, area: QRectF, label: tuple[str, str], values: list[tuple[float, float | None]]
    ) -> None:
        text, color = label
        painter.setPen(self._theme.color("ink-2"))
        painter.drawText(area, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeading, text)
        floor = area.bottom() - self._theme.px(8)
        painter.setPen(hairline_pen(self._theme, "line"))
        painter.drawLine(QPointF(area.left(), floor), QPointF(area.right(), floor))
        points = [(at, value) for at, value in values if value is not None]
        highest = max((value for _, value in points), default=0.0)
        if highest <= 0:
            return
        dot, room = self._theme.px(_DOT), area.height() - self._theme.px(8 + _ROOM) - self._theme.px(_DOT)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color(color))
        for at, value in points:
            painter.drawEllipse(QPointF(self._x_of(at, area, dot), floor - room * value / highest), dot, dot)

    def _x_of(self, at: float, area: QRectF, dot: int) -> float:
        share = min(1.0, max(0.0, 1 - (self._now - at) / STRIP_S))
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            share = 1 - share
        return area.left() + dot + share * (area.width() - 2 * dot)


def _median_of(values: Sequence[float | None]) -> float | None:
    ordered_values = sorted(value for value in values if value is not None)
    return ordered_values[len(ordered_values) // 2] if ordered_values else None
