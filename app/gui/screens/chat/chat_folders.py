"""Folders of chats and tags as the window knows them, and the chats of the folders that are open."""

from collections.abc import Callable
from types import NoneType
from urllib.parse import quote

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.chats import ChatFolder, ChatFolderPatch, ChatSummary, NewChatFolder, TagCount
from app.core.errors import ErrorBody
from app.core.events import ChatFoldersChanged, Event
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.net.remote import RemoteList
from app.gui.shell.contract import Shell

_PATH = "/chats/folders"
PAGE = 60


class FolderStore(RemoteList[ChatFolder]):
    """The folders, by name."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, _PATH, list[ChatFolder])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a folder is not what it was."""
        return isinstance(event, ChatFoldersChanged)

    def find_folder(self, folder: str) -> ChatFolder | None:
        """Return a folder, if it is there."""
        return next((item for item in self.items if item.id == folder), None)


class TagStore(RemoteList[TagCount]):
    """The tags that chats have."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/chats/tags", list[TagCount])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a chat has other tags: it is said as of folders."""
        return isinstance(event, ChatFoldersChanged)


class FolderPages:
    """The chats of one open folder, as far as they were read."""

    def __init__(self, api: GatewayApi, folder: str, on_change: Callable[[], object]) -> None:
        self.items: list[ChatSummary] = []
        self.has_more = False
        self._api, self._on_change = api, on_change
        self._path = f"/chats?limit={PAGE}&folder={quote(folder, safe='')}"
        self._call: GatewayCall | None = None

    def fetch(self) -> None:
        """Read the first page; what was read after it is let go of."""
        self.close()
        self._call = self._api.get(self._path, list[ChatSummary], self._take_first, self._forget)

    def fetch_more(self) -> None:
        """Read the next page."""
        if self._call is None and self.has_more:
            path = f"{self._path}&before={self.items[-1].updated_at!r}"
            self._call = self._api.get(path, list[ChatSummary], self._append, self._forget)

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _take_first(self, items: list[ChatSummary]) -> None:
        self.items = []
        self._append(items)

    def _append(self, items: list[ChatSummary]) -> None:
        self._call = None
        self.items = [*self.items, *items]
        self.has_more = len(items) >= PAGE
        self._on_change()

    def _forget(self, _error: ErrorBody) -> None:
        self._call = None


class ChatFolders(QObject):
    """What can be done with folders. `created` carries a new one, whose name is to be typed."""

    changed = Signal()
    created = Signal(str)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.store = FolderStore(api, shell)
        self.tags = TagStore(api, shell)
        self._open: dict[str, FolderPages] = {}
        self.store.changed.connect(self._drop_gone)

    @property
    def items(self) -> list[ChatFolder]:
        """The folders, by name."""
        return self.store.items

    def find_folder(self, folder: str) -> ChatFolder | None:
        """Return a folder, if it is there."""
        return self.store.find_folder(folder)

    def pages_of(self, folder: str) -> FolderPages | None:
        """Return the chats of a folder, if it is open."""
        return self._open.get(folder)

    def find_chat(self, chat: str) -> ChatSummary | None:
        """Return a chat of an open folder."""
        return next((item for pages in self._open.values() for item in pages.items if item.id == chat), None)

    def toggle(self, folder: str, *, is_open: bool | None = None) -> None:
        """Open a folder in the list, or close it; without `is_open`, whichever it is not."""
        pages = self._open.pop(folder, None)
        wants_open = pages is None if is_open is None else is_open
        if wants_open:
            self._open[folder] = pages or FolderPages(self._api, folder, self.changed.emit)
            if pages is None:
                self._open[folder].fetch()
        elif pages is not None:
            pages.close()
        self.changed.emit()

    def fetch_open(self) -> None:
        """Read the chats of the open folders again."""
        for pages in self._open.values():
            pages.fetch()

    def hide_chat(self, chat: str) -> None:
        """Show a chat no longer that is about to leave."""
        for pages in self._open.values():
            pages.items = [item for item in pages.items if item.id != chat]

    def add_folder(self) -> None:
        """Make a folder whose name is still to be typed."""

        def tell(folder: ChatFolder) -> None:
            self.store.replace([*self.store.items, folder])
            self.created.emit(folder.id)

        new = NewChatFolder(name=tr("New folder"))
        self._api.post(_PATH, new, kind=ChatFolder, then=tell, on_error=self.failed.emit)

    def change_folder(self, folder: str, patch: ChatFolderPatch) -> None:
        """Change a folder, and show it changed at once."""
        if patch.name is not None and not patch.name.strip():
            return
        fields = {name: getattr(patch, name) for name in ("name", "model", "system_prompt")}
        known_fields = {name: value for name, value in fields.items() if value is not None}
        self.store.replace([replace(item, **known_fields) if item.id == folder else item for item in self.store.items])
        self._api.patch(
            f"{_PATH}/{quote_segment(folder)}",
            patch,
            kind=ChatFolder,
            then=self._put_folder,
            on_error=self._report_failure,
        )

    def delete_folder(self, folder: str, *, with_chats: bool) -> None:
        """Delete a folder; its chats stay, in none, or go to the trash."""
        self._api.send_request(
            "DELETE",
            f"{_PATH}/{quote_segment(folder)}{'?with_chats=true' if with_chats else ''}",
            None,
            kind=NoneType,
            then=lambda _: self.store.read(),
            on_error=self.failed.emit,
        )

    def _put_folder(self, folder: ChatFolder) -> None:
        self.store.replace([folder if item.id == folder.id else item for item in self.store.items])

    def _report_failure(self, error: ErrorBody) -> None:
        self.failed.emit(error)
        self.store.read()

    def _drop_gone(self) -> None:
        there = {item.id for item in self.store.items}
        for folder in [folder for folder in self._open if folder not in there]:
            self._open.pop(folder).close()
        self.changed.emit()
