"""What people are told of that belongs to no page: notices of the gateway, and what it did about a failed load."""

from functools import partial

from PySide6.QtCore import QObject

from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import Event, Notice
from app.gui.net.mending import take_back
from app.gui.net.stores import Stores
from app.gui.shell.contract import Shell


class Told(QObject):
    """Says each in passing, once; what was so before the window came is not news."""

    def __init__(self, shell: Shell, stores: Stores) -> None:
        super().__init__(shell)
        self._shell, self._running, self._preferences = shell, stores.running, stores.preferences
        self._known: set[tuple[str, float | None]] | None = None
        shell.happened.connect(self._take)
        self._running.changed.connect(self._tell)

    def _take(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._shell.toast(f"{event.sentence} {event.hint}".strip())

    def _tell(self) -> None:
        mended = [one for one in self._running.items if one.mended and one.state is EngineState.READY]
        if self._known is not None:
            for status in mended:
                if (status.model, status.loaded_at) not in self._known:
                    self._shell.toast(f"{status.model}: {status.mended[-1].sentence}", partial(self._undo, status))
        self._known = (self._known or set()) | {(one.model, one.loaded_at) for one in mended}

    def _undo(self, status: EngineStatus) -> None:
        take_back(status, self._preferences, self._running, self._fail)

    def _fail(self, error: ErrorBody) -> None:
        self._shell.toast(f"{error.sentence} {error.hint}".strip())
