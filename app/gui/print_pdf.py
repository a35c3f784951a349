"""Turn a page into a PDF: `python -m app.gui.print_pdf` reads HTML from standard input and writes to standard output.

A process of its own, so that the command line imports no Qt, and the window draws on while a long chat is laid out.
"""

import sys

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QUrl
from PySide6.QtGui import QGuiApplication, QPageLayout, QPageSize, QPdfWriter, QTextDocument

_DPI = 96
"""The page's own measure, so that its pixels are those of a browser."""
_POINTS = 10.5
_UNFOLDED = (
    ("<details>", '<div class="about">'),
    ("<summary>", "<p><b>"),
    ("</summary>", "</b></p>"),
    ("</details>", "</div>"),
)
"""Paper folds nothing away, and Qt's documents know no such thing."""


class ClosedDocument(QTextDocument):
    """A document that opens no file: what a model wrote may name any of this computer's as a picture."""

    def loadResource(self, kind: int, name: QUrl | str) -> object:  # noqa: N802 -- Qt's name
        """Return what the page itself holds; nothing for what is elsewhere."""
        return super().loadResource(kind, name) if QUrl(name).scheme() == "data" else None


def print_pdf(page: str, title: str = "") -> bytes:
    """Return the page as PDF, on A4. It loads nothing that the page names. Needs a QGuiApplication."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setPageLayout(
        QPageLayout(
            QPageSize(QPageSize.PageSizeId.A4),
            QPageLayout.Orientation.Portrait,
            QMarginsF(),  # the document leaves two centimetres by itself
        )
    )
    writer.setResolution(_DPI)
    writer.setTitle(title)
    document = ClosedDocument()
    font = document.defaultFont()
    font.setPointSizeF(_POINTS)
    document.setDefaultFont(font)
    for folded, unfolded in _UNFOLDED:
        page = page.replace(folded, unfolded)
    document.setHtml(page)
    document.print_(writer)
    del writer  # it writes the end of the file
    return bytes(buffer.data().data())


if __name__ == "__main__":
    application = QGuiApplication(sys.argv[:1])
    sys.stdout.buffer.write(print_pdf(sys.stdin.buffer.read().decode()))
