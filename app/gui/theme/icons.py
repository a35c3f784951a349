"""Lucide's outline icons (ISC), tinted while they are rendered. Drawn on 24 px with 2 px strokes: 1.5 px at 18 px."""

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.config.paths import RESOURCES

FOLDER = RESOURCES / "icons"


def render_icon(name: str, color: QColor, size: int, ratio: float) -> QPixmap:
    """Render icon `name` at `size` logical pixels. Raises FileNotFoundError for one the set lacks."""
    source = (FOLDER / f"{name}.svg").read_bytes().replace(b"currentColor", color.name().encode())
    pixels = round(size * ratio)
    pixmap = QPixmap(QSize(pixels, pixels))
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setOpacity(color.alphaF())
    QSvgRenderer(QByteArray(source)).render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap
