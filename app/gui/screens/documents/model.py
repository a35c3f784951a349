"""What the page of collections knows and does: folders are added, looked at, searched and removed by the gateway."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.documents import Collection, CollectionPatch, DocumentFile, NewCollection, PassageQuery, PassageResults
from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.net.api import ErrorHandler, GatewayApi, GatewayCall
from app.gui.net.managed_list import ManagedList
from app.gui.net.remote_lists import Stores
from app.gui.net.request_debouncer import RequestDebouncer
from app.gui.shell.contract import Shell

MOST_UNREAD = 200
"""Files that cannot be read which the page lists; `roundhouse collections show NAME --unread` lists all."""
_PASSAGES = 8


class DocumentsModel(ManagedList[Collection]):
    """The collections, by name."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(stores.collections, shell)
        self.search = PassageFinder(self.api, self)

    @property
    def collections(self) -> list[Collection]:
        """The collections that are known."""
        return self.store.items

    def add_collection(self, name: str, folder: str) -> None:
        """Add a collection of a folder, which is read from then on."""
        new = NewCollection(name=" ".join(name.split()), folders=[folder])
        self.api.post(
            "/collections", new, kind=Collection, then=lambda _: self.finish_adding(), on_error=self.show_refusal
        )

    def change(self, collection: str, patch: CollectionPatch) -> None:
        """Change the folders of a collection, or who may search it."""
        path = _path_of(collection)
        self.api.patch(path, patch, kind=Collection, then=lambda _: self.finish_change(), on_error=self.show_refusal)

    def look_now(self, collection: str) -> None:
        """Have the folders looked at now."""
        path = f"{_path_of(collection)}/index"
        self.api.post(path, None, kind=Collection, then=lambda _: self.finish_change(), on_error=self.show_refusal)

    def read_unread_files(self, collection: str, then: Callable[[list[DocumentFile]], object]) -> GatewayCall:
        """Fetch the files of a collection that cannot be read, the first of them by path."""
        path = f"{_path_of(collection)}/files?unread=true&limit={MOST_UNREAD}"
        return self.api.get(path, list[DocumentFile], then, self.show_refusal)

    def remove(self, collection: Collection) -> None:
        """Remove a collection, once that is confirmed."""
        sentence = tr("Its index is deleted, and chats find nothing in it any more. The folders stay as they are.")
        self.confirm_removal(collection.name, _path_of(collection.id), sentence)


class PassageFinder(QObject):
    """One search over collections. `changed`: it began, was answered or refused, or is about nothing any more."""

    changed = Signal()

    def __init__(self, api: GatewayApi, parent: QObject) -> None:
        super().__init__(parent)
        self._api = api
        self.results: PassageResults | None = None
        self.problem: ErrorBody | None = None
        self._request = RequestDebouncer(self._send, self)
        self._request.answered.connect(self._take_results)
        self._request.refused.connect(self._take_problem)

    @property
    def is_searching(self) -> bool:
        """Whether the answer is still to come: an embedding model may have to be loaded first."""
        return self._request.is_waiting

    def find_passages(self, text: str, collections: list[str]) -> None:
        """Search collections, by their ids; without words or collections, show nothing."""
        self.results = self.problem = None
        if text.strip() and collections:
            self._request.send_now(PassageQuery(text=text.strip(), collections=collections, limit=_PASSAGES))
        else:
            self._request.cancel_request()
        self.changed.emit()

    def _send(
        self, query: PassageQuery, then: Callable[[PassageResults], object], on_error: ErrorHandler
    ) -> GatewayCall:
        return self._api.post("/collections/search", query, kind=PassageResults, then=then, on_error=on_error)

    def _take_results(self, results: PassageResults) -> None:
        self.results = results
        self.changed.emit()

    def _take_problem(self, problem: ErrorBody) -> None:
        self.problem = problem
        self.changed.emit()


def _path_of(collection: str) -> str:
    return f"/collections/{quote_segment(collection)}"
