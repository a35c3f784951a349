"""Lists are rows: one strong line, one quiet line, a sign before and actions behind; cards hold them together.

A row that explains its control: title and help on one side, the control on the other, what is wrong below.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QEnterEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import ICON_SIZE, ROW_HEIGHT, Radius
from app.gui.widgets.buttons import Toggle
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import Hairline, HBox, Surface, VBox
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

T = TypeVar("T")
R = TypeVar("R", bound=QWidget)


class IconLabel(QLabel):
    """An icon that is only looked at."""

    def __init__(self, theme: Theme, icon: str, *, color: str = "ink-2", size: int = ICON_SIZE) -> None:
        super().__init__()
        self._theme, self._icon, self._color, self._size = theme, icon, color, size
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.setPixmap(
            self._theme.pixmap(self._icon, self._color, size=self._size, ratio=max(1.0, self.devicePixelRatioF()))
        )


class ListRow(QWidget):
    """One entry of a list. `lead` and `tail` take what stands before and behind the two lines.

    The quiet line is cut where it is too long; with `wraps` it goes on in further lines, as figures must.
    """

    def __init__(
        self, theme: Theme, strong: str = "", quiet: str = "", *, inset: int = 16, wraps: bool = False
    ) -> None:
        super().__init__()
        self.theme = theme
        self._is_hovered = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        frame = VBox(theme, self, margins=(inset, 8, max(0, inset - 4), 8), gap=0)
        pair = PairLayout(theme)
        frame.addLayout(pair)
        line = HBox(theme, gap=12)
        self.lead = HBox(theme, gap=8)
        line.addLayout(self.lead)
        words = VBox(theme, gap=2)
        self._strong = ElidedLabel(theme, strong, weight=500)
        self._quiet = (Paragraph if wraps else ElidedLabel)(theme, quiet, role="meta", color="ink-2")
        self._strong.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.title = HBox(theme, gap=8)
        self.title.addWidget(self._strong)
        self.title.addStretch(1)
        words.addStretch(1)
        words.addLayout(self.title)
        words.addWidget(self._quiet)
        words.addStretch(1)
        self.words = words
        line.addLayout(words, 1)
        pair.addLayout(line)
        self.tail = HBox(theme, gap=8)
        pair.addLayout(self.tail)
        self._quiet.setVisible(bool(quiet))
        self.setAccessibleName(strong)
        theme.changed.connect(self._restyle)
        self._restyle()

    def add_tag(self, tag: QWidget) -> None:
        """Put a tag behind the strong line."""
        self.title.insertWidget(self.title.count() - 1, tag)

    def show_text(self, strong: str, quiet: str) -> None:
        """Show other words in place."""
        self._strong.setText(strong)
        self._quiet.setText(quiet)
        self._quiet.setVisible(bool(quiet))
        self.setAccessibleName(strong)
        self.setAccessibleDescription(quiet)

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 -- Qt's name
        """Tint while the pointer is over it."""
        self._set_hovered(is_hovered=True)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Take the tint away."""
        self._set_hovered(is_hovered=False)
        super().leaveEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the tint."""
        del event
        if not self._is_hovered:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.theme.color("hover"))
        gap, radius = self.theme.px(4), self.theme.px(Radius.CONTROL)
        painter.drawRoundedRect(self.rect().adjusted(gap, 1, -gap, -1), radius, radius)

    def _set_hovered(self, *, is_hovered: bool) -> None:
        self._is_hovered = is_hovered
        self.update()

    def _restyle(self) -> None:
        self.setMinimumHeight(self.theme.px(ROW_HEIGHT))


class KeyedWidgets:
    """Widgets below each other, one for each of some items: what `RowList` and `CardList` have in common."""

    rows: dict[str, QWidget]
    _box: VBox

    def sync(self, items: Mapping[str, T], make: Callable[[T], R], update: Callable[[R, T], object]) -> None:
        """Show `items` by key and in order. A row that stays is updated in place and keeps the focus."""
        if list(items) != list(self.rows):
            new_rows: dict[str, QWidget] = {}
            for key, item in items.items():
                new_rows[key] = self.rows.pop(key) if key in self.rows else make(item)
            self._arrange_rows(new_rows)
        for key, item in items.items():
            update(cast("R", self.rows[key]), item)

    def _arrange_rows(self, rows: dict[str, QWidget]) -> None:
        while (row_item := self._box.takeAt(0)) is not None:
            widget = row_item.widget()
            if widget is not None and widget not in rows.values():
                widget.hide()
                widget.deleteLater()
        for place, row in enumerate(rows.values()):
            if place:
                self._separate()
            self._box.addWidget(row)
        self.rows = rows

    def _separate(self) -> None:
        """Put something between two of them."""


class RowList(Surface, KeyedWidgets):
    """A card of rows with hairlines between them."""

    def __init__(self, theme: Theme, name: str, *, inset: int = 16) -> None:
        super().__init__(theme)
        self._inset = inset
        self.setAccessibleName(name)
        self.rows = {}
        self._box = VBox(theme, self, margins=(0, 4, 0, 4), gap=0)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def _separate(self) -> None:
        self._box.addWidget(_InsetLine(self.theme, self._inset))


class CardList(QWidget, KeyedWidgets):
    """Cards below each other."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.rows = {}
        self._box = VBox(theme, self, gap=12)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)


