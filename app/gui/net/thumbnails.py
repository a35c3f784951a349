"""Small pictures of attached files, asked for when one is first drawn and kept while they are likely drawn again."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QPixmap

from app.client.http import quote_segment
from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.errors import ErrorBody
from app.gui.net.api import GatewayApi

_MOST_KEPT = 60
"""Of 320 x 320 pixels and 4 bytes each: 24 MB."""


class Thumbnails(QObject):
    """By the hash of the file. `arrived`: one can be drawn now."""

    arrived = Signal()

    def __init__(self, api: GatewayApi, parent: QObject) -> None:
        super().__init__(parent)
        self._api = api
        self._pixmaps: dict[str, QPixmap] = {}
        self._pending_paths: set[str] = set()

    def find(self, attachment: Attachment) -> QPixmap | None:
        """Return the picture; None before it is there, and for what is no picture."""
        if attachment.kind not in {AttachmentKind.PICTURE, AttachmentKind.PAGES}:
            return None
        pixmap = self._pixmaps.pop(attachment.hash, None)
        if pixmap is None:
            self._fetch(attachment)
            return None
        self._pixmaps[attachment.hash] = pixmap  # the last one that was drawn goes last
        return None if pixmap.isNull() else pixmap

    def _fetch(self, attachment: Attachment) -> None:
        key = attachment.hash
        if key in self._pending_paths:
            return
        self._pending_paths.add(key)

        def keep(content: bytes) -> None:
            pixmap = QPixmap()
            pixmap.loadFromData(content)
            self._pending_paths.discard(key)
            self._pixmaps[key] = pixmap
            while len(self._pixmaps) > _MOST_KEPT:
                del self._pixmaps[next(iter(self._pixmaps))]
            self.arrived.emit()

        def give_up(_error: ErrorBody) -> None:
            keep(b"")  # a picture of nothing: it is not asked for again

        path = f"/attachments/{quote_segment(attachment.id)}/content?part={AttachmentPart.THUMBNAIL}"
        self._api.get(path, bytes, keep, give_up)
