"""Above the page once the service is of another version than this window: that it is, and the button that follows."""

from app import __version__
from app.gui.net.app_updates import UpdateStore
from app.gui.shell.banner import Banner
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme


class VersionBanner(Banner):
    """Shown while versions differ, and only then: what this window has not read yet of itself is not there any more."""

    def __init__(self, theme: Theme, updates: UpdateStore, shell: Shell) -> None:
        super().__init__(theme, "accent", "info")
        self._updates = updates
        self.button = self.add_button("Reopen the window", "rotate-ccw", shell.reopen_requested.emit)
        updates.changed.connect(self._show_state)
        self._show_state()

    def _show_state(self) -> None:
        state = self._updates.value
        self.setVisible(self._updates.has_gone_ahead)
        if state is not None:
            self.sentence.setText(f"Roundhouse was updated to {state.version}, but this window is still {__version__}.")
