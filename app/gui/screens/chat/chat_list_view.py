"""The list of conversations as Qt's list shows it: spans of days as quiet headings, chats as rows, matches marked.

The left pane: search, the list of chats by day, and the way to a new one.
"""

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import msgspec
from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.core.chats import ChatFolder, ChatFolderPatch, ChatShelf, ChatSummary
from app.core.translation import LazyText, tr, tr_plural
from app.gui.screens.chat.chat_list import ChatGroup, ChatList
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import FOCUS_RING, Radius
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label, Paragraph, reads_from_right

Index = QModelIndex | QPersistentModelIndex
MARK_START, MARK_END = "\u0002", "\u0003"
_ROW, _FOUND_ROW, _HEADING = 34, 54, 34
_INSET, _PAD = 8, 10
_NEAR_END = 10
_NEST, _ICON = 22, 16
_TAG_SHARE = 0.4
"""Of a row, that its tags take at most."""
CHAT_ROLE = Qt.ItemDataRole.UserRole


NESTED_ROLE = CHAT_ROLE + 1
"""Whether a chat stands below its folder."""
CHAT_TYPE = "application/x-roundhouse-chat"
"""Of what is dragged: a chat's id."""


class FolderRow(msgspec.Struct, frozen=True):
    """A folder in the list."""

    folder: ChatFolder
    is_open: bool


class MoreRow(msgspec.Struct, frozen=True):
    """That an open folder has more chats."""

    folder: str


ListRow = ChatSummary | FolderRow | MoreRow | str
"""A string is a heading."""


class ChatListModel(QAbstractListModel):
    """Headings, folders and chats, one below the other."""

    renamed = Signal(str, str)
    folder_renamed = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[ListRow] = []
        self._nested: set[int] = set()

    def show_groups(self, groups: list[ChatGroup]) -> None:
        """Show these groups; nothing is touched when they are what is shown, and rows that follow are added."""
        rows: list[ListRow] = []
        nested: set[int] = set()
        for group in groups:
            rows.append(group.title if group.folder is None else FolderRow(group.folder, group.is_open))
            if group.folder is not None:
                nested.update(range(len(rows), len(rows) + len(group.chats)))
            rows += group.chats
            if group.folder is not None and group.has_more:
                rows.append(MoreRow(group.folder.id))
        count = len(self.rows)
        if 0 < count < len(rows) and rows[:count] == self.rows:
            self.beginInsertRows(QModelIndex(), count, len(rows) - 1)
            self.rows, self._nested = rows, nested
            self.endInsertRows()
        elif rows != self.rows:
            self.beginResetModel()
            self.rows, self._nested = rows, nested
            self.endResetModel()

    def row_of(self, chat: str) -> QModelIndex:
        """Return where a chat or a folder is."""
        for row, item in enumerate(self.rows):
            if id_of(item) == chat:
                return self.index(row)
        return QModelIndex()

    def nearest_chat(self, row: int) -> QModelIndex:
        """Return the chat or folder at a row, or the nearest below it, or above."""
        chats = [at for at, item in enumerate(self.rows) if not isinstance(item, str)]
        nearest = next((at for at in chats if at >= row), chats[-1] if chats else None)
        return QModelIndex() if nearest is None else self.index(nearest)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 -- Qt's signature
        """Return how many rows there are."""
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 -- Qt's signature
        """Return a row's words, or the chat itself."""
        item = self.rows[index.row()]
        if role == CHAT_ROLE:
            return item
        if role == NESTED_ROLE:
            return index.row() in self._nested
        if role in {Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.AccessibleTextRole}:
            return words_of(item)
        if role == Qt.ItemDataRole.AccessibleDescriptionRole:
            return _describe_row(item)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Let chats and folders be chosen and renamed, and chats be dragged; headings not."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        item = self.rows[index.row()]
        if isinstance(item, str):
            return Qt.ItemFlag.ItemIsDropEnabled
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDropEnabled
        if not isinstance(item, MoreRow):
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags | Qt.ItemFlag.ItemIsDragEnabled if isinstance(item, ChatSummary) else flags

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802 -- Qt's name
        """Ask for another title or name."""
        item = self.rows[index.row()]
        if role != Qt.ItemDataRole.EditRole or isinstance(item, str | MoreRow):
            return False
        signal = self.folder_renamed if isinstance(item, FolderRow) else self.renamed
        QTimer.singleShot(0, self, lambda: signal.emit(id_of(item), str(value)))  # not while the editor commits
        return True

    def mimeTypes(self) -> list[str]:  # noqa: N802 -- Qt's name
        """Return what a dragged chat is."""
        return [CHAT_TYPE]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802 -- Qt's name
        """Return a chat that is dragged."""
        data = QMimeData()
        data.setData(CHAT_TYPE, id_of(self.rows[indexes[0].row()]).encode())
        return data


