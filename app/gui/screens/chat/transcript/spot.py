"""How something that can be pressed is drawn in the transcript: an icon or words, lit below the pointer."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from app.gui.screens.chat.transcript.box import PaintState, Spot
from app.gui.screens.chat.transcript.look import TranscriptLook
from app.gui.theme.tokens import ICON_SIZE, Radius


def is_lit(spot: Spot, pose: PaintState) -> bool:
    """Whether the pointer or the keyboard is on a spot."""
    return pose.lit_spot is not None and pose.lit_spot.verb is spot.verb and pose.lit_spot.value == spot.value


def paint_spot(  # noqa: PLR0913 -- a painter's arguments
    painter: QPainter, look: TranscriptLook, spot: Spot, *, icon: str, pose: PaintState, color: str = "ink-3"
) -> None:
    """Draw an icon that can be pressed, lit when it is pointed at or chosen with the keys."""
    if is_lit(spot, pose):
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.color("hover"))
        painter.drawRoundedRect(spot.area, look.px(Radius.CONTROL), look.px(Radius.CONTROL))
        color = "ink"
    ratio = painter.device().devicePixelRatioF()
    size = ICON_SIZE - 2
    pixmap = look.theme.pixmap(icon, color, size=size, ratio=ratio)
    side, middle = look.px(size), spot.area.center()
    painter.drawPixmap(QPointF(round(middle.x() - side / 2), round(middle.y() - side / 2)), pixmap)


def paint_words(painter: QPainter, look: TranscriptLook, spot: Spot, *, pose: PaintState) -> None:
    """Draw a button with words: the spot's name on the surface, outlined."""
    radius = look.px(Radius.CONTROL)
    painter.setPen(look.hairline_pen("edge" if is_lit(spot, pose) else "line"))
    painter.setBrush(look.color("surface"))
    half = 0.5 / painter.device().devicePixelRatioF()
    painter.drawRoundedRect(spot.area.adjusted(half, half, -half, -half), radius, radius)
    if is_lit(spot, pose):
        painter.setBrush(look.color("hover"))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawRoundedRect(spot.area, radius, radius)
    painter.setPen(look.color("ink"))
    painter.setFont(look.button.font)
    painter.drawText(spot.area, Qt.AlignmentFlag.AlignCenter, spot.name)


def words_area(look: TranscriptLook, words: str, x: float, y: float) -> QRectF:
    """Return the room a button with words takes."""
    return QRectF(x, y, look.button.metrics.horizontalAdvance(words) + look.px(24), look.px(30))