class _InsetLine(QWidget):
    def __init__(self, theme: Theme, inset: int) -> None:
        super().__init__()
        VBox(theme, self, margins=(inset, 0, inset, 0), gap=0).addWidget(Hairline(theme))


class Tag(QWidget):
    """A word in a small soft box: a quantisation, a format, "built in".

    The box is a tint, so that it stands out from a row that is tinted itself.
    """

    def __init__(self, theme: Theme, text: str, *, color: str = "ink-2", fill: str = "hover") -> None:
        super().__init__()
        self._theme, self._fill = theme, fill
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        line = HBox(theme, self, margins=(6, 2, 6, 2), gap=0)
        line.addWidget(Label(theme, text, role="meta", color=color, weight=500), 0, Qt.AlignmentFlag.AlignCenter)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the box."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color(self._fill))
        painter.drawRoundedRect(self.rect(), self._theme.px(4), self._theme.px(4))


class ControlRow(QWidget):
    """`tools` takes what stands beside the words, `outer` what stands below them."""

    def __init__(self, theme: Theme, title: str, help_: str) -> None:
        super().__init__()
        self.theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.outer = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        pair = PairLayout(theme, gap=24)
        self.outer.addLayout(pair)
        words = VBox(theme, gap=2)
        words.addWidget(Label(theme, title, weight=500))
        self.help = Paragraph(theme, help_, role="meta", color="ink-2")
        words.addWidget(self.help)
        pair.addLayout(words)
        self.tools = HBox(theme, gap=8)
        pair.addLayout(self.tools)
        self._wrong = Paragraph(theme, role="meta", color="bad")
        self._wrong.hide()

    def add_problem_line(self) -> None:
        """Put what is wrong at the end, below all else."""
        self.outer.addWidget(self._wrong)

    def say_wrong(self, sentence: str, control: QWidget | None = None) -> None:
        """Say what is wrong with the value; nothing for a value that is right."""
        self._wrong.setText(sentence)
        self._wrong.setVisible(bool(sentence))
        if isinstance(control, Field):
            control.set_wrong(bool(sentence))


class SwitchCard(Surface):
    """A switch of consequence: what it means as it stands, and why it cannot be moved where it cannot."""

    def __init__(self, theme: Theme, title: str, *, action: Callable[[bool], object]) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row = ControlRow(theme, title, "")
        VBox(theme, self).addWidget(row)
        self.consequence, self.tools = row.help, row.tools
        self.why_fixed = Paragraph(theme, role="meta", color="warn")
        row.outer.addWidget(self.why_fixed)
        row.add_problem_line()
        self.switch = Toggle(theme, title)
        self.switch.clicked.connect(lambda: action(self.switch.isChecked()))
        self.tools.addWidget(self.switch)

    def show_switch(self, *, is_on: bool, consequence: str, why_fixed: str) -> None:
        """Show how it stands."""
        self.switch.setChecked(is_on)
        self.switch.setEnabled(not why_fixed)
        self.switch.setToolTip(why_fixed)
        self.switch.setAccessibleDescription(why_fixed or consequence)
        self.consequence.setText(consequence)
        self.why_fixed.setText(why_fixed)
        self.why_fixed.setVisible(bool(why_fixed))
