"""Links to pages on the web: opened in the browser, and nothing else is."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices


def open_link(link: str) -> None:
    """Open a web page in the browser; nothing but http and https."""
    url = QUrl(link)
    if url.scheme() in {"http", "https"}:
        QDesktopServices.openUrl(url)
