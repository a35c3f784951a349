"""The rows of the list of chats: headings, folders, chats, and the model that Qt's list shows them from."""

from collections.abc import Sequence
from typing import Any

import msgspec
from PySide6.QtCore import QMimeData, QModelIndex, QPersistentModelIndex, QStringListModel, Qt, QTimer, Signal

from app.core.chats import ChatFolder, ChatSummary
from app.core.translation import tr, tr_plural
from app.gui.screens.chat.chat_list import ChatGroup

Index = QModelIndex | QPersistentModelIndex
MARK_START, MARK_END = "\u0002", "\u0003"
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


class ChatListModel(QStringListModel):
    """Headings, folders and chats, one below the other.

    Qt keeps as many empty strings: whenever rows are added, it asks for their number twice for each row there is.
    """

    renamed = Signal(str, str)
    folder_renamed = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[ListRow] = []
        self._nested_rows: set[int] = set()

    def show_groups(self, groups: list[ChatGroup]) -> None:
        """Show these groups; nothing is touched when they are what is shown, and rows that follow are added."""
        rows: list[ListRow] = []
        nested_rows: set[int] = set()
        for group in groups:
            rows.append(group.title if group.folder is None else FolderRow(group.folder, group.is_open))
            if group.folder is not None:
                nested_rows.update(range(len(rows), len(rows) + len(group.chats)))
            rows += group.chats
            if group.folder is not None and group.has_more:
                rows.append(MoreRow(group.folder.id))
        count = len(self.rows)
        if 0 < count < len(rows) and rows[:count] == self.rows:
            self.rows, self._nested_rows = rows, nested_rows
            self.insertRows(count, len(rows) - count)
        elif rows != self.rows:
            self.rows, self._nested_rows = rows, nested_rows
            self.setStringList([""] * len(rows))

    def row_of(self, chat: str) -> QModelIndex:
        """Return where a chat or a folder is; headings have no id, and a new chat has none yet."""
        for row, item in enumerate(self.rows):
            if chat and id_of(item) == chat:
                return self.index(row)
        return QModelIndex()

    def nearest_chat(self, row: int) -> QModelIndex:
        """Return the chat or folder at a row, or the nearest below it, or above."""
        chats = [at for at, item in enumerate(self.rows) if not isinstance(item, str)]
        nearest = next((at for at in chats if at >= row), chats[-1] if chats else None)
        return QModelIndex() if nearest is None else self.index(nearest)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 -- Qt's signature
        """Return a row's words, or the chat itself."""
        item = self.rows[index.row()]
        if role == CHAT_ROLE:
            return item
        if role == NESTED_ROLE:
            return index.row() in self._nested_rows
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
        return ", ".join(filter(None, (item.file, strip_marks(item.snippet), " ".join(f"#{tag}" for tag in item.tags))))
    if isinstance(item, FolderRow):
        state = tr("open folder") if item.is_open else tr("closed folder")
        return f"{state}, {tr_plural('{count} chat', '{count} chats', item.folder.chat_count)}"
    return None


def title_of(chat: ChatSummary) -> str:
    """Return a chat's title; one that has none yet is a new chat."""
    return chat.title or tr("New chat")


def strip_marks(snippet: str) -> str:
    """Return found text without the marks."""
    return snippet.replace(MARK_START, "").replace(MARK_END, "")
