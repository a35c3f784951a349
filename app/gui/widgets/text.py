"""Words: labels that know their role in the type scale, one that shortens itself, one that is read as a block.

A figure with what it is below: how the window shows a number that matters.
"""

from unicodedata import bidirectional

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.widgets.layout import VBox


class Label(QLabel):
    """Text in a role and a colour of the table. Plain text: nothing a model or a file name says is markup."""

    def __init__(
        self, theme: Theme, text: str = "", *, role: str = "body", color: str = "ink", weight: int | None = None
    ) -> None:
        super().__init__(text)
        self.theme = theme
        self._role, self._color, self._weight = role, color, weight
        self.setTextFormat(Qt.TextFormat.PlainText)
        if QGuiApplication.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            # Qt aligns a label by its own words; a page is easier to read when all of it starts at one side.
            self.setAlignment(
                Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter
            )
        theme.changed.connect(self._restyle)
        self._restyle()

    def set_color(self, color: str) -> None:
        """Use another colour of the table."""
        if color != self._color:
            self._color = color
            self._restyle()

    def _restyle(self) -> None:
        self.setFont(self.theme.font(self._role, self._weight))
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.WindowText, self.theme.color(self._color))
        self.setPalette(palette)


class Paragraph(Label):
    """Text that wraps and can be selected with the pointer."""

    def __init__(
        self, theme: Theme, text: str = "", *, role: str = "body", color: str = "ink", weight: int | None = None
    ) -> None:
        super().__init__(theme, text, role=role, color=color, weight=weight)
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)


class ElidedLabel(Label):
    """One line that gives way: shortened in the middle or at the end, whole in its tip and for screen readers."""

    def __init__(  # noqa: PLR0913 -- a label and where to shorten it
        self,
        theme: Theme,
        text: str = "",
        *,
        role: str = "body",
        color: str = "ink",
        weight: int | None = None,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(theme, text, role=role, color=color, weight=weight)
        self._mode = mode
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for a few letters."""
        return QSize(self.theme.px(32), self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Paint what fits."""
        del event
        painter = QPainter(self)
        text = self.fontMetrics().elidedText(self.text(), self._mode, self.width())
        self.setToolTip(self.text() if text != self.text() else "")
        is_rtl = reads_from_right(self.text())
        stands_right = is_rtl or self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if stands_right else Qt.AlignmentFlag.AlignLeft
        align = side | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter
        painter.setLayoutDirection(Qt.LayoutDirection.RightToLeft if is_rtl else Qt.LayoutDirection.LeftToRight)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        painter.drawText(self.rect(), align | Qt.TextFlag.TextSingleLine, text)


def reads_from_right(text: str) -> bool:
    """Tell whether text runs from right to left: its first letter with a direction decides."""
    for letter in text:
        kind = bidirectional(letter)
        if kind in {"L", "R", "AL"}:
            return kind != "L"
    return QGuiApplication.layoutDirection() == Qt.LayoutDirection.RightToLeft


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