def id_of(item: ListRow) -> str:
    """Return the id of a row's chat or folder; nothing for other rows."""
    if isinstance(item, ChatSummary):
        return item.id
    return item.folder.id if isinstance(item, FolderRow) else ""


def words_of(item: ListRow) -> str:
    """Return what a row says."""
    if isinstance(item, ChatSummary):
        return title_of(item)
    if isinstance(item, FolderRow):
        return item.folder.name
    return tr("Show more") if isinstance(item, MoreRow) else item


def _describe_row(item: ListRow) -> str | None:
    """Return what a screen reader says of a row beside its words."""
    if isinstance(item, ChatSummary):
        return ", ".join(filter(None, (strip_marks(item.snippet), " ".join(f"#{tag}" for tag in item.tags))))
    if isinstance(item, FolderRow):
        state = tr("open folder") if item.is_open else tr("closed folder")
        return f"{state}, {tr_plural('{count} chat', '{count} chats', item.folder.chat_count)}"
    return None


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
        height = _HEADING if isinstance(item, str) else _FOUND_ROW if getattr(item, "snippet", "") else _ROW
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
        closed = "chevron-left" if is_mirrored else "chevron-right"
        icon = "chevron-down" if item.is_open else closed
        ratio = painter.device().devicePixelRatioF()
        painter.drawPixmap(QRect(corner, QSize(side, side)), theme.pixmap(icon, "ink-2", size=_ICON, ratio=ratio))
        count = str(item.folder.chat_count)
        painter.setFont(theme.font("meta"))
        painter.setPen(theme.color("ink-3"))
        end = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter  # Qt mirrors it with the layout
        painter.drawText(words, end, count)
        taken = painter.fontMetrics().horizontalAdvance(count) + px(8)
        painter.setFont(theme.font("body", 500))
        painter.setPen(theme.color("ink"))
        paint_title(
            painter,
            words.adjusted(taken, 0, 0, 0) if is_mirrored else words.adjusted(0, 0, -taken, 0),
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
        self._paint_snippet(painter, QRect(words.left(), words.top() + px(26), words.width(), px(20)), item.snippet)

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
        taken = metrics.horizontalAdvance(text) + self._theme.px(8)
        is_mirrored = painter.layoutDirection() == Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignLeft if is_mirrored else Qt.AlignmentFlag.AlignRight
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # the mark stands before the word
        painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()
        return area.adjusted(taken, 0, 0, 0) if is_mirrored else area.adjusted(0, 0, -taken, 0)

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
            elided = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QPoint(x, area.top() + metrics.ascent() + 1), elided)
            x += metrics.horizontalAdvance(elided)


