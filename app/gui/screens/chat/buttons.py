"""Round buttons of the chat page: jump to the latest message, send, stop."""

from collections.abc import Callable

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import IconButton
from app.gui.widgets.layout import hairline_pen, outline_area

_SIDE = 36


class RoundButton(IconButton):
    """An icon in a circle; `is_primary` fills it with the accent."""

    def __init__(
        self, theme: Theme, icon: str, name: str, *, action: Callable[[], object], is_primary: bool = False
    ) -> None:
        super().__init__(theme, icon, name, action=action, size=_SIDE)
        self.is_primary = is_primary
        self.setProperty("focusRadius", _SIDE // 2)

    def paint(self, painter: QPainter) -> None:
        """Draw the circle and the icon."""
        area = outline_area(self)
        radius = area.height() / 2
        painter.setBrush(self.theme.color("accent-fill" if self.is_primary else "surface"))
        painter.setPen(hairline_pen(self.theme, "accent-fill" if self.is_primary else "line"))
        painter.drawRoundedRect(area, radius, radius)
        self.paint_wash(painter, area, radius)
        self.paint_icon(painter, self._icon, "on-accent" if self.is_primary else "ink", QRectF(self.rect()))
