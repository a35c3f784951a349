"""Whether a person has paused Roundhouse, as the gateway says; and the two things to do about it."""

from app.core.engines import Pause
from app.core.errors import ErrorBody
from app.core.events import Event, PauseChanged
from app.gui.net.api import GatewayApi
from app.gui.net.remote import RemoteStore
from app.gui.shell.contract import Shell

_RUNS = Pause()


class PauseStore(RemoteStore[Pause]):
    """Follows the gateway's pause; a gateway that is gone is not paused."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/pause", Pause)
        self._shell = shell
        shell.disconnected.connect(lambda _error: self.replace(_RUNS))

    @property
    def state(self) -> Pause:
        """How it stands."""
        return self.value or _RUNS

    def pause(self) -> None:
        """Have all memory given back."""
        self.api.post("/pause", None, kind=Pause, then=self.replace, on_error=self._show_error)

    def resume(self) -> None:
        """Go on; what was loaded comes back."""
        self.api.delete("/pause", lambda: self.replace(_RUNS), self._show_error)

    def toggle(self) -> None:
        """Do the one of both that makes sense."""
        if self.state.is_paused:
            self.resume()
        else:
            self.pause()

    def replace(self, value: Pause) -> None:
        """Take a state as the present one; one that is no other is not news."""
        if value != self.state:
            super().replace(value)

    def apply(self, event: Event) -> None:
        """Follow a pause that was begun or ended anywhere."""
        if isinstance(event, PauseChanged):
            self.replace(event.pause)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(error.sentence)
