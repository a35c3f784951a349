"""The list of chats: opens, renames, moves, tags, exports and deletes them by mouse, keyboard and dragging."""

from datetime import date
from functools import partial

from PySide6.QtCore import QMimeData, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QKeyEvent,
)
from PySide6.QtWidgets import QAbstractItemDelegate, QAbstractItemView, QListView, QWidget

from app.core.chats import ChatFolder, ChatFolderPatch, ChatShelf, ChatSummary
from app.core.translation import tr
from app.gui.screens.chat.chat_list import ChatList
from app.gui.screens.chat.chat_row_delegate import ROW_HEIGHT, ChatListDelegate
from app.gui.screens.chat.chat_rows import (
    CHAT_ROLE,
    CHAT_TYPE,
    NESTED_ROLE,
    ChatListModel,
    FolderRow,
    ListRow,
    MoreRow,
    id_of,
    title_of,
)
from app.gui.theme.theme import Theme
from app.gui.widgets.menus import Menu

_NEAR_END = 10
"""Rows before the end of what is loaded, from where the next page is fetched."""


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
        self._chosen_id, self._today = "", date.min
        self._rows = ChatListModel()
        self._rows.renamed.connect(chat_list.rename)
        self._rows.folder_renamed.connect(self._rename_folder)
        self._named_folder = ""
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

    def show_groups(self, chosen_id: str, today: date) -> None:
        """Show the conversations, the open one marked; while a title is typed, afterwards."""
        self._chosen_id, self._today = chosen_id, today
        self._refresh_rows()

    def _refresh_rows(self) -> None:
        if self.state() is QAbstractItemView.State.EditingState:
            return
        place, at = self.verticalScrollBar().value(), self.currentIndex()
        item, row = self._row_at(at), at.row()
        self.setUniformItemSizes(not self._chat_list.query.strip())  # rows of a search are higher
        self._rows.show_groups(self._chat_list.group_chats(self._today))
        index = self._rows.row_of(self._chosen_id)
        if self.hasFocus() and item is not None:  # the keyboard may be on its way to another chat, or have deleted it
            kept_index = self._rows.row_of(id_of(item))
            index = kept_index if kept_index.isValid() else self._rows.nearest_chat(row)
        if index.isValid():
            self.setCurrentIndex(index)
        else:
            self.clearSelection()
            self.setCurrentIndex(QModelIndex())
        self.verticalScrollBar().setValue(place)
        if self._named_folder and self._rows.row_of(self._named_folder).isValid():
            renamed_id, self._named_folder = self._named_folder, ""
            self.setCurrentIndex(self._rows.row_of(renamed_id))
            self.edit_title(renamed_id)

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
        self._named_folder = folder
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
        if bar.maximum() - value < self._theme.px(ROW_HEIGHT * _NEAR_END):
            self._chat_list.fetch_more()
