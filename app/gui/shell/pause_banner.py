"""Above the page while Roundhouse is paused: that it is, who still writes, and the button that goes on."""

from collections.abc import Sequence

from app.core.engines import EngineStatus
from app.gui.net.remote_lists import Stores
from app.gui.shell.banner import Banner
from app.gui.theme.theme import Theme

_PAUSED = "Paused: the memory is free for other programs."


class PauseBanner(Banner):
    """Shown while paused, and only then."""

    def __init__(self, theme: Theme, stores: Stores) -> None:
        super().__init__(theme, "warn", "pause")
        self._paused, self._running = stores.paused, stores.running
        self.button = self.add_button("Resume", "play", self._paused.resume)
        self._paused.changed.connect(self._show_state)
        self._running.changed.connect(self._show_state)
        self._show_state()

    def _show_state(self) -> None:
        self.setVisible(self._paused.state.is_paused)
        self.sentence.setText(" ".join(filter(None, (_PAUSED, busy_sentence(self._running.active())))))


def busy_sentence(active: Sequence[EngineStatus]) -> str:
    """Say which models still write answers that had begun; they give their memory back afterwards."""
    names = [engine.model for engine in active if engine.in_flight]
    if not names:
        return ""
    return f"{' and '.join(names)} {'finish' if len(names) > 1 else 'finishes'} an answer first."
