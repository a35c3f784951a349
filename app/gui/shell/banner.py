"""Strips above the page that say how things stand, each with the button that changes it.

One says that the service is of another version than this window, one that Roundhouse is paused and who still writes.
"""

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QSizePolicy, QWidget

from app import __version__
from app.core.engines import EngineStatus
from app.core.translation import tr, tr_list, tr_plural
from app.gui.net.app_updates import UpdateStore
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell
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


class VersionBanner(Banner):
    """Shown while versions differ, and only then: what this window has not read yet of itself is not there any more."""

    def __init__(self, theme: Theme, updates: UpdateStore, shell: Shell) -> None:
        super().__init__(theme, "accent", "info")
        self._updates = updates
        self.button = self.add_button(tr("Reopen the window"), "rotate-ccw", shell.reopen_requested.emit)
        updates.changed.connect(self._show_state)
        self._show_state()

    def _show_state(self) -> None:
        state = self._updates.value
        self.setVisible(self._updates.has_gone_ahead)
        if state is not None:
            self.sentence.setText(
                tr(
                    "Roundhouse was updated to {version}, but this window is still {window_version}.",
                    version=state.version,
                    window_version=__version__,
                )
            )


class PauseBanner(Banner):
    """Shown while paused, and only then."""

    def __init__(self, theme: Theme, stores: Stores) -> None:
        super().__init__(theme, "warn", "pause")
        self._pause_state, self._running_models = stores.paused, stores.running
        self.button = self.add_button(tr("Resume"), "play", self._pause_state.resume)
        self._pause_state.changed.connect(self._show_state)
        self._running_models.changed.connect(self._show_state)
        self._show_state()

    def _show_state(self) -> None:
        self.setVisible(self._pause_state.state.is_paused)
        pause_words = tr("Paused: the memory is free for other programs.")
        self.sentence.setText(f"{pause_words} {busy_sentence(self._running_models.active())}".strip())


def busy_sentence(active: Sequence[EngineStatus]) -> str:
    """Say which models still write answers that had begun; they give their memory back afterwards."""
    names = [engine.model for engine in active if engine.in_flight]
    if not names:
        return ""
    return tr_plural(
        "{models} finishes an answer first.", "{models} finish their answers first.", len(names), models=tr_list(names)
    )