class ChatListView(QListView):
    """The list. `chat_requested` opens a chat; F2 renames, Delete deletes."""

    chat_requested = Signal(str)
    delete_requested = Signal(str)
    export_requested = Signal(str, str)
    tags_requested = Signal(str)
    folder_chat_requested = Signal(str)
    folder_settings_requested = Signal(str)
    folder_delete_requested = Signal(str)

    def __init__(self, theme: Theme, chat_list: ChatList) -> None:
        super().__init__()
        self._theme, self._chat_list = theme, chat_list
        self._chosen, self._today = "", date.min
        self._rows = ChatListModel()
        self._rows.renamed.connect(chat_list.rename)
        self._rows.folder_renamed.connect(self._rename_folder)
        self._naming = ""
        """A new folder whose name is typed once it is in the list."""
        chat_list.folders.created.connect(self._name_folder)
        self.setModel(self._rows)
        self._delegate = ChatListDelegate(theme)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(tr("Chats"))
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setProperty("focusRing", False)  # noqa: FBT003 -- Qt's property: the row is marked instead
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setUniformItemSizes(False)
        self.setDragEnabled(True)
        self.setAcceptDrops(True)
        self.setDropIndicatorShown(False)
        self.clicked.connect(self._open_row)
        self.verticalScrollBar().valueChanged.connect(self._fetch_near_end)
        theme.changed.connect(self.scheduleDelayedItemsLayout)

    def show_groups(self, chosen: str, today: date) -> None:
        """Show the conversations, the open one marked; while a title is typed, afterwards."""
        self._chosen, self._today = chosen, today
        self._refresh_rows()

    def _refresh_rows(self) -> None:
        if self.state() is QAbstractItemView.State.EditingState:
            return
        place, at = self.verticalScrollBar().value(), self.currentIndex()
        item, row = self._row_at(at), at.row()
        self.setUniformItemSizes(not self._chat_list.query.strip())  # rows of a search are higher
        self._rows.show_groups(self._chat_list.group_chats(self._today))
        index = self._rows.row_of(self._chosen)
        if self.hasFocus() and item is not None:  # the keyboard may be on its way to another chat, or have deleted it
            kept_index = self._rows.row_of(id_of(item))
            index = kept_index if kept_index.isValid() else self._rows.nearest_chat(row)
        if index.isValid():
            self.setCurrentIndex(index)
        else:
            self.clearSelection()
            self.setCurrentIndex(QModelIndex())
        self.verticalScrollBar().setValue(place)
        if self._naming and self._rows.row_of(self._naming).isValid():
            naming, self._naming = self._naming, ""
            self.setCurrentIndex(self._rows.row_of(naming))
            self.edit_title(naming)

    def edit_title(self, chat: str) -> None:
        """Let the reader type another title, or another name of a folder."""
        index = self._rows.row_of(chat)
        if index.isValid():
            self.scrollTo(index)
            self.edit(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Delete with Delete, open with Return; folders with the arrows, too."""
        is_typing = self.state() is QAbstractItemView.State.EditingState
        item = None if is_typing else self._row_at(self.currentIndex())
        key = event.key()
        if key in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and item is not None:
            self._open_row(self.currentIndex())
        elif isinstance(item, FolderRow) and self._handle_folder_key(Qt.Key(key), item):
            return
        elif key == Qt.Key.Key_Delete and isinstance(item, ChatSummary):
            if self._chat_list.shelf is not ChatShelf.TRASH:  # from there only the menu deletes, for good
                self.delete_requested.emit(item.id)
        else:
            super().keyPressEvent(event)

    def _handle_folder_key(self, key: Qt.Key, item: FolderRow) -> bool:
        opens, closes = Qt.Key.Key_Right, Qt.Key.Key_Left
        if self.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            opens, closes = closes, opens
        if key in {opens, closes, Qt.Key.Key_Space}:
            is_open = None if key == Qt.Key.Key_Space else key == opens
            self._chat_list.folders.toggle(item.folder.id, is_open=is_open)
        elif key == Qt.Key.Key_Delete:
            self.folder_delete_requested.emit(item.folder.id)
        else:
            return False
        return True

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 -- Qt's name
        """Choose the first chat when the keyboard comes and none is chosen."""
        super().focusInEvent(event)
        first = next((row for row, item in enumerate(self._rows.rows) if not isinstance(item, str)), None)
        if event.reason() is not Qt.FocusReason.MouseFocusReason and not self.currentIndex().isValid() and first:
            self.setCurrentIndex(self._rows.index(first))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 -- Qt's name
        """Offer to rename and delete."""
        by_keys = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_keys else self.indexAt(event.pos())
        item = self._row_at(index)
        if not isinstance(item, ChatSummary | FolderRow):
            return
        menu = Menu(self._theme, self, tr("Chat actions") if isinstance(item, ChatSummary) else tr("Folder actions"))
        if isinstance(item, ChatSummary):
            self._fill_menu(menu, item)
        else:
            self._fill_folder_menu(menu, item.folder)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.viewport().mapToGlobal(self.visualRect(index).center()) if by_keys else event.globalPos())

    def _fill_menu(self, menu: Menu, item: ChatSummary) -> None:
        chats, shelf = self._chat_list, self._chat_list.shelf
        if shelf is ChatShelf.TRASH:
            menu.add_entry(tr("Restore"), lambda: chats.restore(item.id), icon="undo-2")
            menu.add_entry(tr("Delete permanently"), lambda: chats.delete_for_good(item.id), icon="trash-2")
            return
        is_archived = shelf is ChatShelf.ARCHIVED
        menu.add_entry(tr("Rename"), lambda: self.edit_title(item.id), icon="pencil")
        if not is_archived:
            words = tr("Unpin") if item.is_pinned else tr("Pin")
            menu.add_entry(words, lambda: chats.pin(item.id, is_pinned=not item.is_pinned), icon="pin")
        words = tr("Move back to chats") if is_archived else tr("Archive")
        menu.add_entry(words, lambda: chats.archive(item.id, is_archived=not is_archived), icon="archive")
        menu.add_entry(tr("Tags…"), lambda: self.tags_requested.emit(item.id), icon="tag")
        self._add_moves(menu, item)
        menu.add_entry(tr("Export…"), lambda: self.export_requested.emit(item.id, title_of(item)), icon="arrow-up")
        menu.add_entry(tr("Delete"), lambda: self.delete_requested.emit(item.id), icon="trash-2")

    def _add_moves(self, menu: Menu, item: ChatSummary) -> None:
        """Offer the folders that a chat can go to."""
        targets = [folder for folder in self._chat_list.folders.items if folder.id != item.folder]
        if not targets and not item.folder:
            return
        moves = Menu(self._theme, menu, tr("Move to a folder"))
        for folder in targets:
            moves.add_entry(folder.name, partial(self._chat_list.move, item.id, folder.id), icon="folder")
        if item.folder:
            moves.add_entry(tr("Out of its folder"), partial(self._chat_list.move, item.id, ""), icon="message-square")
        moves.setTitle(tr("Move to a folder"))
        moves.setIcon(self._theme.icon("folder"))
        menu.addMenu(moves)

    def _fill_folder_menu(self, menu: Menu, folder: ChatFolder) -> None:
        menu.add_entry(tr("New chat in it"), partial(self.folder_chat_requested.emit, folder.id), icon="plus")
        menu.add_entry(tr("Rename"), partial(self.edit_title, folder.id), icon="pencil")
        settings = partial(self.folder_settings_requested.emit, folder.id)
        menu.add_entry(tr("What new chats get…"), settings, icon="sliders-horizontal")
        menu.add_entry(tr("Delete…"), partial(self.folder_delete_requested.emit, folder.id), icon="trash-2")

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 -- Qt's name
        """Welcome a chat."""
        if event.mimeData().hasFormat(CHAT_TYPE):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:  # noqa: N802 -- Qt's name
        """Show where the chat would go."""
        if not event.mimeData().hasFormat(CHAT_TYPE) or self._chat_list.shelf is not ChatShelf.CURRENT:
            event.ignore()
            return
        self._mark_target(self._folder_at(event.position().toPoint()))
        event.acceptProposedAction()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:  # noqa: N802 -- Qt's name
        """Mark nothing any more."""
        super().dragLeaveEvent(event)
        self._mark_target(None)

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 -- Qt's name
        """Move the chat to where it fell."""
        folder = self._folder_at(event.position().toPoint())
        self._mark_target(None)
        self.move_dropped(event.mimeData(), folder)
        event.acceptProposedAction()

    def move_dropped(self, data: QMimeData, folder: str) -> None:
        """Move the chat that was dragged into a folder, or with an empty one out of its own."""
        self._chat_list.move(bytes(data.data(CHAT_TYPE).data()).decode(), folder)

    def _folder_at(self, place: QPoint) -> str:
        """Return the folder that a place belongs to; nothing for one outside of folders."""
        index = self.indexAt(place)
        item = self._row_at(index)
        if isinstance(item, ChatSummary):
            return item.folder if index.data(NESTED_ROLE) else ""
        if isinstance(item, MoreRow):
            return item.folder
        return item.folder.id if isinstance(item, FolderRow) else ""

    def _mark_target(self, folder: str | None) -> None:
        if folder != self._delegate.drop_folder:
            self._delegate.drop_folder = folder
            self.viewport().update()

    def _rename_folder(self, folder: str, name: str) -> None:
        self._chat_list.folders.change_folder(folder, ChatFolderPatch(name=name))

    def _name_folder(self, folder: str) -> None:
        self._naming = folder
        self._refresh_rows()

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:  # noqa: N802 -- Qt's name
        """Show what was held back while the reader typed."""
        super().closeEditor(editor, hint)
        QTimer.singleShot(0, self, self._refresh_rows)

    def _open_row(self, index: QModelIndex) -> None:
        item = self._row_at(index)
        if isinstance(item, ChatSummary):
            self.chat_requested.emit(item.id)
        elif isinstance(item, FolderRow):
            self._chat_list.folders.toggle(item.folder.id)
        elif isinstance(item, MoreRow):
            pages = self._chat_list.folders.pages_of(item.folder)
            if pages is not None:
                pages.fetch_more()

    def _row_at(self, index: QModelIndex) -> ListRow | None:
        item: ListRow | None = index.data(CHAT_ROLE) if index.isValid() else None
        return None if isinstance(item, str) else item

    def _fetch_near_end(self, value: int) -> None:
        bar = self.verticalScrollBar()
        if bar.maximum() - value < self._theme.px(_ROW * _NEAR_END):
            self._chat_list.fetch_more()


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


def title_of(chat: ChatSummary) -> str:
    """Return a chat's title; one that has none yet is a new chat."""
    return chat.title or tr("New chat")


def strip_marks(snippet: str) -> str:
    """Return found text without the marks."""
    return snippet.replace(MARK_START, "").replace(MARK_END, "")


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


WIDTH = 264
SHELVES = {
    ChatShelf.CURRENT: LazyText("Chats"),
    ChatShelf.ARCHIVED: LazyText("Archived chats"),
    ChatShelf.TRASH: LazyText("Trash, kept for 30 days"),
}
_EMPTY = {
    ChatShelf.CURRENT: LazyText("No chats yet."),
    ChatShelf.ARCHIVED: LazyText("Nothing is archived."),
    ChatShelf.TRASH: LazyText("The trash is empty."),
}
_LEAST = 200


class SearchField(Field):
    """The search; Escape empties it, Down goes to the list."""

    list_requested = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Empty, leave, or type."""
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
        elif event.key() == Qt.Key.Key_Down:
            self.list_requested.emit()
        else:
            super().keyPressEvent(event)


class ChatPane(QWidget):
    """The conversations there are."""

    new_chat_requested = Signal()
    menu_requested = Signal()

    def __init__(self, theme: Theme, chat_list: ChatList) -> None:
        super().__init__()
        self._theme, self._chat_list = theme, chat_list
        box = VBox(theme, self, margins=(0, 12, 0, 8), gap=4)
        self.search = SearchField(theme, tr("Search chats"), placeholder=tr("Search"), icon="search")
        self.search.textChanged.connect(chat_list.set_query)
        self.list_view = ChatListView(theme, chat_list)
        self.search.list_requested.connect(self.list_view.setFocus)
        self._skeleton = Skeleton(theme, rows=2)
        self._nothing = Paragraph(theme, color="ink-2")
        self._error = ErrorPanel(theme)
        top = HBox(theme, margins=(12, 0, 12, 4), gap=0)
        top.addWidget(self.search)
        box.addLayout(top)
        self._words = QWidget()
        HBox(theme, self._words, margins=(18, 12, 12, 0), gap=0).addWidget(self._nothing)
        self._shelf = QWidget()
        shelf_line = HBox(theme, self._shelf, margins=(8, 0, 12, 0), gap=4)
        self._shelf_words = Label(theme, "", role="meta", color="ink-2")
        back = partial(chat_list.show_shelf, ChatShelf.CURRENT)
        self.back = IconButton(theme, "chevron-left", tr("Back to your chats"), action=back)
        shelf_line.addWidget(self.back)
        shelf_line.addWidget(self._shelf_words, 1)
        box.addWidget(self._shelf)
        box.addWidget(self._words)
        box.addWidget(self._skeleton)
        self._problem = QWidget()
        VBox(theme, self._problem, margins=(8, 8, 8, 8)).addWidget(self._error)
        box.addWidget(self._problem)
        box.addWidget(self.list_view, 1)
        foot = HBox(theme, margins=(8, 4, 8, 0), gap=4)
        foot.addWidget(
            Button(theme, tr("New chat"), look=ButtonLook.QUIET, icon="plus", action=self.new_chat_requested.emit)
        )
        foot.addStretch(1)
        foot.addWidget(Label(theme, "Ctrl N", role="meta", color="ink-3"))
        self.more = IconButton(theme, "ellipsis", tr("More about chats"), action=self.menu_requested.emit)
        foot.addWidget(self.more)
        box.addLayout(foot)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_state(self, chosen: str) -> None:
        """Show the list as it is known now, the open chat marked."""
        chats = self._chat_list
        self._shelf.setVisible(chats.shelf is not ChatShelf.CURRENT or bool(chats.tag))
        self._shelf_words.setText(f"#{chats.tag}" if chats.tag else SHELVES[chats.shelf].tr())
        has_tree = chats.shelf is ChatShelf.CURRENT and not chats.query.strip() and bool(chats.folders.items)
        is_empty = chats.is_known and not chats.items and not has_tree
        self._skeleton.setVisible(not chats.is_known and chats.error is None)
        self._words.setVisible(is_empty)
        self._nothing.setText(tr("No chats match your search.") if chats.query.strip() else _EMPTY[chats.shelf].tr())
        if chats.error is not None and not chats.is_known:
            self._error.show_error(chats.error, tr("Try again"), chats.fetch_chats)
        self._problem.setVisible(chats.error is not None and not chats.is_known)
        self.list_view.show_groups(chosen, date.today())  # noqa: DTZ011 -- the reader's own day is meant

    def focus_search(self) -> None:
        """Put the keyboard into the search."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _restyle(self) -> None:
        self.setMinimumWidth(self._theme.px(_LEAST))
        self.setMaximumWidth(self._theme.px(WIDTH * 2))
