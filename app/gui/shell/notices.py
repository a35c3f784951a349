"""What the system tells a person who looks elsewhere: that a download is over. Where it cannot, the window says so."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from app.core.downloads import Download
from app.gui.net.mirror import Downloads
from app.gui.phrases import download_ended

_SHOWN_MS = 8000


class Notices(QObject):
    """Speaks when a download ends. The system's tray has an icon for as long as a message is shown, and no longer."""

    def __init__(self, downloads: Downloads, toast: Callable[[str], object], show: Callable[[], object]) -> None:
        super().__init__(downloads)
        self._toast, self._show = toast, show
        self._icon: QSystemTrayIcon | None = None
        downloads.ended.connect(self._tell)

    def _tell(self, download: Download) -> None:
        title, text = download_ended(download)
        if QApplication.activeWindow() is not None or not self._can_notify():
            self._toast(f"{title}.")
            return
        icon = self._icon = self._icon or self._made()
        icon.show()
        icon.showMessage(title, text, QApplication.windowIcon(), _SHOWN_MS)

    def _can_notify(self) -> bool:
        return QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()

    def _made(self) -> QSystemTrayIcon:
        icon = QSystemTrayIcon(QApplication.windowIcon(), self)
        icon.setToolTip("Roundhouse")
        icon.messageClicked.connect(self._clicked)
        icon.activated.connect(self._clicked)
        return icon

    def _clicked(self, *_how: object) -> None:
        if self._icon is not None:
            self._icon.hide()
        self._show()
