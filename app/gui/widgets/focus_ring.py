"""The focus ring: one overlay that follows the keyboard's focus and draws two accent pixels outside the control.

A control that has the focus because it was clicked gets no ring, a text field always does. A widget turns it off with
the property `focusRing` false, and says its own corner radius with `focusRadius`.
"""

from PySide6.QtCore import QEvent, QObject, QRect, Qt
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QLineEdit, QWidget
from shiboken6 import isValid

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING, Radius

_GAP = 2
"""Between a control and its ring; none where the control has an outline of its own, which would make two."""
_FOLLOWED = frozenset({QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Hide, QEvent.Type.Show})


class FocusRing(QObject):
    """Shows the ring round whatever has the focus. `owner` keeps it alive.

    The ring itself is a child of what scrolls with the control; when that is deleted, a new ring is made.
    """

    def __init__(self, theme: Theme, owner: QWidget) -> None:
        super().__init__(owner)
        self._theme = theme
        self._ring = _RingOverlay(theme, owner)
        self._watched_widgets: list[QWidget] = []
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._follow_focus)

    @property
    def ring(self) -> QWidget:
        """The ring as it is now."""
        return self._ring

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Follow the control and what lies between it and the ring's parent."""
        if event.type() in _FOLLOWED and isValid(self._ring):
            self._ring.fit_target()
        return super().eventFilter(watched, event)

    def _follow_focus(self, _old: QWidget | None, now: QWidget | None) -> None:
        for widget in self._watched_widgets:
            if isValid(widget):
                widget.removeEventFilter(self)
        self._watched_widgets = []
        if now is not None and _wants_ring(now):
            self._attach_ring(now)
            self._ring.fit_target()
        elif isValid(self._ring):
            self._ring.target = None
            self._ring.hide()

    def _attach_ring(self, target: QWidget) -> None:
        parent = _room_around(target)
        if isValid(self._ring):
            self._ring.setParent(parent)
        else:
            self._ring = _RingOverlay(self._theme, parent)
        self._ring.target = target
        step: QWidget | None = target
        while step is not None and step is not parent:
            step.installEventFilter(self)
            self._watched_widgets.append(step)
            step = step.parentWidget()


class _RingOverlay(QWidget):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.target: QWidget | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def fit_target(self) -> None:
        """Lie round the target, or hide if it is not to be seen."""
        parent = self.parentWidget()
        if self.target is None or not isValid(self.target) or parent is None or not self.target.isVisible():
            self.hide()
            return
        self.setGeometry(_outer_area(self.target, parent).intersected(parent.rect()))
        self.show()
        self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the ring."""
        del event
        if self.target is None or not isValid(self.target):
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.color("accent"), FOCUS_RING))
        half = FOCUS_RING / 2
        own = self.target.property("focusRadius")
        radius = self._theme.px(own if isinstance(own, int) else Radius.CONTROL) + _gap_of(self.target)
        painter.drawRoundedRect(self.rect().toRectF().adjusted(half, half, -half, -half), radius, radius)


def _wants_ring(widget: QWidget) -> bool:
    takes_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    if widget.property("focusRing") is False or widget.isWindow() or not takes_tab:
        return False
    by_pointer = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
    return isinstance(widget, QLineEdit) or not by_pointer


def _gap_of(widget: QWidget) -> int:
    is_outlined = isinstance(widget, (QLineEdit, QAbstractSpinBox)) or bool(widget.property("field"))
    return 0 if is_outlined and not widget.property("quiet") else _GAP


def _outer_area(widget: QWidget, parent: QWidget) -> QRect:
    grow = FOCUS_RING + _gap_of(widget)
    return QRect(widget.mapTo(parent, widget.rect().topLeft()), widget.size()).adjusted(-grow, -grow, grow, grow)


def _room_around(widget: QWidget) -> QWidget:
    parent = widget.parentWidget()
    while parent is not None and not parent.isWindow():
        is_viewport = parent.objectName() == "qt_scrollarea_viewport"
        if is_viewport or parent.rect().contains(_outer_area(widget, parent)):
            return parent
        parent = parent.parentWidget()
    return parent or widget.window()
