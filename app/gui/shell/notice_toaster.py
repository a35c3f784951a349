"""What people are told of that belongs to no page: notices of the gateway, and what it did about a failed load.

What the system tells a person who looks elsewhere: that a download is over. Where it cannot, the window says so.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.core.downloads import Download
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import Event, Notice
from app.core.translation import tr
from app.gui.net.auto_remedy import undo_remedy
from app.gui.net.remote_lists import Stores
from app.gui.phrases import download_ended, library_name
from app.gui.shell.contract import Command, Shell
from app.gui.shell.tray import Tray


class NoticeToaster(QObject):
    """Says each in passing, once; what was so before the window came is not news."""

    def __init__(self, shell: Shell, stores: Stores) -> None:
        super().__init__(shell)
        self._shell, self._running_models, self._preferences = shell, stores.running, stores.preferences
        self._shown_loads: set[tuple[str, float | None]] | None = None
        shell.event_received.connect(self._show_notice)
        self._running_models.changed.connect(self._show_remedies)

    def _show_notice(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._shell.show_toast(f"{event.sentence} {event.hint}".strip())

    def _show_remedies(self) -> None:
        mended_engines = [
            engine for engine in self._running_models.items if engine.mended and engine.state is EngineState.READY
        ]
        if self._shown_loads is not None:
            for status in mended_engines:
                if (status.model, status.loaded_at) not in self._shown_loads:
                    self._shell.show_toast(
                        f"{status.model}: {status.mended[-1].sentence}", partial(self._undo_remedy, status)
                    )
        self._shown_loads = (self._shown_loads or set()) | {
            (engine.model, engine.loaded_at) for engine in mended_engines
        }

    def _undo_remedy(self, status: EngineStatus) -> None:
        undo_remedy(status, self._preferences, self._running_models, self._show_error)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(f"{error.sentence} {error.hint}".strip())


class DownloadNotifier(QObject):
    """Speaks when a download ends. Pressing what the system shows does `show`."""

    def __init__(self, stores: Stores, shell: Shell, tray: Tray, show: Callable[[], object]) -> None:
        super().__init__(stores.downloads)
        self._stores, self._shell, self._tray, self._show = stores, shell, tray, show
        stores.downloads.ended.connect(self._notify_end)

    def _notify_end(self, download: Download) -> None:
        title, text = download_ended(download)
        if QApplication.activeWindow() is None and self._tray.show_message(title, text, self._show):
            return
        if download.error is not None or download.is_companion:
            self._shell.show_toast(f"{title}.")
            return
        # The list of models may not have it yet: its name is looked up when the button is pressed.
        start_chat = Command(tr("Chat with it"), partial(self._start_chat, download), "message-square")
        self._shell.show_offer(f"{title}.", start_chat)

    def _start_chat(self, download: Download) -> None:
        self._shell.new_chat(library_name(self._stores.library.items, download))
