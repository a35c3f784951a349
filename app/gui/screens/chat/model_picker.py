"""The list of models to choose from, below the chip: what each is, how large, whether it is loaded."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QApplication, QSizePolicy, QWidget

from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo
from app.core.translation import tr
from app.core.words import format_bytes
from app.gui import phrases
from app.gui.net.remote_lists import BUSY_STATES
from app.gui.phrases import progress_words
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import ICON_SIZE, Radius
from app.gui.widgets.buttons import Button, ButtonLook, Pressable
from app.gui.widgets.layout import Hairline, Scroller, Surface, VBox, clear_layout

_ROW = 50
_WIDTH = 380
_MOST_ROWS = 7.5


class ModelLine(Pressable):
    """One model to choose."""

    def __init__(self, theme: Theme, info: ModelInfo, status: EngineStatus | None, *, is_chosen: bool) -> None:
        super().__init__(theme, phrases.model_title(info))
        self.info, self.is_chosen = info, is_chosen
        quiet = quiet_words(info, status)
        self._quiet = quiet
        self.setAccessibleDescription(quiet)
        self.setAccessibleName(f"{phrases.model_title(info)}, {quiet}")
        self.setEnabled(not info.problem)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 -- Qt's name
        """Return the height of two lines."""
        return QSize(self.theme.px(_WIDTH - 16), self.theme.px(_ROW))

    def paint(self, painter: QPainter) -> None:
        """Draw the title, the quiet line, the dot of a loaded model and the mark of the chosen one."""
        px, theme = self.theme.px, self.theme
        area = QRectF(self.rect())
        if self.hasFocus():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("hover"))
            painter.drawRoundedRect(area, px(Radius.CONTROL), px(Radius.CONTROL))
        self.paint_wash(painter, area, px(Radius.CONTROL))
        words = area.adjusted(px(12), 0, -px(ICON_SIZE + 24), 0)
        self._paint_line(
            painter, QRectF(words.left(), px(7), words.width(), px(20)), phrases.model_title(self.info), is_strong=True
        )
        self._paint_line(painter, QRectF(words.left(), px(26), words.width(), px(18)), self._quiet, is_strong=False)
        if self.is_chosen:
            tick = QRectF(area.right() - px(ICON_SIZE + 12), 0, px(ICON_SIZE), self.height())
            self.paint_icon(painter, "check", "accent-ink", tick)

    def _paint_line(self, painter: QPainter, area: QRectF, text: str, *, is_strong: bool) -> None:
        painter.setFont(self.theme.font("body", 500) if is_strong else self.theme.font("meta"))
        is_bad = not is_strong and bool(self.info.problem)
        painter.setPen(self.theme.color("ink" if is_strong else "bad" if is_bad else "ink-2"))
        elided_text = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, int(area.width()))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, elided_text)


class ModelPicker(Surface):
    """The models there are. It closes when one is chosen, on Escape, and when something else is pressed."""

    chosen = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget, manage: Callable[[], object]) -> None:
        super().__init__(theme, fill="surface", outline="edge", radius=Radius.CARD)
        self.setParent(parent)
        self.setAccessibleName(tr("Models to choose from"))
        box = VBox(theme, self, margins=(8, 8, 8, 8), gap=4)
        content = QWidget()
        self._lines = VBox(theme, content, gap=2)
        self._scroller = Scroller(content, tr("Models"))
        box.addWidget(self._scroller)
        box.addWidget(Hairline(theme))
        self._manage = Button(
            theme, tr("All models"), look=ButtonLook.QUIET, icon="boxes", action=lambda: self._close_and(manage)
        )
        box.addWidget(self._manage, 0, Qt.AlignmentFlag.AlignLeft)
        self.hide()

    def fill_with(
        self, models: Sequence[ModelInfo], status: Callable[[str], EngineStatus | None], chosen_name: str
    ) -> None:
        """Show these models; the keyboard stays on the line it was on."""
        focused_name = next((line.info.name for line in self._all_lines() if line.hasFocus()), "")
        clear_layout(self._lines)
        for info in models:
            line = ModelLine(self.theme, info, status(info.name), is_chosen=info.name == chosen_name)
            line.set_action(partial(self._choose_model, info.name))
            self._lines.addWidget(line)
        self._lines.addStretch(1)
        rows = min(max(1, len(models)), _MOST_ROWS)
        self._scroller.setFixedHeight(round(self.theme.px(_ROW + 2) * rows))
        for line in self._all_lines():
            if line.info.name == focused_name:
                line.setFocus()

    def open_at(self, x: int, y: int) -> None:
        """Show below a place of the parent, with the keyboard on the chosen model."""
        self.setFixedWidth(self.theme.px(_WIDTH))
        self.adjustSize()
        self.move(x, y)
        self.show()
        self.raise_()
        lines = [line for line in self._all_lines() if line.isEnabled()]
        first = next((line for line in lines if line.is_chosen), lines[0] if lines else self._manage)
        first.setFocus(Qt.FocusReason.PopupFocusReason)
        self._scroller.ensureWidgetVisible(first)
        application = QApplication.instance()
        if application is not None:
            application.installEventFilter(self)

    def close_list(self) -> None:
        """Go away."""
        application = QApplication.instance()
        if application is not None:
            application.removeEventFilter(self)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Close when something else is pressed."""
        if (
            event.type() is QEvent.Type.MouseButtonPress
            and isinstance(watched, QWidget)
            and isinstance(event, QMouseEvent)
        ):
            inside = self.rect().contains(self.mapFromGlobal(event.globalPosition().toPoint()))
            if not inside:
                self.close_list()
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Step with the arrows, leave with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_list()
        elif event.key() == Qt.Key.Key_Down:
            self.focusNextChild()
        elif event.key() == Qt.Key.Key_Up:
            self.focusPreviousChild()
        else:
            super().keyPressEvent(event)

    def _all_lines(self) -> list[ModelLine]:
        items = [self._lines.itemAt(at) for at in range(self._lines.count())]
        widgets = [item.widget() for item in items if item is not None]
        return [line for line in widgets if isinstance(line, ModelLine)]

    def _choose_model(self, name: str) -> None:
        self._close_and(lambda: self.chosen.emit(name))

    def _close_and(self, action: Callable[[], object]) -> None:
        self.close_list()
        action()


def quiet_words(info: ModelInfo, status: EngineStatus | None) -> str:
    """Return the line below a model's title: what it is, how large, how it is."""
    if info.problem:
        return info.problem
    kind = tr("built-in tiny help model") if info.is_builtin else info.quantization
    size = format_bytes(info.size_bytes) if info.size_bytes else ""
    return " · ".join(part for part in (phrases.model_origin(info), kind, size, _state_words(status)) if part)


def _state_words(status: EngineStatus | None) -> str:
    if status is None:
        return ""
    if status.state in BUSY_STATES:
        return progress_words(status.stage or tr("Loading"), status.progress, None)
    names = {EngineState.READY: tr("loaded"), EngineState.FAILED: tr("failed to load")}
    return names.get(status.state, "")
