"""A formula as a picture: drawn once by Qt in the colour of the text around it, then painted like a letter."""

from functools import lru_cache

from PySide6.QtCore import QByteArray, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPaintEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.markdown.formulas import SCALE, FormulaDrawing

_LARGEST_PICTURE = 2_000_000
"""Device pixels of a picture that is kept; larger ones are drawn each time they are seen."""


class FormulaPicture:
    """A formula at the size of a font. Lengths are logical pixels."""

    def __init__(self, formula_drawing: FormulaDrawing, font: QFont, room: float | None = None) -> None:
        em = font.pixelSize() * SCALE
        if room is not None and formula_drawing.width * em > room > 0:
            em = room / formula_drawing.width
        self.width, self.ascent, self.descent = (
            formula_drawing.width * em,
            formula_drawing.ascent * em,
            formula_drawing.descent * em,
        )
        self._drawing = formula_drawing

    @property
    def height(self) -> float:
        """From its highest to its lowest point."""
        return self.ascent + self.descent

    def paint_at(self, painter: QPainter, x: float, baseline: float, color: QColor) -> None:
        """Paint with the left end of the baseline at a place."""
        ratio = painter.device().devicePixelRatioF()
        size = QSize(max(1, round(self.width * ratio)), max(1, round(self.height * ratio)))
        area = QRectF(x, baseline - self.ascent, self.width, self.height)
        is_paper = painter.paintEngine().type() is QPaintEngine.Type.Pdf  # where shapes stay sharp at any size
        if is_paper or size.width() * size.height() > _LARGEST_PICTURE:
            _make_renderer(self._drawing.svg, color.name()).render(painter, area)
            return
        pixmap = _make_pixmap(self._drawing.svg, color.name(), size.width(), size.height())
        pixmap.setDevicePixelRatio(ratio)
        corner = painter.transform().map(area.topLeft())
        shift = QPointF(round(corner.x() * ratio) / ratio, round(corner.y() * ratio) / ratio) - corner
        painter.drawPixmap(area.topLeft() + shift, pixmap)


def _make_renderer(svg: str, color: str) -> QSvgRenderer:
    return QSvgRenderer(QByteArray(svg.replace("currentColor", color).encode()))


@lru_cache(maxsize=400)
def _make_pixmap(svg: str, color: str, width: int, height: int) -> QPixmap:
    pixmap = QPixmap(width, height)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _make_renderer(svg, color).render(painter, QRectF(0, 0, width, height))
    painter.end()
    return pixmap
