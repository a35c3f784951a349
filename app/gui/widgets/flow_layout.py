"""A layout that fills lines like text does: what does not fit stands on the next one."""

from PySide6.QtCore import QMargins, QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import UNBOUNDED


class _ItemLayout(QLayout):
    """What Qt asks of every layout whose height depends on its width: the items, in the order they came.

    Sizes are kept until Qt invalidates them, as Qt's own layouts do: each layout around this one asks several times,
    and with some inside each other that multiplies.
    """

    def __init__(self, theme: Theme, gap: int) -> None:
        super().__init__()
        self._theme, self._gap = theme, gap
        self._items: list[QLayoutItem] = []
        self._heights: dict[tuple[int, int], int] = {}
        self.setContentsMargins(QMargins())

    def invalidate(self) -> None:
        """Forget the sizes: an item has changed, came, went, is hidden or is shown."""
        self._heights.clear()
        super().invalidate()

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 -- Qt's name
        """Take one more item."""
        self._items.append(item)
        self.invalidate()

    def count(self) -> int:
        """Return how many items there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802 -- Qt's name; Qt asks until it gets None
        """Return an item, None beyond the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802 -- as itemAt
        """Take an item out."""
        self._heights.clear()  # Qt itself goes on to the rest of what `invalidate` does
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def hasHeightForWidth(self) -> bool:  # noqa: N802 -- Qt's name
        """Tell that the height depends on the width."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 -- Qt's name
        """Return the height at `width`."""
        at = width, self._theme.px(self._gap)  # the gap is another when the window is scaled
        if at not in self._heights:
            self._heights[at] = self._height_at(width)
        return self._heights[at]

    def _height_at(self, width: int) -> int:
        raise NotImplementedError

    def visible_items(self) -> list[QLayoutItem]:
        """Return the items that take up room: a hidden widget takes none."""
        return [item for item in self._items if not item.isEmpty()]


class FlowLayout(_ItemLayout):
    """Items at their own size, `gap` unscaled pixels apart, wrapped at the width there is; lines `line_gap` apart.

    With `is_centred` low items stand in the middle of their line, as controls of several kinds have to.
    """

    def __init__(
        self,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        gap: int = 8,
        line_gap: int | None = None,
        is_centred: bool = False,
    ) -> None:
        super().__init__(theme, gap)
        self._is_centred = is_centred
        self._line_gap = gap if line_gap is None else line_gap
        if parent is not None:
            parent.setLayout(self)

    def _height_at(self, width: int) -> int:
        return self._place_items(QRect(0, 0, width, 0), is_trial=True)

    def setGeometry(self, area: QRect) -> None:  # noqa: N802 -- Qt's name
        """Put every item in its place."""
        super().setGeometry(area)
        self._place_items(area, is_trial=False)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the size of one line."""
        sizes = [item.sizeHint() for item in self.visible_items()]
        gaps = self._theme.px(self._gap) * max(0, len(sizes) - 1)
        return QSize(sum(size.width() for size in sizes) + gaps, max((size.height() for size in sizes), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the size of the widest item."""
        smallest = QSize()
        for item in self.visible_items():
            smallest = smallest.expandedTo(item.minimumSize())
        return smallest

    def _place_items(self, area: QRect, *, is_trial: bool) -> int:
        top = 0
        for number, line in enumerate(self._break_lines(area.width())):
            top += self._theme.px(self._line_gap) if number else 0
            height, left = max(size.height() for _, size in line), 0
            for item, size in line:
                lower = (height - size.height()) // 2 if self._is_centred else 0
                if not is_trial:
                    at = area.topLeft() + QPoint(left, top + lower)
                    item.setGeometry(_mirror_place(self, QRect(at, size), area))
                left += size.width() + self._theme.px(self._gap)
            top += height
        return top

    def _break_lines(self, width: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        lines: list[list[tuple[QLayoutItem, QSize]]] = []
        left = 0
        for item in self.visible_items():
            size = item.sizeHint().boundedTo(QSize(max(width, 1), UNBOUNDED))
            if not lines or left + size.width() > width:
                lines.append([])
                left = 0
            lines[-1].append((item, size))
            left += size.width() + self._theme.px(self._gap)
        return lines


class PairLayout(_ItemLayout):
    """Two things on one line while `room` unscaled pixels are left for the first, else below each other.

    The first takes the width the second leaves; the second keeps its own, and shrinks only when it is below.
    """

    def __init__(self, theme: Theme, *, room: int = 200, gap: int = 16) -> None:
        super().__init__(theme, gap)
        self._room = room

    def addLayout(self, layout: QLayout) -> None:  # noqa: N802 -- as QBoxLayout has it
        """Take a layout as the first or the second."""
        self.addChildLayout(layout)
        self.addItem(layout)

    def _height_at(self, width: int) -> int:
        places = self._item_places(width)
        return max((place.bottom() + 1 for place in places), default=0)

    def setGeometry(self, area: QRect) -> None:  # noqa: N802 -- Qt's name
        """Put both in their places, in the middle of the height when they share a line."""
        super().setGeometry(area)
        places = self._item_places(area.width())
        shares_line = len(places) > 1 and places[1].left() > 0
        for item, place in zip(self.visible_items(), places, strict=True):
            if shares_line or len(places) == 1:
                place.moveTop(max(0, (area.height() - place.height()) // 2))
            item.setGeometry(_mirror_place(self, place.translated(area.topLeft()), area))

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the size of both on one line."""
        sizes = [item.sizeHint() for item in self.visible_items()]
        gap = self._theme.px(self._gap) * max(0, len(sizes) - 1)
        return QSize(sum(size.width() for size in sizes) + gap, max((size.height() for size in sizes), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the width of the wider of the two."""
        sizes = [item.minimumSize() for item in self.visible_items()]
        width = max((size.width() for size in sizes), default=0)
        return QSize(width, max((size.height() for size in sizes), default=0))

    def _item_places(self, width: int) -> list[QRect]:
        items = self.visible_items()
        if len(items) < 2:  # noqa: PLR2004 -- a pair
            return [QRect(0, 0, width, _item_height(item, width)) for item in items]
        first, second = items
        gap = self._theme.px(self._gap)
        taken_width = second.sizeHint().width()
        left = width - taken_width - gap
        if left >= self._theme.px(self._room):
            top = QRect(0, 0, left, _item_height(first, left))
            return [top, QRect(left + gap, 0, taken_width, _item_height(second, taken_width))]
        above = _item_height(first, width)
        taken_width = min(taken_width, width)
        return [QRect(0, 0, width, above), QRect(0, above + gap // 2, taken_width, _item_height(second, taken_width))]


def _item_height(item: QLayoutItem, width: int) -> int:
    return item.heightForWidth(width) if item.hasHeightForWidth() else item.sizeHint().height()


def _mirror_place(layout: QLayout, place: QRect, area: QRect) -> QRect:
    parent = layout.parentWidget()
    if parent is None or parent.layoutDirection() != Qt.LayoutDirection.RightToLeft:
        return place
    return QRect(QPoint(area.right() - (place.right() - area.left()), place.top()), place.size())
