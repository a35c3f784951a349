"""The page of documents: a card for each collection of folders, and the form for another."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QDir, QPoint
from PySide6.QtWidgets import QFileDialog, QSizePolicy, QWidget

from app.core.documents import Collection, CollectionPatch, CollectionStage, DocumentFile, name_of_file
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.remote_lists import Stores
from app.gui.phrases import describe_collection, describe_collection_means
from app.gui.screens.documents.model import DocumentsModel
from app.gui.screens.documents.search_view import PassageSearchCard
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import EmptyState, ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import CardList, ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

if TYPE_CHECKING:
    from app.gui.net.api import GatewayCall

_ABOUT = LazyText(
    "A collection is a name for folders of documents. They are read on this computer, again whenever something in them "
    "changes, and chats that use the collection are given the passages that fit a question. With an embedding model, "
    "passages are found by what they mean; without one, by their words."
)
_NAME_WIDTH = 220


class DocumentsScreen(PageFrame):
    """Shows a `DocumentsModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Documents"))
        self.model = DocumentsModel(stores, shell)
        back = partial(shell.show_page, Pages.SETTINGS)
        self.head.addWidget(Button(theme, tr("Settings"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 3, is_card=True)
        self.form = CollectionForm(theme, self.model)
        nothing = tr("Name one above, and choose the folder that your documents are in.")
        self._nothing = EmptyState(theme, "book-open", tr("No collections yet"), nothing)
        self._list = CardList(theme)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        self.search = PassageSearchCard(theme, self.model)
        for widget in (self.search, self.form, self.error, self._skeleton, self._nothing, self._list):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_collections)
        self._show_collections()

    def find_card(self, collection: str) -> "CollectionCard":
        """Return the card of a collection, by its id. Raises KeyError."""
        card = self._list.rows[collection]
        assert isinstance(card, CollectionCard)  # noqa: S101 -- made by this class
        return card

    def _show_collections(self) -> None:
        model, store = self.model, self.model.store
        self._skeleton.setVisible(not store.is_known and store.error is None)
        self._nothing.setVisible(store.is_known and not model.collections)
        self.error.show_problem(model.problem)
        self.search.show_collections(model.collections)
        self._list.sync(
            {collection.id: collection for collection in model.collections},
            lambda _collection: CollectionCard(self.theme, model),
            CollectionCard.show_collection,
        )


class CollectionForm(Surface):
    """Adds a collection: a name, and a folder that is chosen."""

    def __init__(self, theme: Theme, model: DocumentsModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, tr("Add a collection"), weight=500))
        line = HBox(theme, gap=8)
        self.name = Field(theme, tr("Name of the collection"), placeholder=tr("Name"))
        self.name.setMinimumWidth(theme.px(_NAME_WIDTH))
        self.choose = Button(
            theme, tr("Choose a folder…"), name=tr("Choose a folder of the collection"), action=self.choose_folder
        )
        self.name.returnPressed.connect(self.choose_folder)
        line.addWidget(self.name, 1)
        line.addWidget(self.choose)
        box.addLayout(line)
        model.added.connect(self.name.clear)

    def choose_folder(self) -> None:
        """Ask for the folder, and add the collection; without a name, it has that of the folder."""
        folder = QFileDialog.getExistingDirectory(self, tr("A folder of documents"), QDir.homePath())
        if folder:
            self._model.add_collection(self.name.text().strip() or Path(folder).name, folder)


class CollectionCard(Surface):
    """One collection: how far it is, how passages are found, its folders."""

    def __init__(self, theme: Theme, model: DocumentsModel) -> None:
        super().__init__(theme)
        self._model = model
        self._collection = Collection(id="", name="", created_at=0.0)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(0, 4, 0, 12), gap=4)
        self.row = ListRow(theme)
        self._dot = Dot(theme)
        self.row.lead.addWidget(self._dot)
        self.more = IconButton(theme, "ellipsis", tr("More"), action=self._open_menu)
        self.row.tail.addWidget(self.more)
        box.addWidget(self.row)
        inner = VBox(theme, margins=(16, 0, 16, 0), gap=4)
        box.addLayout(inner)
        self._problem = Paragraph(theme, color="bad")
        self._means = Paragraph(theme, role="meta", color="ink-2")
        self._folders = Paragraph(theme, role="mono", color="ink-2")
        self._access = Paragraph(theme, role="meta", color="ink-2")
        self.unread = UnreadFiles(theme, model)
        for widget in (self._problem, self._means, self._folders, self._access, self.unread):
            inner.addWidget(widget)

    def show_collection(self, collection: Collection) -> None:
        """Show what is so now."""
        self._collection = collection
        about = describe_collection(collection)
        self.setAccessibleName(collection.name)
        self.row.show_text(collection.name, about)
        self.more.setAccessibleName(tr("More about {name}", name=collection.name))
        is_busy = collection.stage is not CollectionStage.READY
        state = "accent" if is_busy else "bad" if collection.problem or collection.missing_folders else "ok"
        self._dot.show_state(state, about)
        self._problem.setText(collection.problem)
        self._problem.setVisible(bool(collection.problem))
        self._means.setText(describe_collection_means(collection))
        self._folders.setText("\n".join(collection.folders))
        self._folders.setVisible(bool(collection.folders))
        self._access.setText(_describe_access(collection))
        self._access.setVisible(bool(self._access.text()))
        self.unread.show_collection(collection)

    def _change(self, patch: CollectionPatch) -> None:
        self._model.change(self._collection.id, patch)

    def _open_menu(self) -> None:
        collection, theme = self._collection, self.row.theme
        menu = Menu(theme, self, tr("More about {name}", name=collection.name))
        menu.add_entry(tr("Look for changes now"), partial(self._model.look_now, collection.id), icon="refresh-cw")
        menu.add_entry(tr("Add a folder…"), self._add_folder, icon="folder-plus")
        for folder in collection.folders if len(collection.folders) > 1 else []:
            rest = [other for other in collection.folders if other != folder]
            take_out = partial(self._change, CollectionPatch(folders=rest))
            menu.add_entry(tr("Take out {folder}", folder=folder), take_out, icon="minus")
        serve = partial(self._change, CollectionPatch(is_served=not collection.is_served))
        keep, share = tr("Keep it from other programs"), tr("Let programs at the endpoint search it")
        words = keep if collection.is_served else share
        menu.add_entry(words, serve, icon="globe")
        menu.add_entry(tr("Remove…"), partial(self._model.remove, collection), icon="trash-2")
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))

    def _add_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("Another folder of {name}", name=self._collection.name))
        if folder and folder not in self._collection.folders:
            self._change(CollectionPatch(folders=[*self._collection.folders, folder]))


class UnreadFiles(Fold):
    """The files of a collection that cannot be read, and why: fetched when they are unfolded."""

    def __init__(self, theme: Theme, model: DocumentsModel) -> None:
        files, rest = (
            RowList(theme, tr("Files that cannot be read"), inset=12),
            Paragraph(theme, role="meta", color="ink-2"),
        )
        content = QWidget()
        box = VBox(theme, content, gap=4)
        box.addWidget(files)
        box.addWidget(rest)
        rest.hide()
        super().__init__(theme, "", content)
        self.files, self._rest, self._model = files, rest, model
        self._shown_state: tuple[str, int, float | None] = ("", 0, None)
        self._call: GatewayCall | None = None

    def show_collection(self, collection: Collection) -> None:
        """Say how many there are; those that are shown are fetched again if they may be others."""
        known_state = (collection.id, collection.unread_files, collection.looked_at)
        count = collection.unread_files
        self.set_title(tr_plural("{count} file cannot be read", "{count} files cannot be read", count))
        self.setVisible(bool(count))
        if known_state != self._shown_state:
            self._shown_state = known_state
            if self.is_open:
                self._read()

    def toggle(self) -> None:
        """Unfold the files, which are fetched now, or fold them."""
        super().toggle()
        if self.is_open:
            self._read()

    def _read(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._call = self._model.read_unread_files(self._shown_state[0], self._show_files)

    def _show_files(self, files: list[DocumentFile]) -> None:
        self._call = None
        self.files.sync(
            {file.id: file for file in files},
            lambda _file: ListRow(self._theme, inset=12),
            lambda row, file: row.show_text(name_of_file(file.path), f"{file.problem} {file.path}"),
        )
        rest = self._shown_state[1] - len(files)
        self._rest.setText(tr_plural("{count} more is not listed.", "{count} more are not listed.", max(0, rest)))
        self._rest.setVisible(rest > 0)


def _describe_access(collection: Collection) -> str:
    parts = []
    if collection.is_served:
        parts.append(tr("Programs on this computer may search it at the endpoint."))
    if collection.keys:
        parts.append(tr("May be searched with the keys {names}.", names=", ".join(collection.keys)))
    return " ".join(parts)
