"""Menus and the choice made from one: rounded sheets with the tokens' colours."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROL_HEIGHT, ICON_SIZE, Radius
from app.gui.widgets.buttons import Pressable
from app.gui.widgets.layout import hairline_pen, outline_area


class Menu(QMenu):
    """A context menu or drop-down."""

    def __init__(self, theme: Theme, parent: QWidget, name: str) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setAccessibleName(name)
        self.setFont(theme.font("body"))
        self.setWindowFlags(
            self.windowFlags() | Qt.WindowType.FramelessWindowHint | Qt.WindowType.NoDropShadowWindowHint
        )
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)

    def add_entry(self, text: str, action: Callable[[], object], *, icon: str = "", is_enabled: bool = True) -> None:
        """Add one line."""
        entry = self.addAction(text)
        if icon:
            entry.setIcon(self._theme.icon(icon))
        entry.setEnabled(is_enabled)
        entry.triggered.connect(lambda _is_checked=False: action())


class DropDown(Pressable):
    """One of several words, chosen from a menu; Up and Down change it in place.

    `widest` unscaled pixels, if given, are the most it takes: longer words are shortened.
    """

    chosen = Signal(str)

    def __init__(self, theme: Theme, name: str, options: Sequence[tuple[str, str]], *, widest: int = 0) -> None:
        super().__init__(theme, name)
        self._name, self._widest = name, widest
        self._options = list(options)
        self._value = self._options[0][0] if self._options else ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_action(self._open_menu)
        self._update_name()

    @property
    def value(self) -> str:
        """The chosen value, not its words."""
        return self._value

    def set_options(self, options: Sequence[tuple[str, str]]) -> None:
        """Offer other values; the chosen one stays, even if it is no longer among them."""
        if list(options) != self._options:
            self._options = list(options)
            self._update_name()
            self.updateGeometry()
            self.update()

    def set_value(self, value: str) -> None:
        """Show a value without saying that it was chosen."""
        self._value = value
        self._update_name()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for the longest words."""
        self.setFont(self.theme.font("body"))
        widths = [self.fontMetrics().horizontalAdvance(words) for _, words in self._options]
        px = self.theme.px
        width = max([*widths, px(64)]) + px(ICON_SIZE + 28)
        return QSize(min(width, px(self._widest)) if self._widest else width, px(CONTROL_HEIGHT))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Step through the options with the arrows."""
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        if not step:
            super().keyPressEvent(event)
            return
        place = next((at for at, (value, _) in enumerate(self._options) if value == self._value), 0) + step
        if 0 <= place < len(self._options):
            self._choose_value(self._options[place][0])

    def paint(self, painter: QPainter) -> None:
        """Draw the field, the words and the arrow."""
        area, radius, px = outline_area(self), self.theme.px(Radius.CONTROL), self.theme.px
        painter.setBrush(self.theme.color("surface"))
        painter.setPen(hairline_pen(self.theme, "edge"))
        painter.drawRoundedRect(area, radius, radius)
        self.paint_wash(painter, area, radius)
        right_to_left = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        arrow, text = px(ICON_SIZE), px(12)
        left = px(8) if right_to_left else self.width() - arrow - px(8)
        self.paint_icon(painter, "chevron-down", "ink-2", QRectF(left, 0, arrow, self.height()))
        painter.setPen(self.theme.color("ink"))
        painter.setFont(self.theme.font("body"))
        room = arrow + px(12)
        words = QRectF(self.rect()).adjusted(room if right_to_left else text, 0, -(text if right_to_left else room), 0)
        elided_text = painter.fontMetrics().elidedText(
            self._value_words(), Qt.TextElideMode.ElideMiddle, int(words.width()) + 1
        )
        align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter  # Qt mirrors it with the layout
        painter.drawText(words, align, elided_text)

    def _open_menu(self) -> None:
        menu = Menu(self.theme, self, self._name)
        for value, words in self._options:
            icon = "check" if value == self._value else ""
            menu.add_entry(words, partial(self._choose_value, value), icon=icon)
        menu.setMinimumWidth(self.width())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(QPoint(0, self.height() + self.theme.px(4))))

    def _choose_value(self, value: str) -> None:
        if value != self._value:
            self.set_value(value)
            self.chosen.emit(value)

    def _value_words(self) -> str:
        return next((words for value, words in self._options if value == self._value), self._value)

    def _update_name(self) -> None:
        self.setAccessibleName(f"{self._name}: {self._value_words()}")
