"""The card of documents above the composer: in which collections passages are looked up for this chat's questions."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.core.documents import Collection
from app.core.translation import tr
from app.gui.phrases import describe_collection
from app.gui.screens.chat.options import OptionsPanel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.layout import Scroller, VBox
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Paragraph

_LEAST = 64
_HEAD = 56


class CollectionsPanel(OptionsPanel):
    """Shows the collections. `chosen` has the ids of those that the chat uses."""

    chosen = Signal(list)
    manage_requested = Signal()

    def __init__(self, theme: Theme, close: Callable[[], object]) -> None:
        super().__init__(theme, tr("Documents"), tr("Passages of these go with each question."), close)
        self._ids: list[str] = []
        page = QWidget()
        box = VBox(theme, page, margins=(2, 2, 8, 2), gap=8)
        self._nothing = Paragraph(
            theme, tr("No collections yet. Add a folder of documents, and chats can answer from it."), color="ink-2"
        )
        self._list = RowList(theme, tr("Collections"))
        self.manage = Button(
            theme, tr("Manage"), look=ButtonLook.QUIET, name=tr("Manage documents"), action=self.manage_requested.emit
        )
        self.tools.addWidget(self.manage)
        for widget in (self._nothing, self._list):
            box.addWidget(widget)
        self._scroller = Scroller(page, tr("Documents"))
        self.box.addWidget(self._scroller)

    @property
    def field(self) -> QWidget:
        """Where the keyboard begins."""
        first = next(iter(self._list.rows.values()), None)
        return first.switch if isinstance(first, CollectionRow) else self.manage

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        self._scroller.setMaximumHeight(max(self.theme.px(_LEAST), height - self.theme.px(_HEAD)))

    def show_collections(self, ids: Sequence[str], collections: Sequence[Collection]) -> None:
        """Show which of the collections a chat uses; one that is gone is left out when another is chosen."""
        self._ids = list(ids)
        self._list.sync(
            {collection.id: collection for collection in collections},
            self._make_row,
            lambda row, collection: row.show_collection(collection, is_on=collection.id in ids),
        )
        self._list.setVisible(bool(collections))
        self._nothing.setVisible(not collections)

    def _make_row(self, collection: Collection) -> "CollectionRow":
        row = CollectionRow(self.theme, collection.name)
        row.switch.clicked.connect(partial(self._switch, row, collection.id))
        return row

    def _switch(self, row: "CollectionRow", collection: str) -> None:
        there = [id_ for id_ in self._list.rows if id_ in self._ids and id_ != collection]
        self.chosen.emit([*there, *([collection] if row.switch.isChecked() else [])])


class CollectionRow(ListRow):
    """One collection, and whether the chat uses it."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, name)
        self.switch = Toggle(theme, tr("Use {name} in this chat", name=name))
        self.tail.addWidget(self.switch)

    def show_collection(self, collection: Collection, *, is_on: bool) -> None:
        """Show how it stands."""
        self.show_text(collection.name, describe_collection(collection))
        self.switch.setChecked(is_on)
