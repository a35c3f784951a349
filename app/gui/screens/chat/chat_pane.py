"""The left pane of the chat page: search, the list of chats by day, and the way to a new one."""

from datetime import date
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from app.core.chats import ChatShelf
from app.core.translation import LazyText, tr
from app.gui.screens.chat.chat_list import ChatList
from app.gui.screens.chat.chat_list_view import ChatListView
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label, Paragraph

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

    def show_state(self, chosen_id: str) -> None:
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
        self.list_view.show_groups(chosen_id, date.today())  # noqa: DTZ011 -- the reader's own day is meant

    def focus_search(self) -> None:
        """Put the keyboard into the search."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _restyle(self) -> None:
        self.setMinimumWidth(self._theme.px(_LEAST))
        self.setMaximumWidth(self._theme.px(WIDTH * 2))
