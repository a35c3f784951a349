"""A figure with what it is below: how the window shows a number that matters."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.widgets.layout import VBox
from app.gui.widgets.text import Label


class FigureView(QWidget):
    """A value, its name, and a quiet line more where there is something to add. Its tip says where it comes from.

    It is at least `width` unscaled pixels wide, so that figures below each other stand in columns.
    """

    def __init__(self, theme: Theme, name: str, *, role: str = "body", width: int = 0) -> None:
        super().__init__()
        self._theme, self._name, self._width = theme, name, width
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        box = VBox(theme, self, gap=1)
        self._value = Label(theme, role=role, weight=600)
        self._label = Label(theme, name, role="meta", color="ink-2")
        self._more = Label(theme, role="meta", color="ink-2")
        for label in (self._value, self._label, self._more):
            box.addWidget(label, 0, Qt.AlignmentFlag.AlignTop)
        self._more.hide()
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_value(self, value: str, *, tip: str = "", more: str = "", color: str = "ink") -> None:
        """Show a value."""
        self._value.setText(value)
        self._value.set_color(color)
        self._more.setText(more)
        self._more.setVisible(bool(more))
        self.setToolTip(tip)
        self.setAccessibleName(f"{self._name}: {value}" + (f", {more}" if more else ""))
        self.setAccessibleDescription(tip)

    def _restyle(self) -> None:
        self.setMinimumWidth(self._theme.px(self._width))
