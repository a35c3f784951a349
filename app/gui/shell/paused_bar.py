"""Above the page while Roundhouse is paused: that it is, who still writes, and the button that goes on."""

from collections.abc import Sequence

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.engines import EngineStatus
from app.gui.net.mirror import Running
from app.gui.net.pause import Paused
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.press import Button
from app.gui.widgets.rows import Picture
from app.gui.widgets.text import Paragraph

_PAUSED = "Paused: other programs have the memory."


class PausedBar(QWidget):
    """Shown while paused, and only then."""

    def __init__(self, theme: Theme, paused: Paused, running: Running) -> None:
        super().__init__()
        self._paused, self._running = paused, running
        sheet = Surface(theme, fill="warn-soft", outline="")
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        Column(theme, self, margins=(16, 16, 16, 0)).addWidget(sheet)
        line = Line(theme, sheet, margins=(16, 12, 12, 12), gap=12)
        line.addWidget(Picture(theme, "pause", color="warn"))
        self.said = Paragraph(theme)
        line.addWidget(self.said, 1)
        self.button = Button(theme, "Resume", icon="play", action=paused.resume)
        line.addWidget(self.button)
        paused.changed.connect(self._show)
        running.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        self.setVisible(self._paused.state.is_paused)
        self.said.setText(" ".join(filter(None, (_PAUSED, finishing(self._running.active())))))


def finishing(active: Sequence[EngineStatus]) -> str:
    """Say which models still write answers that had begun; they give their memory back afterwards."""
    names = [one.model for one in active if one.in_flight]
    if not names:
        return ""
    return f"{' and '.join(names)} {'finish' if len(names) > 1 else 'finishes'} an answer first."
