"""A whole cut into rectangles as large as its parts, those of a group together: what takes the space, at a glance.

The cutting is Bruls, Huizing and van Wijk's ("Squarified Treemaps", 2000): every rectangle is as square as can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Radius
from app.gui.widgets.text import reads_from_right

_HEIGHT, _GAP, _HEAD = 260, 2, 22
_TINT, _TINT_HOVERED = 0.20, 0.34
"""How much of its group's colour a part has; words in ink on it stay readable."""
_LEAST_WIDTH, _LEAST_HEIGHT = 56, 20
"""Below that a part has no words: its tip has them."""
_STEPS = {Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1, Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1}


@dataclass(frozen=True, slots=True)
class TreemapCell:
    """One part: what it is, how much, and words for that. Without a `key` it stands for several, and is not pressed."""

    key: str
    name: str
    amount: float
    text: str


@dataclass(frozen=True, slots=True)
class TreemapGroup:
    """Parts that belong together, the largest first, and their colour in the table."""

    name: str
    color: str
    cells: Sequence[TreemapCell]

    @property
    def amount(self) -> float:
        """What they are together."""
        return sum(cell.amount for cell in self.cells)


def squarify_amounts(amounts: Sequence[float], area: QRectF) -> list[QRectF]:
    """Return a rectangle for each amount, in order, which together fill `area`. Amounts are in falling order."""
    total, places, at, rest = sum(amounts), [], 0, QRectF(area)
    scale = area.width() * area.height() / total if total > 0 else 0.0
    while at < len(amounts):
        side = min(rest.width(), rest.height())
        end = at + 1
        while end < len(amounts) and _worst_ratio(amounts[at : end + 1], side, scale) <= _worst_ratio(
            amounts[at:end], side, scale
        ):
            end += 1
        strip, rest = _cut_strip(rest, sum(amounts[at:end]) * scale)
        places += _slice_strip(strip, amounts[at:end])
        at = end
    return places


