"""Fields one can type into or choose for: a text with suggestions, a number with a step down and a step up."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QIntValidator, QKeyEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox
from app.gui.widgets.menus import Menu

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
        self._button = IconButton(theme, "chevron-down", f"Choose: {name}", action=self.open_list, size=_BUTTON)
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
        self._less = IconButton(theme, "minus", f"Less: {name}", action=lambda: self._change_to(self._value - 1))
        self._more = IconButton(theme, "plus", f"More: {name}", action=lambda: self._change_to(self._value + 1))
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
