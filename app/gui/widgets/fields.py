"""Fields: one line of text, a search, a value to copy, a list of texts.

Fields one can type into or choose for: a text with suggestions, a number with a step down and a step up.
"""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QIntValidator, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from app.core.translation import tr
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROL_HEIGHT, ICON_SIZE, Radius
from app.gui.widgets.buttons import Button, IconButton, Pressable
from app.gui.widgets.layout import HBox, Surface, VBox, clear_layout
from app.gui.widgets.menus import Menu
from app.gui.widgets.text import ElidedLabel

_ICON = 16


class Field(QLineEdit):
    """One line of text. `set_wrong` outlines it; the sentence that says why stands elsewhere.

    `end_room` unscaled pixels at its end are left to whoever puts a button there.
    """

    stepped = Signal(int)
    """Up or Down was pressed: +1 or -1."""

    def __init__(self, theme: Theme, name: str, *, placeholder: str = "", icon: str = "", end_room: int = 0) -> None:
        super().__init__()
        self.theme = theme
        self._icon, self._unit, self._end_room = icon, "", end_room
        self.setAccessibleName(name)
        self.setPlaceholderText(placeholder)
        if QGuiApplication.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            # Qt aligns a line by its own words; here all of a page starts at one side.
            self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute)
        theme.changed.connect(self._restyle)
        self._restyle()

    def set_unit(self, unit: str) -> None:
        """Show a unit behind the text, inside the field."""
        self._unit = unit
        self._restyle()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw icon and unit in the room that is kept for them."""
        super().paintEvent(event)
        painter = QPainter(self)
        gap = self.theme.px(10)
        is_rtl = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        if self._icon:
            side = self.theme.px(_ICON)
            left = self.width() - gap - side if is_rtl else gap
            pixmap = self.theme.pixmap(self._icon, "ink-3", size=_ICON, ratio=self.devicePixelRatioF())
            painter.drawPixmap(left, (self.height() - side) // 2, pixmap)
        painter.setPen(self.theme.color("ink-2"))
        align = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter  # Qt mirrors it with the layout
        painter.drawText(self.rect().adjusted(gap, 0, -gap, 0), align, self._unit)

    def set_wrong(self, is_wrong: bool) -> None:  # noqa: FBT001 -- a setter of one flag
        """Outline the field as wrong, or not."""
        if bool(self.property("wrong")) != is_wrong:
            self.setProperty("wrong", is_wrong)
            self.style().unpolish(self)
            self.style().polish(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Offer Up and Down to whoever steps through something."""
        step = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()), 0)
        if step:
            self.stepped.emit(step)
            return
        super().keyPressEvent(event)

    def _restyle(self) -> None:
        self.setFont(self.theme.font("body"))
        start = self.theme.px(_ICON + 8) if self._icon else 0
        end = self.fontMetrics().horizontalAdvance(self._unit) + self.theme.px(6) if self._unit else 0
        end += self.theme.px(self._end_room)
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            start, end = end, start
        self.setTextMargins(start, 0, end, 0)


class CopyField(Pressable):
    """A value to take along: pressing it copies, and it says so."""

    def __init__(self, theme: Theme, name: str, copy: Callable[[str], object], *, role: str = "mono") -> None:
        super().__init__(theme, name)
        self._name, self._role = name, role
        self._value = ""
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.set_action(lambda: copy(self._value))

    def set_value(self, value: str) -> None:
        """Show another value."""
        self._value = value
        self.setAccessibleName(f"{self._name}: {value}")
        self.setToolTip(tr("Copy"))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for the value and the icon."""
        self.setFont(self.theme.font(self._role))
        px = self.theme.px
        metrics = self.fontMetrics()
        height = max(px(CONTROL_HEIGHT), metrics.height() + px(12))
        return QSize(metrics.horizontalAdvance(self._value) + px(ICON_SIZE + 28), height)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for a few letters."""
        return QSize(self.theme.px(96), self.sizeHint().height())

    def paint(self, painter: QPainter) -> None:
        """Draw the value and, to its right, what pressing does."""
        px = self.theme.px
        area = self.rect().toRectF()
        self.paint_wash(painter, area, px(Radius.CONTROL))
        icon = px(ICON_SIZE)
        room = area.adjusted(px(8), 0, -(icon + px(16)), 0)
        painter.setFont(self.theme.font(self._role))
        painter.setPen(self.theme.color("ink"))
        text = self.fontMetrics().elidedText(self._value, Qt.TextElideMode.ElideMiddle, int(room.width()) + 1)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        self.paint_icon(painter, "copy", "ink-2", area.adjusted(area.width() - icon - px(10), 0, -px(10), 0))


