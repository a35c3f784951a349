"""Everything that can be pressed: one base that knows hover, keyboard and theme, and the buttons made from it.

Round buttons of the chat page: jump to the latest message, send, stop.
"""

from collections.abc import Callable
from enum import StrEnum

from PySide6.QtCore import QEasingCurve, QEvent, QRectF, QSize, Qt, QVariantAnimation
from PySide6.QtGui import QColor, QEnterEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROL_HEIGHT, ICON_SIZE, Motion, Radius
from app.gui.widgets.layout import hairline_pen, outline_area

_ICON_GAP = 6


class Pressable(QAbstractButton):
    """A button without looks. `hover` runs from 0 to 1 while the pointer comes; `paint` draws the rest."""

    def __init__(self, theme: Theme, name: str, *, tip: str = "") -> None:
        super().__init__()
        self.theme = theme
        self.hover = 0.0
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._fade = QVariantAnimation(self)
        self._fade.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._fade.valueChanged.connect(self._set_hover)
        theme.changed.connect(self._restyle)
        self._action: Callable[[], object] | None = None
        self.clicked.connect(self._run_action)

    def set_action(self, action: Callable[[], object] | None) -> None:
        """Set what a press does, instead of what it did."""
        self._action = action

    def _run_action(self) -> None:
        if self._action is not None:
            self._action()

    def paint(self, painter: QPainter) -> None:
        """Draw the button; the painter is antialiased."""

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Set up the painter for `paint`."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.isEnabled():
            painter.setOpacity(0.45)  # the usual look of what cannot be used; exempt from the contrast rule
        self.paint(painter)

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 -- Qt's name
        """Fade the hover in."""
        self._fade_to(1.0)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Fade the hover out."""
        self._fade_to(0.0)
        super().leaveEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Press on Return too, as on Space."""
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.click()
            return
        super().keyPressEvent(event)

    def paint_wash(self, painter: QPainter, area: QRectF, radius: float) -> None:
        """Lay the hover or press tint over `area`."""
        tint = self.theme.color("press" if self.isDown() else "hover")
        tint.setAlphaF(tint.alphaF() * (1.0 if self.isDown() else self.hover))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(tint)
        painter.drawRoundedRect(area, radius, radius)

    def paint_icon(self, painter: QPainter, name: str, color: str, area: QRectF) -> None:
        """Draw an icon in the middle of `area`."""
        pixmap = self.theme.pixmap(name, color, ratio=self.devicePixelRatioF())
        side = self.theme.px(ICON_SIZE)
        middle = area.center()
        painter.drawPixmap(QRectF(middle.x() - side / 2, middle.y() - side / 2, side, side).toRect(), pixmap)

    def _fade_to(self, to: float) -> None:
        self._fade.stop()
        if not self.theme.duration(Motion.QUICK):
            self._set_hover(to)
            return
        self._fade.setDuration(self.theme.duration(Motion.QUICK))
        self._fade.setStartValue(self.hover)
        self._fade.setEndValue(to)
        self._fade.start()

    def _set_hover(self, value: object) -> None:
        self.hover = float(value) if isinstance(value, (int, float)) else 0.0
        self.update()

    def _restyle(self) -> None:
        self.updateGeometry()
        self.update()


class ButtonLook(StrEnum):
    """How much a button asks to be pressed."""

    PRIMARY = "primary"
    PLAIN = "plain"
    QUIET = "quiet"
    DANGER = "danger"
    BARE = "bare"
    """Words in a line of text: no room around them."""


_FILL = {ButtonLook.PRIMARY: "accent-fill", ButtonLook.PLAIN: "surface"}
_INK = {
    ButtonLook.PRIMARY: "on-accent",
    ButtonLook.PLAIN: "ink",
    ButtonLook.QUIET: "ink-2",
    ButtonLook.DANGER: "bad",
    ButtonLook.BARE: "ink-2",
}


