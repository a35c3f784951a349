"""The focus ring: one overlay that follows the keyboard's focus and draws two accent pixels outside the control.

A control that has the focus because it was clicked gets no ring, a text field always does. A widget turns it off with
the property `focusRing` false, and says its own corner radius with `focusRadius`.
"""

from PySide6.QtCore import QEvent, QObject, QRect, Qt
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING, Radius

_GAP = 2
_FOLLOWED = frozenset({QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Hide, QEvent.Type.Show})


class FocusRing(QWidget):
    """One per application; it moves to whichever window has the focus."""

    def __init__(self, theme: Theme, application: QApplication) -> None:
        super().__init__()
        self._theme = theme
        self._target: QWidget | None = None
        self._watched: list[QWidget] = []
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        application.focusChanged.connect(self._moved)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Follow the target and what lies between it and the ring's parent."""
        if event.type() in _FOLLOWED:
            self._place()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the ring."""
        del event
        if self._target is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.color("accent"), FOCUS_RING))
        half = FOCUS_RING / 2
        own = self._target.property("focusRadius")
        radius = self._theme.px(own if isinstance(own, int) else Radius.CONTROL) + _GAP
        painter.drawRoundedRect(self.rect().toRectF().adjusted(half, half, -half, -half), radius, radius)

    def _moved(self, _old: QWidget | None, now: QWidget | None) -> None:
        for widget in self._watched:
            widget.removeEventFilter(self)
        self._watched = []
        self._target = now if now is not None and _wants_ring(now) else None
        if self._target is None:
            self.hide()
            return
        parent = _room_around(self._target)
        self.setParent(parent)
        step: QWidget | None = self._target
        while step is not None and step is not parent:
            step.installEventFilter(self)
            self._watched.append(step)
            step = step.parentWidget()
        self._place()

    def _place(self) -> None:
        parent = self.parentWidget()
        if self._target is None or parent is None or not self._target.isVisible():
            self.hide()
            return
        self.setGeometry(_outer(self._target, parent).intersected(parent.rect()))
        self.show()
        self.raise_()


def _wants_ring(widget: QWidget) -> bool:
    if widget.property("focusRing") is False or widget.isWindow():
        return False
    by_pointer = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
    return isinstance(widget, QLineEdit) or not by_pointer


def _outer(widget: QWidget, parent: QWidget) -> QRect:
    grow = FOCUS_RING + _GAP
    return QRect(widget.mapTo(parent, widget.rect().topLeft()), widget.size()).adjusted(-grow, -grow, grow, grow)


def _room_around(widget: QWidget) -> QWidget:
    parent = widget.parentWidget()
    while parent is not None and not parent.isWindow():
        is_viewport = parent.objectName() == "qt_scrollarea_viewport"
        if is_viewport or parent.rect().contains(_outer(widget, parent)):
            return parent
        parent = parent.parentWidget()
    return parent or widget.window()
