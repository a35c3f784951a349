"""Whether a person has paused Roundhouse, as the gateway says; and the two things to do about it."""

from PySide6.QtCore import QObject, Signal

from app.core.errors import ErrorBody
from app.core.events import Event, PauseChanged
from app.core.memory import Pause
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell


class Paused(QObject):
    """Follows the gateway's pause; a gateway that is gone is not paused."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = api, shell
        self.state = Pause()
        shell.connected.connect(self.read)
        shell.lost.connect(lambda _error: self._take(Pause()))
        shell.happened.connect(self._hear)
        if shell.is_connected:
            self.read()

    def read(self) -> None:
        """Ask how it stands."""
        self._api.get("/pause", Pause, self._take, lambda _error: self._take(Pause()))

    def pause(self) -> None:
        """Have all memory given back."""
        self._api.post("/pause", None, kind=Pause, then=self._take, failed=self._refused)

    def resume(self) -> None:
        """Go on; what was loaded comes back."""
        self._api.delete("/pause", lambda: self._take(Pause()), self._refused)

    def toggle(self) -> None:
        """Do the one of both that makes sense."""
        if self.state.is_paused:
            self.resume()
        else:
            self.pause()

    def _hear(self, event: Event) -> None:
        if isinstance(event, PauseChanged):
            self._take(event.pause)

    def _take(self, state: Pause) -> None:
        if state != self.state:
            self.state = state
            self.changed.emit()

    def _refused(self, error: ErrorBody) -> None:
        self._shell.toast(error.sentence)
