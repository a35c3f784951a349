"""The command palette: type a few letters of anything the window can do, press Return.

How well typed letters fit a title: every letter in order; starts of words and runs of letters count more.
"""

from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QFrame, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.core.translation import tr
from app.gui.shell.contract import Command, CommandSearch
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import ICON_SIZE, Radius
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import Hairline, Surface, VBox
from app.gui.widgets.text import Label

_WIDTH = 560
_ROW = 40
_ROWS = 9
_TOP = 96
_SEARCH_MS = 120
"""A search waits for the next letter this long."""
_COMMAND = Qt.ItemDataRole.UserRole + 1


class _CommandDelegate(QStyledItemDelegate):
    """Paints one command: icon, title, quiet hint."""

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(  # noqa: N802 -- Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        del option, index
        return QSize(0, self._theme.px(_ROW))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        command = index.data(_COMMAND)
        theme, px = self._theme, self._theme.px
        area = QRect(option.rect)
        state = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # places are mirrored here, not once more by Qt
        if state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("accent-soft"))
            painter.drawRoundedRect(area.adjusted(px(8), 1, -px(8), -1), px(Radius.CONTROL), px(Radius.CONTROL))
        inner = area.adjusted(px(20), 0, -px(20), 0)
        is_rtl = option.direction == Qt.LayoutDirection.RightToLeft
        side = px(ICON_SIZE)
        left = inner.right() - side if is_rtl else inner.left()
        picture = theme.pixmap(command.icon, "ink-2", ratio=painter.device().devicePixelRatioF())
        painter.drawPixmap(QRect(left, area.top() + (area.height() - side) // 2, side, side), picture)
        self._paint_words(painter, inner, command, is_rtl=is_rtl)
        painter.restore()

    def _paint_words(self, painter: QPainter, inner: QRect, command: Command, *, is_rtl: bool) -> None:
        theme, gap = self._theme, self._theme.px(ICON_SIZE + 12)
        start, end = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
        if is_rtl:
            start, end = end, start
        painter.setFont(theme.font("meta"))
        painter.setPen(theme.color("ink-2"))
        painter.drawText(inner, end | Qt.AlignmentFlag.AlignVCenter, command.hint)
        taken_width = painter.fontMetrics().horizontalAdvance(command.hint) + theme.px(12)
        room = inner.adjusted(taken_width, 0, -gap, 0) if is_rtl else inner.adjusted(gap, 0, -taken_width, 0)
        painter.setFont(theme.font("body", 500))
        painter.setPen(theme.color("ink"))
        title = painter.fontMetrics().elidedText(command.title, Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, start | Qt.AlignmentFlag.AlignVCenter, title)


class CommandPalette(QWidget):
    """Lies over the window while open; Escape or a click beside it closes it and gives the focus back."""

    def __init__(
        self,
        theme: Theme,
        window: QWidget,
        commands: Callable[[], list[Command]],
        searches: Sequence[CommandSearch] = (),
    ) -> None:
        super().__init__(window)
        self._theme, self._window, self._commands, self._searches = theme, window, commands, searches
        self._all_offers: list[Command] = []
        self._wait = QTimer(self, singleShot=True, interval=_SEARCH_MS)
        self._wait.timeout.connect(self._search)
        self._before: QWidget | None = None
        self.setAccessibleName(tr("Command palette"))
        self._sheet = Surface(theme, outline="edge", radius=Radius.COMPOSER)
        self._sheet.setParent(self)
        box = VBox(theme, self._sheet, margins=(0, 8, 0, 8), gap=8)
        head = VBox(theme, margins=(16, 0, 16, 0), gap=0)
        self.field = Field(theme, tr("Command"), placeholder=tr("Type a command, a page, a model or a chat"))
        self.field.setProperty("quiet", True)  # noqa: FBT003 -- Qt's signature
        self.field.setProperty("focusRing", False)  # noqa: FBT003 -- Qt's signature
        head.addWidget(self.field)
        theme.changed.connect(self._restyle)
        self._restyle()
        box.addLayout(head)
        box.addWidget(Hairline(theme))
        self.list = self._make_list()
        box.addWidget(self.list)
        self._nothing = Label(theme, tr("No matches. Try fewer letters."), color="ink-2")
        self._nothing.setContentsMargins(theme.px(20), 0, theme.px(20), 0)
        box.addWidget(self._nothing)
        self.field.textChanged.connect(self._filter_commands)
        self.field.installEventFilter(self)
        self.hide()

    def open(self) -> None:
        """Show it, empty, with everything there is."""
        self._before = self._window.focusWidget()
        self._all_offers = self._commands()
        self.field.clear()
        self._filter_commands("")
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    def close_then(self, then: Callable[[], object] | None = None) -> None:
        """Close, give the focus back, and only then do what was chosen."""
        self.hide()
        if self._before is not None and self._before.isVisible():
            self._before.setFocus(Qt.FocusReason.PopupFocusReason)
        if then is not None:
            then()

    def visible_commands(self) -> list[Command]:
        """Return the commands that are listed now."""
        return [self._model.item(row).data(_COMMAND) for row in range(self._model.rowCount())]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 -- Qt's name
        """Let the field's keys steer the list."""
        if (
            event.type() is QEvent.Type.KeyPress
            and isinstance(event, QKeyEvent)
            and self._handle_key(Qt.Key(event.key()))
        ):
            return True
        return super().eventFilter(watched, event)

    def mousePressEvent(self, event: QEvent) -> None:  # noqa: N802 -- Qt's name
        """Close when something beside the sheet is pressed."""
        event.accept()
        self.close_then()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Dim what is below."""
        del event
        QPainter(self).fillRect(self.rect(), self._theme.color("shadow"))

    def fit_window(self) -> None:
        """Fit the window after it changed its size."""
        self.setGeometry(self._window.rect())
        width = min(self._theme.px(_WIDTH), self.width() - self._theme.px(48))
        rows = min(_ROWS, self._model.rowCount())
        self.list.setFixedHeight(rows * self._theme.px(_ROW))
        self.list.setVisible(rows > 0)
        self._nothing.setVisible(not rows)
        self._sheet.setFixedWidth(width)
        self._sheet.adjustSize()
        top = min(self._theme.px(_TOP), self.height() // 8)
        self._sheet.move((self.width() - width) // 2, top)

    def _restyle(self) -> None:
        self.field.setFont(self._theme.font("chat"))
        self.field.setMinimumHeight(self._theme.px(32))

    def _make_list(self) -> QListView:
        view = QListView()
        view.setFrameShape(QFrame.Shape.NoFrame)
        view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        view.setAccessibleName(tr("Commands"))
        view.setUniformItemSizes(True)
        view.setItemDelegate(_CommandDelegate(self._theme, view))
        view.setMouseTracking(True)
        view.entered.connect(view.setCurrentIndex)
        view.clicked.connect(lambda _index: self._run_command())
        self._model = QStandardItemModel(view)
        view.setModel(self._model)
        return view

    def _filter_commands(self, text: str) -> None:
        self._model.clear()
        self._append(rank_commands(text, self._all_offers))
        self.list.setCurrentIndex(self._model.index(0, 0))
        if self._searches:
            self._wait.start()

    def _append(self, commands: Iterable[Command]) -> None:
        for command in commands:
            item = QStandardItem(command.title)
            item.setData(command, _COMMAND)
            item.setAccessibleText(f"{command.title} {command.hint}".strip())
            self._model.appendRow(item)
        self.fit_window()

    def _search(self) -> None:
        """Have looked for what is typed elsewhere; what comes of it stands below the commands."""
        text = self.field.text()
        if not text.strip() or self.isHidden():
            return

        def show(commands: list[Command]) -> None:
            if text == self.field.text() and not self.isHidden():
                self._append(commands)
                if not self.list.currentIndex().isValid():
                    self.list.setCurrentIndex(self._model.index(0, 0))

        for search in self._searches:
            search(text, show)

    def _handle_key(self, key: Qt.Key) -> bool:
        if key == Qt.Key.Key_Escape:
            self.close_then()
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self._run_command()
        elif key in {Qt.Key.Key_Up, Qt.Key.Key_Down}:
            rows = max(1, self._model.rowCount())
            step = 1 if key == Qt.Key.Key_Down else -1
            self.list.setCurrentIndex(self._model.index((self.list.currentIndex().row() + step) % rows, 0))
        else:
            return key in {Qt.Key.Key_Tab, Qt.Key.Key_Backtab}
        return True

    def _run_command(self) -> None:
        command = self.list.currentIndex().data(_COMMAND)
        if command is not None:
            self.close_then(command.run)


_WORD_START = 8
_RUN = 5
_LETTER = 1
_GAP_COST = 1
_LONGEST_GAP = 3
_WHOLE = 12
"""What is typed stands in the title as it is."""


def score_match(query: str, title: str) -> int | None:
    """Return how well `query` fits `title`; None if it does not. Case and spaces in the query are ignored."""
    letters = [letter for letter in query.casefold() if not letter.isspace()]
    text = title.casefold()
    fits = [
        fit
        for fit in (_score_walk(letters, text, jump=True), _score_walk(letters, text, jump=False))
        if fit is not None
    ]
    whole = _WHOLE if " ".join(query.casefold().split()) in text else 0
    return max(fits) + whole - min(len(text) // 16, 3) if fits else None


def rank_commands(query: str, commands: Iterable[Command]) -> list[Command]:
    """Return the commands that fit, best first; all of them in their order when nothing was typed."""
    if not query.strip():
        return list(commands)
    scored_commands = [(score_match(query, command.title), command) for command in commands]
    fitting_commands = [(points, command) for points, command in scored_commands if points is not None]
    return [command for _, command in sorted(fitting_commands, key=lambda pair: -pair[0])]


def _score_walk(letters: list[str], text: str, *, jump: bool) -> int | None:
    """Place the letters one after the other; with `jump`, at the next start of a word where there is one."""
    total, last = 0, -2
    for letter in letters:
        place = text.find(letter, max(last + 1, 0))
        if place < 0:
            return None
        if jump and place != last + 1:
            place = _word_start(text, letter, place)
        total += _letter_points(text, place, last)
        last = place
    return total


def _word_start(text: str, letter: str, place: int) -> int:
    starts = (at for at in range(place, len(text)) if text[at] == letter and (at == 0 or not text[at - 1].isalnum()))
    return next(starts, place)


def _letter_points(text: str, place: int, last: int) -> int:
    points = _LETTER
    if place == last + 1:
        points += _RUN
    elif place == 0 or not text[place - 1].isalnum():
        points += _WORD_START
    elif last >= 0:
        points -= min(place - last - 1, _LONGEST_GAP) * _GAP_COST
    return points