class Button(Pressable):
    """A button with words. One PRIMARY per view at most; `widest` keeps room for other words in its place."""

    def __init__(  # noqa: PLR0913 -- words, looks, icon and action are what a button is
        self,
        theme: Theme,
        text: str,
        *,
        look: ButtonLook = ButtonLook.PLAIN,
        icon: str = "",
        name: str = "",
        widest: str = "",
        action: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(theme, name or text)
        self._look, self._icon, self._widest = look, icon, widest
        self.setText(text)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_action(action)

    def set_text(self, text: str) -> None:
        """Show other words; a screen reader says them too."""
        self.setText(text)
        self.setAccessibleName(text)
        self.updateGeometry()

    def set_icon(self, icon: str) -> None:
        """Show another icon before the words."""
        self._icon = icon
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for icon and words."""
        self.setFont(self.theme.font("body", 500))
        px = self.theme.px
        icon = px(ICON_SIZE + _ICON_GAP) if self._icon else 0
        words = max(self.fontMetrics().horizontalAdvance(text) for text in (self.text(), self._widest))
        if self._look is ButtonLook.BARE:
            return QSize(words + icon + px(4), px(ICON_SIZE + 4))
        return QSize(words + icon + px(24), px(CONTROL_HEIGHT))

    def paint(self, painter: QPainter) -> None:
        """Draw fill, outline, icon and words."""
        area, radius = outline_area(self), self.theme.px(Radius.CONTROL)
        fill = _FILL.get(self._look, "")
        if fill:
            painter.setBrush(self.theme.color(fill))
            painter.setPen(hairline_pen(self.theme, fill if self._look is ButtonLook.PRIMARY else "line"))
            painter.drawRoundedRect(area, radius, radius)
        if self._look is not ButtonLook.BARE:
            self.paint_wash(painter, area, radius)
        ink = "ink" if self._look is ButtonLook.BARE and self.hover else _INK[self._look]
        px = self.theme.px
        words = self.fontMetrics().horizontalAdvance(self.text())
        icon = px(ICON_SIZE) if self._icon else 0
        gap = px(_ICON_GAP) if self._icon else 0
        start = (self.width() - words - icon - gap) / 2
        is_rtl = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        if self._icon:
            left = start + words + gap if is_rtl else start
            self.paint_icon(painter, self._icon, ink, QRectF(left, 0, icon, self.height()))
        painter.setPen(self.theme.color(ink))
        painter.setFont(self.theme.font("body", 500))
        left = start if is_rtl else start + icon + gap
        painter.drawText(QRectF(left - 1, 0, words + 2, self.height()), Qt.AlignmentFlag.AlignCenter, self.text())


class IconButton(Pressable):
    """A button that is an icon; its name is its tip."""

    def __init__(
        self,
        theme: Theme,
        icon: str,
        name: str,
        *,
        action: Callable[[], object] | None = None,
        size: int = CONTROL_HEIGHT,
    ) -> None:
        super().__init__(theme, name, tip=name)
        self._icon, self._size, self._color = icon, size, "ink-2"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_action(action)

    def set_icon(self, icon: str, name: str, color: str = "ink-2") -> None:
        """Show another icon under another name."""
        self._icon, self._color = icon, color
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return a square."""
        return QSize(self.theme.px(self._size), self.theme.px(self._size))

    def paint(self, painter: QPainter) -> None:
        """Draw the icon, and a soft pill below it when it is on."""
        area, radius = outline_area(self), self.theme.px(Radius.CONTROL)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self.theme.color("accent-soft"))
            painter.drawRoundedRect(area, radius, radius)
        self.paint_wash(painter, area, radius)
        self.paint_icon(painter, self._icon, "accent-ink" if self.isChecked() else self._color, QRectF(self.rect()))


class Chip(Pressable):
    """A small rounded choice: on is soft accent. With `icon` it is also a way in, such as a model's name."""

    def __init__(self, theme: Theme, text: str, *, checkable: bool = True, icon: str = "") -> None:
        super().__init__(theme, text)
        self._icon = icon
        self.setText(text)
        self.setCheckable(checkable)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return room for the words."""
        self.setFont(self.theme.font("meta", 500))
        px = self.theme.px
        icon = px(ICON_SIZE) if self._icon else 0
        return QSize(self.fontMetrics().horizontalAdvance(self.text()) + icon + px(24), px(28))

    def paint(self, painter: QPainter) -> None:
        """Draw the pill and the words."""
        area = outline_area(self)
        radius = area.height() / 2
        is_on = self.isChecked()
        painter.setBrush(self.theme.color("accent-soft") if is_on else QColor(Qt.GlobalColor.transparent))
        painter.setPen(hairline_pen(self.theme, "accent" if is_on else "edge"))
        painter.drawRoundedRect(area, radius, radius)
        self.paint_wash(painter, area, radius)
        ink = "accent-ink" if is_on else "ink-2"
        words = QRectF(self.rect())
        if self._icon:
            side = self.theme.px(ICON_SIZE)
            self.paint_icon(painter, self._icon, ink, QRectF(self.theme.px(8), 0, side, self.height()))
            words.adjust(side, 0, 0, 0)
        painter.setPen(self.theme.color(ink))
        painter.setFont(self.theme.font("meta", 500))
        painter.drawText(words, Qt.AlignmentFlag.AlignCenter, self.text())


class Toggle(Pressable):
    """An on/off switch. Its state is told to screen readers as checked or not."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, name)
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._slide = QVariantAnimation(self)
        self._slide.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._slide.valueChanged.connect(self._set_position)
        self._place = 0.0
        self.toggled.connect(self._slide_to)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the size of the track."""
        return QSize(self.theme.px(36), self.theme.px(20))

    def paint(self, painter: QPainter) -> None:
        """Draw track and knob."""
        area = outline_area(self)
        radius = area.height() / 2
        painter.setPen(hairline_pen(self.theme, "accent-fill" if self.isChecked() else "edge"))
        painter.setBrush(self.theme.color("accent-fill" if self.isChecked() else "sunken"))
        painter.drawRoundedRect(area, radius, radius)
        self.paint_wash(painter, area, radius)
        gap = self.theme.px(3)
        side = area.height() - 2 * gap
        travel = area.width() - side - 2 * gap
        place = 1.0 - self._place if self.layoutDirection() == Qt.LayoutDirection.RightToLeft else self._place
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.theme.color("on-accent" if self.isChecked() else "edge"))
        painter.drawEllipse(QRectF(area.left() + gap + travel * place, area.top() + gap, side, side))

    def _slide_to(self, is_on: bool) -> None:  # noqa: FBT001 -- a slot of a bool signal
        goal = 1.0 if is_on else 0.0
        duration = self.theme.duration(Motion.QUICK) if self.isVisible() else 0
        if not duration:
            self._set_position(goal)
            return
        self._slide.stop()
        self._slide.setDuration(duration)
        self._slide.setStartValue(self._place)
        self._slide.setEndValue(goal)
        self._slide.start()

    def _set_position(self, value: object) -> None:
        self._place = float(value) if isinstance(value, (int, float)) else 0.0
        self.update()


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
