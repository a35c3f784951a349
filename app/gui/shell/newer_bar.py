"""Above the page once the service is of another version than this window: that it is, and the button that follows."""

from PySide6.QtWidgets import QSizePolicy, QWidget

from app import __version__
from app.gui.net.updates import Updates
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.press import Button
from app.gui.widgets.rows import Picture
from app.gui.widgets.text import Paragraph


class NewerBar(QWidget):
    """Shown while versions differ, and only then: what this window has not read yet of itself is not there any more."""

    def __init__(self, theme: Theme, updates: Updates, shell: Shell) -> None:
        super().__init__()
        self._updates = updates
        sheet = Surface(theme, fill="accent-soft", outline="")
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        Column(theme, self, margins=(16, 16, 16, 0)).addWidget(sheet)
        line = Line(theme, sheet, margins=(16, 12, 12, 12), gap=12)
        line.addWidget(Picture(theme, "info", color="accent"))
        self.said = Paragraph(theme)
        line.addWidget(self.said, 1)
        self.button = Button(theme, "Reopen the window", icon="rotate-ccw", action=shell.reopen_asked.emit)
        line.addWidget(self.button)
        updates.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        state = self._updates.state
        self.setVisible(self._updates.has_gone_ahead)
        if state is not None:
            self.said.setText(f"Roundhouse is {state.version} now, and this window still {__version__}.")