class Treemap(QWidget):
    """Shows groups; arrow keys go from part to part, Return or a press emits `chosen` with its key and where it is."""

    chosen = Signal(str, QPointF)

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme, self._name = theme, name
        self._groups: Sequence[TreemapGroup] = ()
        self._places: list[tuple[QRectF, TreemapCell, TreemapGroup]] = []
        self._heads: list[tuple[QRectF, TreemapGroup]] = []
        self._current = 0
        self._hovered_index = -1
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setProperty("focusRadius", Radius.CARD)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._refresh_layout)

    @property
    def cells(self) -> list[TreemapCell]:
        """Every part, in the order of the keys."""
        return [cell for _, cell, _ in self._places]

    @property
    def current(self) -> TreemapCell | None:
        """The part the keyboard is on."""
        return self._places[self._current][1] if self._places else None

    def show_groups(self, groups: Sequence[TreemapGroup]) -> None:
        """Show other parts; the keyboard stays on the one it was on, if that is still there."""
        was = self.current
        self._groups = groups
        self._lay_out()
        keys = [cell.key for cell in self.cells]
        self._current = keys.index(was.key) if was is not None and was.key in keys else 0
        self._hovered_index = -1
        self._announce_current()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a height at which the parts of a usual library have room for their names."""
        return QSize(self._theme.px(320), self._theme.px(_HEIGHT))

    def resizeEvent(self, _event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Cut anew."""
        self._lay_out()

    def event(self, event: QEvent) -> bool:
        """Show the tip of the part below the pointer, and forget it when the pointer leaves."""
        if event.type() is QEvent.Type.ToolTip and self._hovered_index >= 0:
            cell = self._places[self._hovered_index][1]
            QToolTip.showText(
                self.mapToGlobal(self._places[self._hovered_index][0].center()).toPoint(), _cell_words(cell), self
            )
            return True
        if event.type() is QEvent.Type.Leave:
            self._hover_at(-1)
        return super().event(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Tint what the pointer is on."""
        self._hover_at(self._index_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 -- Qt's name
        """Choose what is pressed."""
        at = self._index_at(event.position())
        if at >= 0:
            self._current = at
            self._announce_current()
            self._choose_current(event.position())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Go from part to part, and choose one."""
        key = Qt.Key(event.key())
        if key in _STEPS and self._places:
            step = _STEPS[key]
            if self.layoutDirection() == Qt.LayoutDirection.RightToLeft and key in {Qt.Key.Key_Left, Qt.Key.Key_Right}:
                step = -step
            self._current = (self._current + step) % len(self._places)
            self._announce_current()
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space} and self._places:
            self._choose_current(self._places[self._current][0].center())
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the heads of the groups and the parts."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for place, group in self._heads:
            painter.setFont(self._theme.font("meta", 600))
            painter.setPen(self._theme.color("ink-2"))
            self._draw_text(painter, place, group.name)
        for at, (place, cell, group) in enumerate(self._places):
            self._paint_cell(painter, at, place, cell, group)

    def _paint_cell(self, painter: QPainter, at: int, place: QRectF, cell: TreemapCell, group: TreemapGroup) -> None:
        radius = min(self._theme.px(4), place.width() / 2, place.height() / 2)
        color = QColor(self._theme.color(group.color))
        color.setAlphaF(_TINT_HOVERED if at == self._hovered_index and cell.key else _TINT)
        painter.setBrush(color)
        is_current = at == self._current and self.hasFocus()
        painter.setPen(QPen(self._theme.color("accent"), 2) if is_current else Qt.PenStyle.NoPen)
        painter.drawRoundedRect(place.adjusted(1, 1, -1, -1) if is_current else place, radius, radius)
        px = self._theme.px
        if place.width() < px(_LEAST_WIDTH) or place.height() < px(_LEAST_HEIGHT):
            return
        words = place.adjusted(px(8), px(4), -px(6), -px(4))
        painter.setPen(self._theme.color("ink"))
        painter.setFont(self._theme.font("meta", 500))
        line = painter.fontMetrics().height()
        self._draw_text(painter, QRectF(words.left(), words.top(), words.width(), line), cell.name)
        if words.height() >= 2 * line:
            painter.setPen(self._theme.color("ink-2"))
            painter.setFont(self._theme.font("meta"))
            self._draw_text(painter, QRectF(words.left(), words.top() + line, words.width(), line), cell.text)

    def _draw_text(self, painter: QPainter, place: QRectF, text: str) -> None:
        is_mirrored = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        is_rtl = reads_from_right(text)
        side = Qt.AlignmentFlag.AlignRight if is_mirrored else Qt.AlignmentFlag.AlignLeft
        align = side | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
        painter.setLayoutDirection(Qt.LayoutDirection.RightToLeft if is_rtl else Qt.LayoutDirection.LeftToRight)
        elided_text = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(place.width()))
        painter.drawText(place, align, elided_text)

    def _lay_out(self) -> None:
        self._heads, self._places = [], []
        groups = sorted((group for group in self._groups if group.amount > 0), key=lambda item: -item.amount)
        whole = squarify_amounts([group.amount for group in groups], QRectF(self.rect()))
        for group, area in zip(groups, whole, strict=True):
            place = area.adjusted(_GAP, _GAP, -_GAP, -_GAP)
            head = self._theme.px(_HEAD) if place.height() > 2 * self._theme.px(_HEAD) else 0
            if head and place.width() > self._theme.px(_LEAST_WIDTH):
                title = QRectF(place.left(), place.top(), place.width(), head)
                self._heads.append((self._mirror_area(title), group))
            cut = squarify_amounts([cell.amount for cell in group.cells], place.adjusted(0, head, 0, 0))
            gaps = (self._mirror_area(item.adjusted(0.5, 0.5, -_GAP, -_GAP)) for item in cut)
            self._places += [(item, cell, group) for item, cell in zip(gaps, group.cells, strict=True)]
        self.update()

    def _mirror_area(self, area: QRectF) -> QRectF:
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            area.moveLeft(self.width() - area.right())
        return area

    def _index_at(self, point: QPointF) -> int:
        return next((at for at, (place, _, _) in enumerate(self._places) if place.contains(point)), -1)

    def _hover_at(self, at: int) -> None:
        if at != self._hovered_index:
            self._hovered_index = at
            is_choice = at >= 0 and bool(self._places[at][1].key)
            self.setCursor(Qt.CursorShape.PointingHandCursor if is_choice else Qt.CursorShape.ArrowCursor)
            self.update()

    def _choose_current(self, where: QPointF) -> None:
        cell = self.current
        if cell is not None and cell.key:
            self.chosen.emit(cell.key, where)

    def _announce_current(self) -> None:
        cell = self.current
        self.setAccessibleDescription(_cell_words(cell) if cell else "")
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))
        self.update()

    def _refresh_layout(self) -> None:
        self.updateGeometry()
        self._lay_out()


def _cell_words(cell: TreemapCell) -> str:
    return f"{cell.name}, {cell.text}"


def _worst_ratio(amounts: Sequence[float], side: float, scale: float) -> float:
    """Return how far from a square the worst rectangle of a strip along `side` is."""
    total = sum(amounts) * scale
    if total <= 0 or side <= 0:
        return float("inf")
    largest, smallest = max(amounts) * scale, max(min(amounts) * scale, 1e-9)
    return max(side * side * largest / (total * total), total * total / (side * side * smallest))


def _cut_strip(area: QRectF, size: float) -> tuple[QRectF, QRectF]:
    """Return a strip of that size along the shorter side, and what is left."""
    if area.width() >= area.height():
        width = min(area.width(), size / area.height()) if area.height() else 0.0
        return (
            QRectF(area.left(), area.top(), width, area.height()),
            QRectF(area.left() + width, area.top(), area.width() - width, area.height()),
        )
    height = min(area.height(), size / area.width()) if area.width() else 0.0
    return (
        QRectF(area.left(), area.top(), area.width(), height),
        QRectF(area.left(), area.top() + height, area.width(), area.height() - height),
    )


def _slice_strip(strip: QRectF, amounts: Sequence[float]) -> list[QRectF]:
    """Return a strip's rectangles, side by side along its longer side."""
    total, done_amount, places = sum(amounts), 0.0, []
    is_column = strip.height() >= strip.width()
    for amount in amounts:
        share = amount / total if total else 0.0
        if is_column:
            places.append(QRectF(strip.left(), strip.top() + done_amount, strip.width(), strip.height() * share))
            done_amount += strip.height() * share
        else:
            places.append(QRectF(strip.left() + done_amount, strip.top(), strip.width() * share, strip.height()))
            done_amount += strip.width() * share
    return places
