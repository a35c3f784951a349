"""The rail: where one is. The chosen page is a soft accent pill; a dot on Server says how the engines are."""

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QButtonGroup, QWidget

from app.core.engines import EngineState, EngineStatus
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import BUSY_STATES
from app.gui.shell.contract import RAIL, PageId
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import RAIL_WIDTH
from app.gui.widgets.buttons import Pressable
from app.gui.widgets.layout import VBox, hairline_pen

TITLES = {
    PageId.CHAT: (LazyText("Chat"), "message-square"),
    PageId.MODELS: (LazyText("Models"), "boxes"),
    PageId.SERVER: (LazyText("Server"), "server"),
    PageId.CONNECT: (LazyText("Connect"), "plug"),
    PageId.MACHINE: (LazyText("Machine"), "cpu"),
    PageId.ENGINES: (LazyText("Engines"), "train-front"),
    PageId.SETTINGS: (LazyText("Settings"), "settings"),
}
_REACHED_FROM = {
    PageId.CONNECTIONS: PageId.SETTINGS,
    PageId.MCP: PageId.SETTINGS,
    PageId.AGENTS: PageId.SETTINGS,
    PageId.DOCUMENTS: PageId.SETTINGS,
    PageId.BENCHMARKS: PageId.MACHINE,
    PageId.PROFILES: PageId.MODELS,
    PageId.MACHINES: PageId.SETTINGS,
}
_BUTTON = 40
_PILL = 10
_DOT = 8


def engines_sign(statuses: list[EngineStatus]) -> tuple[str, str]:
    """Return the colour and the words of the dot: off, ready, loading or failed."""
    states = {status.state for status in statuses}
    if states & (BUSY_STATES | {EngineState.BACKING_OFF}):
        return "accent", tr("loading a model")
    if EngineState.READY in states:
        return "ok", tr("a model is ready")
    if EngineState.FAILED in states:
        return "bad", tr("a model failed")
    return "edge", tr("no model loaded")


class RailButton(Pressable):
    """One page of the rail."""

    def __init__(self, theme: Theme, page: PageId, shortcut: str) -> None:
        message, self._icon = TITLES[page]
        title = message.tr()
        super().__init__(theme, title, tip=f"{title}  {shortcut}")
        self._title, self._tip = title, f"{title}  {shortcut}"
        self._dot = ""
        self.setCheckable(True)
        self.setProperty("focusRadius", _PILL)

    def set_dot(self, color: str, words: str) -> None:
        """Put a dot of a colour on the icon; the words go to the button's description."""
        self._dot = color
        self.setAccessibleDescription(words)
        self.setToolTip(f"{self._tip}\n{words}" if words else self._tip)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return its square."""
        return QSize(self.theme.px(_BUTTON), self.theme.px(_BUTTON))

    def paint(self, painter: QPainter) -> None:
        """Draw the pill, the icon and the dot."""
        area, radius = QRectF(self.rect()), self.theme.px(_PILL)
        is_on = self.isChecked()
        if is_on:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self.theme.color("accent-soft"))
            painter.drawRoundedRect(area, radius, radius)
        else:
            self.paint_wash(painter, area, radius)
        self.paint_icon(painter, self._icon, "accent-ink" if is_on else "ink-2", area)
        if self._dot:
            side = self.theme.px(_DOT)
            spot = QRectF(area.center().x() + side * 0.75, area.center().y() - side * 1.6, side, side)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self.theme.color("accent-soft" if is_on else "ground"))
            painter.drawEllipse(spot.adjusted(-2, -2, 2, 2))
            painter.setBrush(self.theme.color(self._dot))
            painter.drawEllipse(spot)


class Rail(QWidget):
    """The pages, Settings at the foot. Up and Down move along it."""

    chosen = Signal(str)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setAccessibleName(tr("Pages"))
        box = VBox(theme, self, margins=(8, 12, 8, 12), gap=4)
        self._group = QButtonGroup(self)
        self.buttons: dict[PageId, RailButton] = {}
        for number, page in enumerate(RAIL, 1):
            if page is PageId.SETTINGS:
                box.addStretch(1)
            button = RailButton(theme, page, f"Ctrl+{number}")
            button.set_action(lambda page=page: self.chosen.emit(page.value))  # type: ignore[misc]  # mypy infers no default
            self._group.addButton(button)
            self.buttons[page] = button
            box.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_page(self, page: PageId) -> None:
        """Mark a page as the one that is shown, or the one it is reached from."""
        self.buttons[_REACHED_FROM.get(page, page)].setChecked(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Move the focus with the arrows."""
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        places = list(self.buttons.values())
        focused_place = next((at for at, button in enumerate(places) if button.hasFocus()), None)
        if step and focused_place is not None:
            places[(focused_place + step) % len(places)].setFocus(Qt.FocusReason.TabFocusReason)
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the ground and the hairline at the page's side."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("sunken"))
        painter.setPen(hairline_pen(self._theme, "line"))
        edge = 0 if self.layoutDirection() == Qt.LayoutDirection.RightToLeft else self.width() - 1
        painter.drawLine(edge, 0, edge, self.height())

    def _restyle(self) -> None:
        self.setFixedWidth(self._theme.px(RAIL_WIDTH))
        self.update()
