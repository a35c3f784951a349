"""What each access key was used for over the last days: a row for each, with a bar for each day."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.core.requests import KeyDay
from app.core.translation import tr, tr_plural
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import VBox
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Label

SHOWN_DAYS = 30
MOST_SHOWN = 20
_OTHERS = "/others"
"""In place of an id."""
_BAR, _GAP, _HEIGHT = 4, 2, 28
_LEAST = 2
"""Height of a day with requests, however few."""


class DayTotal(NamedTuple):
    """The tokens of one day, and how many requests there were."""

    day: str
    tokens: int = 0
    requests: int = 0


class KeyTotal(NamedTuple):
    """What a key was used for in all these days; `days` has each of them, the oldest first."""

    name: str
    requests: int
    tokens: int
    held_back: int
    days: tuple[DayTotal, ...]


def key_totals(rows: Sequence[KeyDay], today: date) -> dict[str, KeyTotal]:
    """Return the sums of keys by their ids, most tokens first; empty where no request had a key.

    Those beyond `MOST_SHOWN` are one sum: each run of a coding tool may have had a key of its own.
    """
    by_key: dict[str, list[KeyDay]] = {}
    for row in rows:
        by_key.setdefault(row.key_id, []).append(row)
    if not any(by_key):
        return {}
    totals = {key_id: _key_total(days, today) for key_id, days in by_key.items()}
    ordered_totals = sorted(totals.items(), key=lambda total: (-total[1].tokens, -total[1].requests, total[0]))
    others = [total for _, total in ordered_totals[MOST_SHOWN:]]
    return dict(ordered_totals[:MOST_SHOWN]) | ({_OTHERS: _sum_totals(others)} if others else {})


def _sum_totals(totals: Sequence[KeyTotal]) -> KeyTotal:
    days = zip(*(total.days for total in totals), strict=True)
    return KeyTotal(
        tr_plural("{count:,} other key", "{count:,} other keys", len(totals)),
        sum(total.requests for total in totals),
        sum(total.tokens for total in totals),
        sum(total.held_back for total in totals),
        tuple(
            DayTotal(same[0].day, sum(day.tokens for day in same), sum(day.requests for day in same)) for same in days
        ),
    )


def _sum_days(days: Sequence[DayTotal]) -> DayTotal:
    return DayTotal(days[0].day, sum(day.tokens for day in days), sum(day.requests for day in days))


def _key_total(rows: Sequence[KeyDay], today: date) -> KeyTotal:
    days = {row.day: DayTotal(row.day, _tokens(row), row.requests) for row in rows}
    shown_days = [(today - timedelta(days=ago)).isoformat() for ago in reversed(range(SHOWN_DAYS))]
    name = rows[0].key or tr("without a key")
    return KeyTotal(
        tr("{name} (revoked)", name=name) if rows[0].is_revoked else name,
        sum(row.requests for row in rows),
        sum(map(_tokens, rows)),
        sum(row.held_back for row in rows),
        tuple(days.get(day, DayTotal(day)) for day in shown_days),
    )


def _tokens(row: KeyDay) -> int:
    return row.prompt_tokens + row.completion_tokens


def total_text(total: KeyTotal) -> str:
    """Return the sums in a line: all of the days, then today."""
    parts = [_usage_words(total.requests, total.tokens)]
    if total.held_back:
        parts.append(tr("{count:,} held back", count=total.held_back))
    today = total.days[-1]
    now = (
        tr("today {usage}", usage=_usage_words(today.requests, today.tokens)) if today.requests else tr("nothing today")
    )
    return f"{' · '.join(parts)}; {now}"


def _usage_words(requests: int, tokens: int) -> str:
    count = tr_plural("{count:,} request", "{count:,} requests", requests)
    return f"{count} · {tr_plural('{count:,} token', '{count:,} tokens', tokens)}"


class KeyUsageList(QWidget):
    """The keys that were used in the last days; hidden while there are none."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=8)
        title = tr("Used by key in the last 30 days")
        self.rows = RowList(theme, title)
        box.addWidget(Label(theme, title, weight=500))
        box.addWidget(self.rows)
        self.hide()

    def show_days(self, rows: Sequence[KeyDay], today: date) -> None:
        """Show these."""
        totals = key_totals(rows, today)
        self.rows.sync(totals, lambda _total: KeyUsageRow(self._theme), KeyUsageRow.show_total)
        self.setVisible(bool(totals))


class KeyUsageRow(ListRow):
    """One key."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.bars = DayBars(theme)
        self.tail.addWidget(self.bars)

    def show_total(self, total: KeyTotal) -> None:
        """Show what it was used for."""
        self.show_text(total.name, total_text(total))
        self.bars.show_days(total.name, total.days)


class DayBars(QWidget):
    """A bar for each day, as high as its tokens to those of the day with the most."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._days: Sequence[DayTotal] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_days(self, name: str, days: Sequence[DayTotal]) -> None:
        """Show the tokens of a key by day."""
        self._days = days
        self.setAccessibleName(tr("Tokens by day: {name}", name=name))
        self.setAccessibleDescription("; ".join(_day_text(day) for day in days if day.requests))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for every day."""
        return QSize(self._theme.px(_BAR + _GAP) * len(self._days), self._theme.px(_HEIGHT))

    def event(self, event: QEvent) -> bool:
        """Say the figures of the day under the pointer."""
        if isinstance(event, QHelpEvent):
            day = self._day_at(event.pos().x())
            QToolTip.showText(event.globalPos(), "" if day is None else _day_text(day), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the days from where reading begins, those without requests as a line."""
        del event
        painter = QPainter(self)
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            painter.translate(self.width(), 0)
            painter.scale(-1, 1)
        px = self._theme.px
        most = max((day.tokens for day in self._days), default=0)
        for place, day in enumerate(self._days):
            share = day.tokens / most if most else 0.0
            height = max(px(_LEAST), self.height() * share) if day.requests else 1.0
            bar = QRectF(place * px(_BAR + _GAP), self.height() - height, px(_BAR), height)
            painter.fillRect(bar, self._theme.color("accent" if day.requests else "edge"))

    def _day_at(self, x: int) -> DayTotal | None:
        offset = self.width() - x if self.layoutDirection() == Qt.LayoutDirection.RightToLeft else x
        place = offset // self._theme.px(_BAR + _GAP)
        return self._days[place] if 0 <= place < len(self._days) else None


def _day_text(day: DayTotal) -> str:
    return f"{day.day}: {_usage_words(day.requests, day.tokens)}"