class ListField(QWidget):
    """A list of texts: rows that can be removed, and a way to add: a button that asks, or a field to type into."""

    changed = Signal(list)

    def __init__(self, theme: Theme, name: str, *, ask: Callable[[], str] | None = None) -> None:
        super().__init__()
        self._theme, self._name = theme, name
        self._items: list[str] = []
        box = VBox(theme, self, gap=4)
        self._rows = VBox(theme, gap=4)
        box.addLayout(self._rows)
        if ask is None:
            self._entry_field = Field(
                theme, tr("Add to {name}", name=name), placeholder=tr("Type one and press Return")
            )
            self._entry_field.returnPressed.connect(self._add_typed)
            box.addWidget(self._entry_field)
        else:
            button = Button(
                theme, tr("Add"), name=tr("Add to {name}", name=name), icon="plus", action=lambda: self._add_item(ask())
            )
            box.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        self.setAccessibleName(name)

    def set_items(self, items: list[str]) -> None:
        """Show other items without saying that they changed."""
        if items == self._items:
            return
        self._items = list(items)
        clear_layout(self._rows)
        for item in self._items:
            self._rows.addWidget(self._make_row(item))

    def _make_row(self, item: str) -> QWidget:
        sheet = Surface(self._theme, fill="sunken", outline="", radius=Radius.CONTROL)
        line = HBox(self._theme, sheet, margins=(12, 0, 4, 0))
        line.addWidget(ElidedLabel(self._theme, item, mode=Qt.TextElideMode.ElideMiddle))
        line.addWidget(
            IconButton(
                self._theme, "x", tr("Remove {item}", item=item), action=lambda: self._remove_item(item), size=28
            )
        )
        return sheet

    def _remove_item(self, item: str) -> None:
        self.changed.emit([other for other in self._items if other != item])

    def _add_typed(self) -> None:
        self._add_item(self._entry_field.text().strip())
        self._entry_field.clear()

    def _add_item(self, item: str) -> None:
        if item and item not in self._items:
            self.changed.emit([*self._items, item])


_NUMBER_WIDTH = 64
_BUTTON = 28


class Combo(QWidget):
    """A text that may be typed or taken from a list: Down, or the button, opens the list."""

    typed = Signal(str)
    """The text as it is being typed."""
    chosen = Signal(str)
    """A text that is complete: taken from the list, or ended with Return."""

    def __init__(self, theme: Theme, name: str, *, placeholder: str = "") -> None:
        super().__init__()
        self._theme, self._name = theme, name
        self._options: Sequence[tuple[str, str]] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        line = HBox(theme, self)
        self.field = Field(theme, name, placeholder=placeholder, end_room=_BUTTON)
        self.field.textEdited.connect(self.typed)
        self.field.returnPressed.connect(lambda: self.chosen.emit(self.field.text().strip()))
        self.field.stepped.connect(lambda by: self.open_list() if by < 0 else None)
        line.addWidget(self.field, 1)
        inside = HBox(theme, self.field, margins=(0, 0, 2, 0))
        inside.addStretch(1)
        self._button = IconButton(
            theme, "chevron-down", tr("Choose: {name}", name=name), action=self.open_list, size=_BUTTON
        )
        inside.addWidget(self._button)
        self.setFocusProxy(self.field)

    def set_options(self, options: Sequence[tuple[str, str]]) -> None:
        """Take another list of values with their words."""
        self._options = list(options)

    def set_text(self, text: str) -> None:
        """Show a text, unless one is being typed."""
        if self.field.text() != text and not (self.field.hasFocus() and self.field.isModified()):
            self._show_text(text)

    def open_list(self) -> None:
        """Show the list."""
        menu = Menu(self._theme, self, self._name)
        present = self.field.text()
        for value, words in self._options:
            menu.add_entry(words, partial(self._choose_value, value), icon="check" if value == present else "")
        menu.setMinimumWidth(self.width())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(QPoint(0, self.height() + self._theme.px(4))))

    def _choose_value(self, value: str) -> None:
        self._show_text(value)
        self.chosen.emit(value)

    def _show_text(self, text: str) -> None:
        """Show a text from its beginning; its tip has all of it."""
        self.field.setText(text)
        self.field.setCursorPosition(0)
        self.field.setToolTip(text)


class Stepper(QWidget):
    """A whole number between two limits, typed or stepped."""

    changed = Signal(int)

    def __init__(self, theme: Theme, name: str, *, low: int, high: int) -> None:
        super().__init__()
        self._theme, self._low, self._high = theme, low, high
        self._value = low
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        line = HBox(theme, self, gap=4)
        self.field = Field(theme, name)
        self.field.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.field.setValidator(QIntValidator(low, high, self.field))
        self.field.editingFinished.connect(self._read_field)
        self.field.stepped.connect(lambda by: self._change_to(self._value + by))
        self._less = IconButton(
            theme, "minus", tr("Less: {name}", name=name), action=lambda: self._change_to(self._value - 1)
        )
        self._more = IconButton(
            theme, "plus", tr("More: {name}", name=name), action=lambda: self._change_to(self._value + 1)
        )
        for widget in (self._less, self.field, self._more):
            line.addWidget(widget)
        self.setFocusProxy(self.field)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.set_value(low)

    @property
    def value(self) -> int:
        """The number as it is."""
        return self._value

    def set_value(self, value: int) -> None:
        """Show a number without saying that it changed."""
        self._value = value
        self.field.setText(str(value))
        self._less.setEnabled(value > self._low)
        self._more.setEnabled(value < self._high)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Step by ten with Page Up and Page Down."""
        step = {Qt.Key.Key_PageUp: 10, Qt.Key.Key_PageDown: -10}.get(Qt.Key(event.key()), 0)
        if not step:
            super().keyPressEvent(event)
            return
        self._change_to(self._value + step)

    def _read_field(self) -> None:
        text = self.field.text()
        self._change_to(int(text) if text.isdigit() else self._value)

    def _change_to(self, value: int) -> None:
        value = min(self._high, max(self._low, value))
        is_new = value != self._value
        self.set_value(value)
        if is_new:
            self.changed.emit(value)

    def _restyle(self) -> None:
        self.field.setFixedWidth(self._theme.px(_NUMBER_WIDTH))
