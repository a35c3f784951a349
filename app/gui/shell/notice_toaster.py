"""What people are told of that belongs to no page: notices of the gateway, and what it did about a failed load."""

from functools import partial

from PySide6.QtCore import QObject

from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import Event, Notice
from app.gui.net.auto_remedy import undo_remedy
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell


class NoticeToaster(QObject):
    """Says each in passing, once; what was so before the window came is not news."""

    def __init__(self, shell: Shell, stores: Stores) -> None:
        super().__init__(shell)
        self._shell, self._running, self._preferences = shell, stores.running, stores.preferences
        self._shown_loads: set[tuple[str, float | None]] | None = None
        shell.event_received.connect(self._show_notice)
        self._running.changed.connect(self._show_remedies)

    def _show_notice(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._shell.show_toast(f"{event.sentence} {event.hint}".strip())

    def _show_remedies(self) -> None:
        mended = [engine for engine in self._running.items if engine.mended and engine.state is EngineState.READY]
        if self._shown_loads is not None:
            for status in mended:
                if (status.model, status.loaded_at) not in self._shown_loads:
                    self._shell.show_toast(
                        f"{status.model}: {status.mended[-1].sentence}", partial(self._undo_remedy, status)
                    )
        self._shown_loads = (self._shown_loads or set()) | {(engine.model, engine.loaded_at) for engine in mended}

    def _undo_remedy(self, status: EngineStatus) -> None:
        undo_remedy(status, self._preferences, self._running, self._show_error)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(f"{error.sentence} {error.hint}".strip())
