"""A strip above the page that says how things stand, with the button that changes it."""

from collections.abc import Callable

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.rows import IconLabel
from app.gui.widgets.text import Paragraph


class Banner(QWidget):
    """A picture, a sentence and a button, in the `tone` of a colour token: "accent" or "warn"."""

    def __init__(self, theme: Theme, tone: str, picture: str) -> None:
        super().__init__()
        self._theme = theme
        sheet = Surface(theme, fill=f"{tone}-soft", outline="")
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        VBox(theme, self, margins=(16, 16, 16, 0)).addWidget(sheet)
        self._line = HBox(theme, sheet, margins=(16, 12, 12, 12), gap=12)
        self._line.addWidget(IconLabel(theme, picture, color=tone))
        self.sentence = Paragraph(theme)
        self._line.addWidget(self.sentence, 1)

    def add_button(self, words: str, icon: str, action: Callable[[], object]) -> Button:
        """Add the button that changes it."""
        button = Button(self._theme, words, icon=icon, action=action)
        self._line.addWidget(button)
        return button
