"""How the rows of the list of chats are drawn: headings, folders, titles with tags, and found text with its matches."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.core.chats import ChatSummary
from app.core.translation import tr
from app.gui.screens.chat.chat_rows import (
    CHAT_ROLE,
    MARK_END,
    MARK_START,
    NESTED_ROLE,
    FolderRow,
    Index,
    MoreRow,
    id_of,
    title_of,
    words_of,
)
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING, Radius
from app.gui.widgets.text import reads_from_right

ROW_HEIGHT, _FOUND_ROW, _HEADING = 34, 54, 34
_INSET, _PAD = 8, 10
_NEST, _ICON, _FILE_ICON = 22, 16, 13
_TAG_SHARE = 0.4
"""Of a row, that its tags take at most."""
_FILE_SHARE = 0.5
"""Of the line below a title, that the name of a file takes at most."""


class ChatListDelegate(QStyledItemDelegate):
    """Draws the rows."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.drop_folder: str | None = None
        """The folder on which a dragged chat would fall."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 -- Qt's name
        """Return a row's height."""
        del option
        item = index.data(CHAT_ROLE)
        height = _HEADING if isinstance(item, str) else _FOUND_ROW if getattr(item, "snippet", "") else ROW_HEIGHT
        return QSize(self._theme.px(120), self._theme.px(height))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a heading or a chat."""
        item = index.data(CHAT_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRect(option.rect)
        if isinstance(item, str):
            self._paint_heading(painter, area, item)
        else:
            state = option.state
            if isinstance(item, ChatSummary):
                self._paint_chat(
                    painter, _indent(area, option, self._theme.px(_NEST * index.data(NESTED_ROLE))), item, state
                )
            else:
                self._paint_folder(painter, area, item, state)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:  # noqa: N802 -- Qt's name
        """Return a field for the title."""
        del option, index
        field = QLineEdit(parent)
        field.setAccessibleName(tr("Title of the chat"))
        field.setFont(self._theme.font("body"))
        return field

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 -- Qt's name
        """Put the field where the row is."""
        del index
        px = self._theme.px
        area = QRect(option.rect)
        editor.setGeometry(area.adjusted(px(_INSET), 1, -px(_INSET), -1))

    def _paint_heading(self, painter: QPainter, area: QRect, words: str) -> None:
        px = self._theme.px
        painter.setFont(self._theme.font("meta", 500))
        painter.setPen(self._theme.color("ink-3"))
        inner = area.adjusted(px(_INSET + _PAD), 0, -px(_INSET + _PAD), -px(6))
        painter.drawText(inner, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft, words)

    def _paint_folder(self, painter: QPainter, area: QRect, item: FolderRow | MoreRow, state: QStyle.StateFlag) -> None:
        """Draw a folder with how many chats it has, or the row that shows more of them."""
        px, theme = self._theme.px, self._theme
        pill = QRectF(area).adjusted(px(_INSET), 1, -px(_INSET), -1)
        self._paint_pill(painter, pill, state, is_target=id_of(item) == (self.drop_folder or "-"))
        inner = pill.adjusted(px(_PAD), 0, -px(_PAD), 0).toRect()
        is_mirrored = painter.layoutDirection() == Qt.LayoutDirection.RightToLeft
        side, gap = px(_ICON), px(_ICON + 8)
        words = inner.adjusted(0, 0, -gap, 0) if is_mirrored else inner.adjusted(gap, 0, 0, 0)
        if isinstance(item, MoreRow):
            painter.setFont(theme.font("meta"))
            painter.setPen(theme.color("ink-2"))
            paint_title(painter, words, words_of(item))
            return
        corner = QPoint(inner.right() - side if is_mirrored else inner.left(), inner.center().y() - side // 2)
        closed_icon = "chevron-left" if is_mirrored else "chevron-right"
        icon = "chevron-down" if item.is_open else closed_icon
        ratio = painter.device().devicePixelRatioF()
        painter.drawPixmap(QRect(corner, QSize(side, side)), theme.pixmap(icon, "ink-2", size=_ICON, ratio=ratio))
        count = str(item.folder.chat_count)
        painter.setFont(theme.font("meta"))
        painter.setPen(theme.color("ink-3"))
        end = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter  # Qt mirrors it with the layout
        painter.drawText(words, end, count)
        taken_width = painter.fontMetrics().horizontalAdvance(count) + px(8)
        painter.setFont(theme.font("body", 500))
        painter.setPen(theme.color("ink"))
        paint_title(
            painter,
            words.adjusted(taken_width, 0, 0, 0) if is_mirrored else words.adjusted(0, 0, -taken_width, 0),
            item.folder.name,
        )

    def _paint_chat(self, painter: QPainter, area: QRect, item: ChatSummary, state: QStyle.StateFlag) -> None:
        px = self._theme.px
        pill = QRectF(area).adjusted(px(_INSET), 1, -px(_INSET), -1)
        self._paint_pill(painter, pill, state)
        is_chosen = bool(state & QStyle.StateFlag.State_Selected)
        painter.setFont(self._theme.font("body", 500 if is_chosen else 400))
        painter.setPen(self._theme.color("ink"))
        words = pill.adjusted(px(_PAD), 0, -px(_PAD), 0).toRect()
        if not item.snippet:
            paint_title(painter, self._paint_tags(painter, words, item.tags), title_of(item))
            return
        paint_title(painter, QRect(words.left(), words.top() + px(6), words.width(), px(20)), title_of(item))
        below = QRect(words.left(), words.top() + px(26), words.width(), px(20))
        if item.file:
            below = self._paint_file(painter, below, item.file)
        self._paint_snippet(painter, below, item.snippet)

    def _paint_file(self, painter: QPainter, area: QRect, name: str) -> QRect:
        """Draw the name of the file that was found, in front of its text; return what is left for that."""
        px, metrics = self._theme.px, QFontMetrics(self._theme.font("meta"))
        ratio, side = painter.device().devicePixelRatioF(), px(_FILE_ICON)
        icon = self._theme.pixmap("paperclip", "ink-2", size=_FILE_ICON, ratio=ratio)
        painter.drawPixmap(QRect(area.left(), area.top() + (metrics.height() - side) // 2 + 1, side, side), icon)
        words = area.adjusted(side + px(4), 0, 0, 0)
        text = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, round(area.width() * _FILE_SHARE))
        painter.setFont(self._theme.font("meta"))
        painter.setPen(self._theme.color("ink-2"))
        painter.drawText(QPoint(words.left(), words.top() + metrics.ascent() + 1), text)
        return words.adjusted(metrics.horizontalAdvance(text) + px(8), 0, 0, 0)

    def _paint_tags(self, painter: QPainter, area: QRect, tags: Sequence[str]) -> QRect:
        """Draw tags at the end of a row; return what is left for the title."""
        if not tags:
            return area
        painter.save()
        painter.setFont(self._theme.font("meta"))
        painter.setPen(self._theme.color("ink-2"))
        text = " ".join(f"#{tag}" for tag in tags)
        metrics = painter.fontMetrics()
        text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, round(area.width() * _TAG_SHARE))
        taken_width = metrics.horizontalAdvance(text) + self._theme.px(8)
        is_mirrored = painter.layoutDirection() == Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignLeft if is_mirrored else Qt.AlignmentFlag.AlignRight
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # the mark stands before the word
        painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()
        return area.adjusted(taken_width, 0, 0, 0) if is_mirrored else area.adjusted(0, 0, -taken_width, 0)

    def _paint_pill(self, painter: QPainter, pill: QRectF, state: QStyle.StateFlag, *, is_target: bool = False) -> None:
        radius, is_chosen = self._theme.px(Radius.CONTROL), bool(state & QStyle.StateFlag.State_Selected)
        painter.setPen(Qt.PenStyle.NoPen)
        if is_target or is_chosen or state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(self._theme.color("accent-soft" if is_chosen or is_target else "hover"))
            painter.drawRoundedRect(pill, radius, radius)
        if state & QStyle.StateFlag.State_HasFocus and is_chosen:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self._theme.color("accent"), FOCUS_RING))
            painter.drawRoundedRect(pill.adjusted(1, 1, -1, -1), radius, radius)

    def _paint_snippet(self, painter: QPainter, area: QRect, snippet: str) -> None:
        """Draw the found text from a little before the first match on, matches strong."""
        theme, x = self._theme, area.left()
        for text, is_match in split_marks(cut_before_match(snippet)):
            font = theme.font("meta", 600 if is_match else 400)
            metrics = QFontMetrics(font)
            painter.setFont(font)
            painter.setPen(theme.color("accent-ink" if is_match else "ink-2"))
            room = area.right() - x
            if room <= 0:
                return
            elided_text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QPoint(x, area.top() + metrics.ascent() + 1), elided_text)
            x += metrics.horizontalAdvance(elided_text)


def _indent(area: QRect, option: QStyleOptionViewItem, room: int) -> QRect:
    is_mirrored = option.direction == Qt.LayoutDirection.RightToLeft
    return area.adjusted(0, 0, -room, 0) if is_mirrored else area.adjusted(room, 0, 0, 0)


def paint_title(painter: QPainter, area: QRect, title: str) -> None:
    """Draw a title on one line, in its own direction."""
    is_mirrored = painter.layoutDirection() == Qt.LayoutDirection.RightToLeft
    is_from_right = reads_from_right(title)
    side = Qt.AlignmentFlag.AlignRight if is_from_right or is_mirrored else Qt.AlignmentFlag.AlignLeft
    own = Qt.LayoutDirection.RightToLeft if is_from_right else Qt.LayoutDirection.LeftToRight
    text = painter.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, area.width())
    painter.setLayoutDirection(own)
    painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignAbsolute, text)


def cut_before_match(snippet: str) -> str:
    """Return found text on one line, cut so that the first match is near its start."""
    text = " ".join(snippet.split())
    at = text.find(MARK_START)
    lead = 14
    if at <= lead + 2:
        return text
    before = text[at - lead : at]
    return f"…{before[before.find(' ') + 1 :]}{text[at:]}"


def split_marks(snippet: str) -> list[tuple[str, bool]]:
    """Return found text in runs, and whether each is a match."""
    runs = []
    for piece in snippet.split(MARK_START):
        match, mark, rest = piece.partition(MARK_END)
        if mark:
            runs.append((match, True))
            runs.append((rest, False))
        else:
            runs.append((match, False))
    return [(text, is_match) for text, is_match in runs if text]
