"""What the page of collections knows and does: folders are added, looked at and removed through the gateway."""

from types import NoneType

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.documents import Collection, CollectionPatch, NewCollection
from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, Shell


class DocumentsModel(QObject):
    """The collections, by name. `changed`: they, or what is wrong, are not what they were."""

    changed = Signal()
    added = Signal()
    """What was asked for is there."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self.store = stores.collections
        self.refusal: ErrorBody | None = None
        """Why the last thing that was asked for was not done."""
        self.store.changed.connect(self.changed)

    @property
    def collections(self) -> list[Collection]:
        """The collections that are known."""
        return self.store.items

    def add_collection(self, name: str, folder: str) -> None:
        """Add a collection of a folder, which is read from then on."""
        new = NewCollection(name=" ".join(name.split()), folders=[folder])
        self._api.post("/collections", new, kind=Collection, then=self._finish_adding, failed=self._refuse)

    def change(self, collection: str, patch: CollectionPatch) -> None:
        """Change the folders of a collection, or who may search it."""
        path = _path_of(collection)
        self._api.patch(path, patch, kind=Collection, then=lambda _: self._finish(), failed=self._refuse)

    def look_now(self, collection: str) -> None:
        """Have the folders looked at now."""
        path = f"{_path_of(collection)}/index"
        self._api.post(path, None, kind=Collection, then=lambda _: self._finish(), failed=self._refuse)

    def remove(self, collection: Collection) -> None:
        """Remove a collection, once that is confirmed."""

        def delete() -> None:
            self._api.send_request(
                "DELETE",
                _path_of(collection.id),
                None,
                kind=NoneType,
                then=lambda _: self._tell_removal(collection.name),
                failed=self._refuse,
            )

        sentence = tr("Its index is deleted, and chats find nothing in it any more. The folders stay as they are.")
        title = tr("Remove {name}?", name=collection.name)
        self._shell.confirm(title, sentence, Command(tr("Remove"), delete, icon="trash-2"))

    def dismiss_refusal(self) -> None:
        """Say no more what went wrong."""
        if self.refusal is not None:
            self.refusal = None
            self.changed.emit()

    def _finish_adding(self, _collection: Collection) -> None:
        self._finish()
        self.added.emit()

    def _finish(self) -> None:
        self.dismiss_refusal()
        self.store.read()

    def _tell_removal(self, name: str) -> None:
        self.store.read()
        self._shell.show_toast(tr("{name} was removed.", name=name))

    def _refuse(self, error: ErrorBody) -> None:
        self.refusal = error
        self.changed.emit()


def _path_of(collection: str) -> str:
    return f"/collections/{quote_segment(collection)}"
