"""What the system tells a person who looks elsewhere: that a download is over. Where it cannot, the window says so."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.core.downloads import Download
from app.gui.net.remote_lists import DownloadStore
from app.gui.phrases import download_ended
from app.gui.shell.tray import Tray


class DownloadNotifier(QObject):
    """Speaks when a download ends. Pressing what the system shows does `show`."""

    def __init__(
        self, downloads: DownloadStore, toast: Callable[[str], object], tray: Tray, show: Callable[[], object]
    ) -> None:
        super().__init__(downloads)
        self._toast, self._tray, self._show = toast, tray, show
        downloads.ended.connect(self._notify_end)

    def _notify_end(self, download: Download) -> None:
        title, text = download_ended(download)
        if QApplication.activeWindow() is not None or not self._tray.show_message(title, text, self._show):
            self._toast(f"{title}.")
