"""A row that explains its control: title and help on one side, the control on the other, what is wrong below."""

from collections.abc import Callable

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Toggle
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.text import Label, Paragraph


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
