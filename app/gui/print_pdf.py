"""Turn a page into a PDF: `python -m app.gui.print_pdf` reads HTML from standard input and writes to standard output.

A process of its own, so that the command line imports no Qt, and the window draws on while a long chat is laid out.
"""

import sys
from collections.abc import Sequence

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QRect, QRectF, QSizeF, QUrl
from PySide6.QtGui import (
    QFontMetrics,
    QGuiApplication,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
    QPyTextObject,
    QTextBlock,
    QTextCharFormat,
    QTextDocument,
    QTextFormat,
    QTextList,
)

from app.gui.screens.chat.transcript.formula_picture import FormulaPicture
from app.markdown.formulas import FormulaDrawing
from app.markdown.rendering import DRAWING_SCHEME, take_out_drawings

_DPI = 96
"""The page's own measure, so that its pixels are those of a browser."""
_POINTS = 10.5
_UNFOLDED = (
    ("<details>", '<div class="about">'),
    ("<summary>", "<p><b>"),
    ("</summary>", "</b></p>"),
    ("</details>", "</div>"),
    ('<div class="formula">', '<p align="center">'),
)
"""Paper folds nothing away, and Qt's documents know no such thing."""
_OBJECT = "\ufffc"
"""What stands in a document for anything but a letter."""
_KIND, _NUMBER = QTextFormat.ObjectTypes.UserObject.value + 1, QTextFormat.Property.UserProperty.value + 1
_POINTS_PER_INCH = 72


class FormulaObjects(QPyTextObject):
    """The formulas of a page, as a document lays them out: each is a letter as wide as its drawing.

    Qt gives it room on both sides of the middle of small letters, and draws it in the middle of the line, which is
    elsewhere where something else in the line is higher.
    """

    def __init__(self, parent: QTextDocument, drawings: Sequence[FormulaDrawing | None]) -> None:
        super().__init__(parent)
        self._drawings = drawings

    def put_back(self, document: QTextDocument) -> None:
        """Make letters of the images that stand for the drawings."""
        cursor = document.find(_OBJECT)
        while not cursor.isNull():
            letter = cursor.charFormat()
            number = letter.toImageFormat().name().removeprefix(DRAWING_SCHEME)
            if number.isdecimal() and int(number) < len(self._drawings):
                letter.setObjectType(_KIND)
                letter.setProperty(_NUMBER, int(number))
                letter.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
                cursor.setCharFormat(letter)
            cursor = document.find(_OBJECT, cursor)
        document.documentLayout().registerHandler(_KIND, self)

    def intrinsicSize(self, document: QTextDocument, at: int, letter: QTextFormat) -> QSizeF:  # noqa: N802 -- Qt's name
        """Return what a formula takes."""
        picture = self._make_picture(document, at, letter)
        if picture is None:
            return QSizeF()
        raised_by = (
            QFontMetrics(letter.toCharFormat().font()).xHeight() / 4
        )  # how far up the middle of small letters is
        return QSizeF(picture.width, 2 * max(picture.ascent - raised_by, picture.descent + raised_by))

    def drawObject(  # noqa: N802 -- Qt's name
        self, painter: QPainter, area: QRect | QRectF, document: QTextDocument, at: int, letter: QTextFormat
    ) -> None:
        """Draw a formula."""
        picture = self._make_picture(document, at, letter)
        if picture is not None:
            block = document.findBlock(at)
            line = block.layout().lineForTextPosition(at - block.position())
            baseline = QRectF(area).center().y() - line.height() / 2 + line.ascent()
            picture.paint_at(painter, area.left(), baseline, letter.foreground().color())

    def _make_picture(self, document: QTextDocument, at: int, letter: QTextFormat) -> FormulaPicture | None:
        formula_drawing, font = self._drawings[letter.intProperty(_NUMBER)], letter.toCharFormat().font()
        if formula_drawing is None:
            return None
        if font.pixelSize() < 0:
            font.setPixelSize(round(font.pointSizeF() * _DPI / _POINTS_PER_INCH))
        return FormulaPicture(formula_drawing, font, _room_in(document, document.findBlock(at)))


def _room_in(document: QTextDocument, block: QTextBlock) -> float:
    """Return how wide a line of a block is; less than nothing before the document has pages."""
    frame, form = document.rootFrame().frameFormat(), block.blockFormat()
    items: QTextList | None = block.textList()  # Qt's stubs know no block outside lists
    steps = form.indent() + (items.format().indent() if items is not None else 0)
    margins = frame.leftMargin() + frame.rightMargin() + form.leftMargin() + form.rightMargin()
    return document.pageSize().width() - margins - steps * document.indentWidth()


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
    for folded_part, unfolded_part in _UNFOLDED:
        page = page.replace(folded_part, unfolded_part)
    page, drawings = take_out_drawings(page)
    document.setHtml(page)
    FormulaObjects(document, drawings).put_back(document)
    document.print_(writer)
    del writer  # it writes the end of the file
    return bytes(buffer.data().data())


if __name__ == "__main__":
    application = QGuiApplication(sys.argv[:1])
    sys.stdout.buffer.write(print_pdf(sys.stdin.buffer.read().decode()))
