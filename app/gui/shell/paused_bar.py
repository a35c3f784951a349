"""Above the page while Roundhouse is paused: that it is, who still writes, and the button that goes on."""

from collections.abc import Sequence

from app.core.engines import EngineStatus
from app.gui.net.stores import Stores
from app.gui.shell.bar import Bar
from app.gui.theme.theme import Theme

_PAUSED = "Paused: the memory is free for other programs."


class PausedBar(Bar):
    """Shown while paused, and only then."""

    def __init__(self, theme: Theme, stores: Stores) -> None:
        super().__init__(theme, "warn", "pause")
        self._paused, self._running = stores.paused, stores.running
        self.button = self.offer("Resume", "play", self._paused.resume)
        self._paused.changed.connect(self._show)
        self._running.changed.connect(self._show)
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
